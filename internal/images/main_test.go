// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestBase: the base image does not change, and ko finds it without a registry.
func TestBase(t *testing.T) {
	dir := t.TempDir()
	got := must.Get(seedCache(dir))(t)
	must.Equal(t, "the base", got, "okara.invalid/empty@sha256:7863d89ec1a350c0f53f23abb010fbb11c3c30ea9e1bdb642b8599e63ffb4df6")
	src := must.Get(os.ReadFile(filepath.Join(dir, "index.json")))(t)
	var index ocispec.Index
	must.Succeed(t, json.Unmarshal(src, &index))
	if len(index.Manifests) != 1+len(imagePlatforms()) {
		t.Errorf("the cache lists %d manifests", len(index.Manifests))
	}
	for _, d := range index.Manifests {
		if b, err := os.ReadFile(filepath.Join(dir, "blobs", "sha256", d.Digest.Encoded())); err != nil || int64(len(b)) != d.Size {
			t.Errorf("manifest %s: %d bytes, %v", d.Digest, len(b), err)
		}
	}
}

// TestImages builds the images twice, compares every byte, loads them into a registry,
// and checks the result.
//
// Shows: operator 21 | images: two builds are equal, both platforms, not root, their contents;
// transferred across an air gap
func TestImages(t *testing.T) {
	ko := os.Getenv("OKARA_TEST_KO")
	if ko == "" {
		t.Skip("two programs for two platforms take minutes to build: make interop does, with OKARA_TEST_KO")
	}
	t.Chdir("../..")
	dir := t.TempDir()
	var files [2]string
	for i := range files {
		files[i] = filepath.Join(dir, string(rune('a'+i)))
		must.Succeed(t, buildImages(t.Context(), ko, files[i], "1.2.3"))
	}
	a, errA := os.ReadFile(files[0])
	if b, errB := os.ReadFile(files[1]); errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Fatalf("two builds differ: %d and %d bytes, %v, %v", len(a), len(b), errA, errB)
	}
	f := must.Get(bundle.Open(files[0]))(t)
	defer f.Close()
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	must.Get(bundle.Load(t.Context(), d, f, bundle.LoadOptions{Images: true}))(t)
	for _, name := range []string{"okara", "okara-operator"} {
		looksRight(t, depottest.MustRepo(t, client, "p/images/"+name), name)
	}
}

func looksRight(t *testing.T, r *oci.Repo, name string) {
	t.Helper()
	m := depottest.MustFetch(t, r, "1.2.3")
	index := must.Get(m.Index())(t)
	var have []string
	for _, d := range index.Manifests {
		have = append(have, d.Platform.OS+"/"+d.Platform.Architecture)
		image := must.Get(depottest.MustFetch(t, r, d.Digest.String()).Image())(t)
		var config ocispec.Image
		must.Succeed(t, json.Unmarshal(blob(t.Context(), t, r, image.Config), &config))
		if config.Config.User != user || len(config.Config.Entrypoint) != 1 || filepath.Base(config.Config.Entrypoint[0]) != name || config.Architecture != d.Platform.Architecture {
			t.Errorf("%s for %s is %+v", name, config.Architecture, config.Config)
		}
	}
	if got, want := strings.Join(have, " "), strings.Join(imagePlatforms(), " "); got != want {
		t.Errorf("%s is for %s, want %s", name, got, want)
	}
	refs, err := r.Referrers(t.Context(), m.Descriptor, mediaSBOM)
	if err != nil || len(refs) != len(imagePlatforms()) {
		t.Fatalf("%s has %d documents of what it is made of, %v", name, len(refs), err)
	}
	for _, d := range refs {
		document := must.Get(depottest.MustFetch(t, r, d.Digest.String()).Image())(t)
		var spdx struct {
			SPDXVersion string
			Packages    []struct{ Name string }
		}
		if err := json.Unmarshal(blob(t.Context(), t, r, document.Layers[0]), &spdx); err != nil || spdx.SPDXVersion == "" || len(spdx.Packages) < 50 {
			t.Errorf("%s: %s with %d packages, %v", name, spdx.SPDXVersion, len(spdx.Packages), err)
		}
	}
}

func blob(ctx context.Context, t *testing.T, r *oci.Repo, d oci.Descriptor) []byte {
	t.Helper()
	return must.Get(r.ReadBlob(ctx, d, 4<<20))(t)
}
