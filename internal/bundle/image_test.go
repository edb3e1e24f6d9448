// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"errors"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// imageIndex adds an image for two platforms, and its SBOM as a referrer.
func (f *forged) imageIndex(t *testing.T, entry, tag string) oci.Descriptor {
	t.Helper()
	var index ocispec.Index
	for _, arch := range []string{"amd64", "arm64"} {
		d := f.image(t, ocispec.Manifest{Annotations: map[string]string{"for": tag + arch}})
		d.Platform = &ocispec.Platform{OS: "linux", Architecture: arch}
		index.Manifests = append(index.Manifests, d)
	}
	m := must.Get(oci.NewIndex(index))(t)
	d := f.manifest(m)
	f.list(entry+":"+tag, d)
	sbom := f.image(t, ocispec.Manifest{ArtifactType: "application/spdx+json", Subject: &d})
	f.list(entry+"@"+sbom.Digest.String(), sbom)
	return d
}

// TestLoadImages loads a container image only if images are requested.
//
// Shows: operator 21
func TestLoadImages(t *testing.T) {
	var f forged
	want := f.imageIndex(t, "images/okara", "1.0.0")
	d, client, count := counted(t)
	if _, err := bundle.Load(t.Context(), d, f.open(t), bundle.LoadOptions{Trusted: true}); !errors.Is(err, oci.ErrCorrupt) || !errors.Is(err, bundle.ErrImage) || count.Total() > 0 {
		t.Errorf("loaded an image that nobody asked for: %v, %d requests", err, count.Total())
	}
	for range 2 {
		if report, err := bundle.Load(t.Context(), d, f.open(t), bundle.LoadOptions{Images: true}); err != nil || len(report.Refused)+len(report.Conflict) > 0 {
			t.Fatalf("loaded %+v, %v", report, err)
		}
	}
	r := depottest.MustRepo(t, client, "p/images/okara")
	if got := depottest.MustFetch(t, r, "1.0.0"); got.Digest != want.Digest {
		t.Errorf("the tag is %s, the bundle has %s", got.Digest, want.Digest)
	}
	if refs, err := r.Referrers(t.Context(), want, "application/spdx+json"); err != nil || len(refs) != 1 {
		t.Errorf("referrers %v, %v", refs, err)
	}
	if entries, err := d.Catalog(t.Context()); err != nil || len(entries) > 0 {
		t.Errorf("catalog %v, %v", entries, err)
	}

	var moved forged
	moved.imageIndex(t, "images/okara", "1.0.0")
	moved.index.Manifests = moved.index.Manifests[:0]
	moved.list("images/okara:1.0.0", moved.image(t, ocispec.Manifest{}))
	report, err := bundle.Load(t.Context(), d, moved.open(t), bundle.LoadOptions{Images: true})
	if err != nil || len(report.Conflict) != 1 {
		t.Errorf("moved a tag: %+v, %v", report, err)
	}
	if got := depottest.MustFetch(t, r, "1.0.0"); got.Digest != want.Digest {
		t.Errorf("the tag has moved to %s", got.Digest)
	}
}

// TestLoadImagesStay lists repositories and tags that an image must not use.
//
// Shows: operator 21
func TestLoadImagesStay(t *testing.T) {
	for _, c := range []struct {
		entry  string
		layout addr.Layout
	}{
		{"images/a/b:1", addr.Layout{}},
		{"images/..:1", addr.Layout{}},
		{"image/okara:1", addr.Layout{}},
		{"state/shop:1", addr.Layout{}},
		{"images/shop:1", addr.Layout{State: "{prefix}/images/{name}"}},
		{"images/okara:1", addr.Layout{Queue: "{prefix}/images/okara"}},
		{"images/okara" + statusTag, addr.Layout{}},
	} {
		t.Run(c.entry, func(t *testing.T) {
			var f forged
			f.list(c.entry, f.image(t, ocispec.Manifest{ArtifactType: evidence.ArtifactStatus}))
			count := &ocitest.Count{}
			_, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: count})
			c.layout.Prefix = "p"
			d := depot.New(depot.Options{Client: client, Layout: c.layout})
			if report, err := bundle.Load(t.Context(), d, f.open(t), bundle.LoadOptions{Images: true, Trusted: true}); err == nil || count.Total() > 0 {
				t.Errorf("loaded %+v with %d requests", report, count.Total())
			}
		})
	}
}
