// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func TestExamineProvider(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	o := depot.ProviderOptions{SignKey: mustKey(t)}
	old := fstest.MapFS{}
	for name, f := range depottest.NewDist(t, "linux_amd64", "darwin_arm64") {
		old[strings.Replace(name, "1.2.3", "1.2.2", 1)] = f
	}
	must.Get(d.PublishProvider(t.Context(), old, depottest.DNS(), depottest.MustVersion(t, "1.2.2"), o))(t)
	examine := func() map[string]string {
		t.Helper()
		findings := must.Get(d.Examine(t.Context(), depottest.DNS().Item(), false))(t)
		out := map[string]string{}
		for _, f := range findings {
			out[f.Tag] += f.Problem
		}
		return out
	}
	if got := examine(); len(got) > 0 {
		t.Fatalf("a sound repository: %v", got)
	}
	must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), depottest.MustVersion(t, "1.2.3"), o))(t)
	r := depottest.MustRepo(t, client, depottest.ProviderRepo)
	good := depottest.MustFetch(t, r, "1.2.3")
	index := must.Get(artifact.ParseProviderIndex(good))(t)
	target := depottest.MustFetch(t, r, index.Platforms[0].Manifest.Digest.String())
	for tag, m := range map[string]oci.Manifest{"1.2": good, "20240101": good, "1.0.0": target, "1.1.0": rezipped(t, index)} {
		must.Succeed(t, r.PutTag(t.Context(), tag, m))
	}
	want := map[string]string{
		"1.2":      "OpenTofu reads the tag as version 1.2.0, which does not exist, and fails",
		"20240101": "OpenTofu reads the tag as version 20240101.0.0, which does not exist, and fails",
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

// rezipped returns an index with a package hash that differs from its layer.
func rezipped(t *testing.T, index artifact.ProviderIndex) oci.Manifest {
	t.Helper()
	p := index.Platforms[0]
	p.Zh = digest.FromBytes([]byte("other")).Encoded()
	return newIndex(t, index, "1.1.0", p)
}

// newIndex combines a package with the metadata of another.
func newIndex(t *testing.T, index artifact.ProviderIndex, version string, p artifact.ProviderPlatform) oci.Manifest {
	t.Helper()
	p.Manifest.Platform, p.Manifest.Annotations = nil, nil
	index.Version, index.Annotations, index.Platforms = depottest.MustVersion(t, version), nil, []artifact.ProviderPlatform{p}
	return must.Get(artifact.NewProviderIndex(addr.KindProvider, depottest.DNS(), index, oci.Manifest{Descriptor: *index.Metadata, Bytes: index.Metadata.Data}))(t)
}

// TestExamineRezipped: a package zipped again is found by manifests, or else by the zip's bytes.
func TestExamineRezipped(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	d, client := depottest.NewDepot(t, host, oci.Options{})
	dist := depottest.NewDist(t, "linux_amd64")
	must.Get(d.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t)}))(t)
	r := depottest.MustRepo(t, client, depottest.ProviderRepo)
	index := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3")))(t)
	zip := oci.BytesBlob(artifact.MediaZip, depottest.NewZip(t, depottest.File("terraform-provider-dns_v1.2.3", "binary for linux_amd64", 0o755), depottest.File("LICENSE", "free", 0o644)))
	target := must.Get(artifact.NewProviderTarget(zip.Descriptor, "x.zip"))(t)
	must.Get(r.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{zip, oci.EmptyBlob()}, Root: target}))(t)
	original := index.Platforms[0]
	kept, reported, wrong := original, original, original
	kept.Manifest = target.Descriptor
	reported.Manifest, reported.Zh, reported.Size = target.Descriptor, zip.Digest.Encoded(), zip.Size
	wrong.H1 = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

	tests := []struct {
		name     string
		platform artifact.ProviderPlatform
		deep     bool
		want     string // "": nothing is found
	}{
		{"sound", original, true, ""},
		{"with the hashes of the original", kept, false, "platform linux_amd64: the index says zh " + original.Zh + ", the manifest has " + reported.Zh},
		{"with its own hashes", reported, false, "platform linux_amd64: " + original.Filename + " has " + reported.Zh + ", expected " + original.Zh},
		{"wrong h1, manifests only", wrong, false, ""},
		{"wrong h1", wrong, true, "platform linux_amd64: the index says " + wrong.H1 + ", the zip has " + original.H1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			must.Succeed(t, r.PutTag(t.Context(), "1.2.3", newIndex(t, index, "1.2.3", tt.platform)))
			findings := must.Get(d.Examine(t.Context(), depottest.DNS().Item(), tt.deep))(t)
			var got strings.Builder
			for _, f := range findings {
				got.WriteString(f.Tag + " " + f.Problem)
			}
			if tt.want == "" && got.String() != "" || !strings.HasPrefix(got.String(), "1.2.3 "+tt.want) && tt.want != "" {
				t.Errorf("got %q, want %q", got.String(), tt.want)
			}
		})
	}

	// A registry that serves other bytes than it received.
	damaged := &ocitest.Fault{Match: ocitest.On(http.MethodGet, "blob"), Times: -1, Do: ocitest.Corrupt}
	broken, _ := depottest.NewDepot(t, host, oci.Options{Transport: damaged})
	for deep, want := range map[bool]int{false: 0, true: 1} {
		must.Succeed(t, r.PutTag(t.Context(), "1.2.3", newIndex(t, index, "1.2.3", original)))
		findings, err := broken.Examine(t.Context(), depottest.DNS().Item(), deep)
		if err != nil || len(findings) != want {
			t.Errorf("damaged bytes, deep %v: %v, %v", deep, findings, err)
		}
	}
}
