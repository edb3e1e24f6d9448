// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

func TestExamineProvider(t *testing.T) {
	d, client := newDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	o := depot.ProviderOptions{SignKey: mustKey(t)}
	old := fstest.MapFS{}
	for name, f := range newDist(t, "linux_amd64", "darwin_arm64") {
		old[strings.Replace(name, "1.2.3", "1.2.2", 1)] = f
	}
	if _, err := d.PublishProvider(t.Context(), old, dns(), mustVersion(t, "1.2.2"), o); err != nil {
		t.Fatal(err)
	}
	examine := func() map[string]string {
		t.Helper()
		findings, err := d.Examine(t.Context(), providerRepo)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, f := range findings {
			out[f.Tag] += f.Problem
		}
		return out
	}
	if got := examine(); len(got) > 0 {
		t.Fatalf("a sound repository: %v", got)
	}
	if _, err := d.PublishProvider(t.Context(), newDist(t, "linux_amd64"), dns(), mustVersion(t, "1.2.3"), o); err != nil {
		t.Fatal(err)
	}
	r := mustRepoOf(t, client, providerRepo)
	good := mustFetch(t, r, "1.2.3")
	index, err := oci.ParseProviderIndex(good)
	if err != nil {
		t.Fatal(err)
	}
	target := mustFetch(t, r, index.Platforms[0].Manifest.Digest.String())
	for tag, m := range map[string]oci.Manifest{"1.2": good, "20240101": good, "1.0.0": target, "1.1.0": rezipped(t, index)} {
		if err := r.PutTag(t.Context(), tag, m); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"1.2":      "OpenTofu takes the tag for version 1.2.0, which does not exist, and fails",
		"20240101": "OpenTofu takes the tag for version 20240101.0.0, which does not exist, and fails",
		"1.2.3":    "no package for darwin_arm64, which 1.2.2 has",
		"1.0.0":    "index: ",
		"1.1.0":    "platform linux_amd64: ",
	}
	got := maps.Clone(examine())
	for _, tag := range []string{"1.0.0", "1.1.0"} {
		got[tag], _, _ = strings.Cut(got[tag], ": ")
		got[tag] += ": "
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
}

// rezipped returns an index whose hash of a package is not that of its layer.
func rezipped(t *testing.T, index oci.ProviderIndex) oci.Manifest {
	t.Helper()
	index.Version = mustVersion(t, "1.1.0")
	index.Annotations = nil
	p := index.Platforms[0]
	p.Zh, p.Manifest.Platform = sha256Hex([]byte("other")), nil
	index.Platforms = []oci.ProviderPlatform{p}
	m, err := oci.NewProviderIndex(oci.KindProvider, dns(), index, oci.Manifest{Descriptor: *index.Metadata, Bytes: index.Metadata.Data})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
