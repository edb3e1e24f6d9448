// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
)

// TestBundle unpacks a bundle with tar, and checks its OCI layout with another client.
func TestBundle(t *testing.T) {
	client := newClient(t, startOlareg(t), oci.Options{})
	d := depot.New(depot.Options{Client: client})
	publishModule(t, d)
	key := must.Get(signing.NewKey(signing.KeyOptions{Name: "Test", ECC: true}))(t)
	publishProvider(t, d, key)
	entries := must.Get(d.Catalog(t.Context()))(t)
	var items []bundle.Item
	for _, e := range entries {
		what := must.Get(addr.ParseSelection(e.Address))(t)
		item := must.Get(bundle.Select(t.Context(), d, what))(t)
		items = append(items, item)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "b.tar")
	must.Get(bundle.Create(t.Context(), d, file, items, bundle.CreateOptions{}))(t)
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", file, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	index := must.Get(layout.ImageIndexFromPath(dir))(t)
	manifest := must.Get(index.IndexManifest())(t)
	must.Succeed(t, validate.Index(index))
	kinds := map[types.MediaType]int{}
	for _, m := range manifest.Manifests {
		kinds[m.MediaType]++
	}
	if kinds[types.OCIImageIndex] != 1 || kinds[types.OCIManifestSchema1] != 3 {
		t.Errorf("roots %v, want three versions of the module and one of the provider", kinds)
	}
}
