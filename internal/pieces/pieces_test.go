// SPDX-License-Identifier: Apache-2.0

package pieces_test

import (
	"strconv"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/pieces"
	"github.com/seed-141914ff/okara/oci"
)

// TestManyReports: more than are read leave the version readable, requests bounded.
func TestManyReports(t *testing.T) {
	r := must.Get(oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/modules/net/vpc/aws", oci.Options{}))(t)
	put := func(subject *oci.Descriptor, i int) oci.Manifest {
		t.Helper()
		m, err := oci.NewManifest(ocispec.Manifest{
			ArtifactType: "application/x-test", Config: oci.EmptyBlob().Descriptor, Subject: subject,
			Annotations: map[string]string{"n": strconv.Itoa(i)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if subject == nil {
			_, err = r.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob()}, Root: m})
		} else {
			err = r.PutManifest(t.Context(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	root := put(nil, 0)
	const reports = 1010
	all := make([]oci.Manifest, reports)
	for i := range all {
		all[i] = put(&root.Descriptor, i+1)
	}
	// The registry has no referrers API: a tag holds the list.
	list := make([]oci.Descriptor, reports)
	for i, m := range all {
		list[i] = m.Descriptor
	}
	index, err := oci.NewIndex(ocispec.Index{Manifests: list})
	if err == nil {
		err = r.PutTag(t.Context(), strings.Replace(root.Digest.String(), ":", "-", 1), index)
	}
	if err != nil {
		t.Fatal(err)
	}
	v := must.Get(addr.ParseVersion("1.0.0"))(t)
	s := must.Get(pieces.Of(t.Context(), r, root.Digest, v, &depot.Listing{Repository: r, Tags: []string{"1.0.0"}}))(t)
	has := 0
	for _, m := range all {
		if s.Has(m.Digest) {
			has++
		}
	}
	if !s.Has(root.Digest) || !s.HasTag("1.0.0") || has != 999 {
		t.Errorf("root %v, tag %v, %d reports, want 999", s.Has(root.Digest), s.HasTag("1.0.0"), has)
	}
}
