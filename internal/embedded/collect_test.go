// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	if c, err := embedded.Collect(ctx, dir, embedded.Collection{}); err != nil || c.Blobs != 0 || c.Repositories != nil {
		t.Fatalf("of nothing: %v, %v", c, err)
	}
	r, stop := newRepo(t, dir, embedded.Options{})
	kept := mustPush(t, r, "kept", "kept")
	untagged := mustPush(t, r, "untagged", "whose tag is gone")
	must.Succeed(t, r.Untag(ctx, "untagged"))
	moved := mustPush(t, r, "kept2", "before")
	mustPush(t, r, "kept2", "after")
	gone := mustPush(t, r, "gone", strings.Repeat("gone", 1000))
	must.Succeed(t, r.Delete(ctx, gone.Descriptor))
	if _, err := embedded.Collect(ctx, dir, embedded.Collection{}); !errors.Is(err, embedded.ErrInUse) {
		t.Errorf("while served: %v, want ErrInUse", err)
	}
	cut := must.Get(http.Post("http://"+r.Host()+"/v2/test/repo/blobs/uploads/", "", nil))(t)
	cut.Body.Close()
	dry, err := embedded.Collect(ctx, dir, embedded.Collection{DryRun: true})
	if err != nil || dry.Blobs != 6 || dry.Bytes < 4000 { // three manifests with one blob each
		t.Errorf("dry: %+v, %v; want 6 blobs", dry, err)
	}
	stop()

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := embedded.Collect(canceled, dir, embedded.Collection{}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v, want canceled", err)
	}
	young, err := embedded.Collect(ctx, dir, embedded.Collection{MinAge: time.Hour})
	if err != nil || young.Blobs != 0 || young.Bytes == 0 {
		t.Errorf("of the last hour: %+v, %v; want the upload that nobody can go on with", young, err)
	}
	real, err := embedded.Collect(ctx, dir, embedded.Collection{})
	if err != nil || real.Blobs != dry.Blobs || real.Bytes+young.Bytes != dry.Bytes {
		t.Errorf("real: %+v, %v; dry %+v", real, err, dry)
	}
	if again, err := embedded.Collect(ctx, dir, embedded.Collection{}); err != nil || again.Blobs != 0 || again.Bytes != 0 {
		t.Errorf("again: %+v, %v; want nothing", again, err)
	}
	if left := below(t, filepath.Join(dir, "docker/registry/v2/repositories/test/repo/_uploads")); len(left) > 0 {
		t.Errorf("cut uploads left: %v", left)
	}

	r, stop = newRepo(t, dir, embedded.Options{})
	defer stop()
	image := must.Get(kept.Image())(t)
	if b, err := r.ReadBlob(ctx, image.Layers[0], 100); err != nil || string(b) != "kept" {
		t.Errorf("what was kept: %q, %v", b, err)
	}
	for _, m := range []oci.Manifest{untagged, moved, gone} {
		if _, err := r.Fetch(ctx, m.Digest.String()); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("a manifest without a tag: %v", err)
		}
	}
	mustPush(t, r, "gone", strings.Repeat("gone", 1000)) // removed content can be pushed again
}

func below(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

// age sets the time of everything in a directory back by a month.
func age(t *testing.T, dir string) {
	t.Helper()
	then := time.Now().Add(-30 * 24 * time.Hour)
	must.Succeed(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, then, then)
	}))
}

func image(t *testing.T, subject *oci.Descriptor, text string) (oci.Manifest, oci.Blob) {
	t.Helper()
	b := oci.BytesBlob("text/plain", []byte(text))
	m := must.Get(oci.NewManifest(ocispec.Manifest{
		ArtifactType: "a/b", Config: oci.EmptyBlob().Descriptor, Layers: []oci.Descriptor{b.Descriptor}, Subject: subject,
	}))(t)
	return m, b
}

func push(t *testing.T, r *oci.Repo, tag string, m oci.Manifest, blobs ...oci.Blob) oci.Manifest {
	t.Helper()
	must.Get(r.Push(t.Context(), oci.Artifact{Blobs: append(blobs, oci.EmptyBlob()), Root: m}))(t)
	if tag != "" {
		must.Succeed(t, r.PutTag(t.Context(), tag, m))
	}
	return m
}

func pushImage(t *testing.T, r *oci.Repo, tag string, subject *oci.Descriptor, text string) oci.Manifest {
	t.Helper()
	m, b := image(t, subject, text)
	return push(t, r, tag, m, b)
}

func indexOf(children ...oci.Manifest) (i ocispec.Index) {
	for _, c := range children {
		i.Manifests = append(i.Manifests, c.Descriptor)
	}
	return i
}

func pushIndex(t *testing.T, r *oci.Repo, tag string, children ...oci.Manifest) oci.Manifest {
	t.Helper()
	m := must.Get(oci.NewIndex(indexOf(children...)))(t)
	return push(t, r, tag, m)
}

// TestReachable collects in a running registry and states for each manifest why
// it is kept or removed.
//
// Shows: mistakes 24
func TestReachable(t *testing.T) {
	dir := t.TempDir()
	r, registry := serveDir(t, dir)
	other := must.Get(oci.OpenRepo(r.Host()+"/other", oci.Options{}))(t)
	child := pushImage(t, r, "", nil, "child of an index with a tag")
	lost := pushImage(t, r, "", nil, "child of an index without one")
	index := pushIndex(t, r, "index", child)
	root := pushIndex(t, r, "root", index)
	must.Succeed(t, r.Untag(t.Context(), "index"))
	noIndex := pushIndex(t, r, "", lost)
	signed := pushImage(t, r, "1.0.0", nil, "signed")
	signature := pushImage(t, r, "", &signed.Descriptor, "signature")
	counter := pushImage(t, r, "", &signature.Descriptor, "signature of a signature")
	list := pushIndex(t, r, "sha256-"+signed.Digest.Encoded(), signature)
	cosign := pushImage(t, r, "sha256-"+signed.Digest.Encoded()+".sig", nil, "cosign")
	old := pushImage(t, r, "", nil, "signed and untagged")
	oldSignature := pushImage(t, r, "", &old.Descriptor, "its signature")
	oldList := pushIndex(t, r, "sha256-"+old.Digest.Encoded(), oldSignature)
	foreign := pushImage(t, r, "sha256-"+strings.Repeat("0", 64), nil, "of a subject elsewhere")
	pushImage(t, r, "", nil, "shared blob")
	shared := pushImage(t, other, "1", nil, "shared blob")
	asked := pushImage(t, other, "", nil, "asked for just now")

	age(t, dir)
	young := pushImage(t, r, "", nil, "pushed just now")
	must.Get(other.Resolve(t.Context(), asked.Digest.String()))(t)
	c := must.Get(registry.Collect(t.Context(), embedded.Collection{MinAge: time.Hour}))(t)
	for _, g := range c.Repositories {
		if g.Repository == "test/repo" && g.Tags != 1 {
			t.Errorf("%+v, want one tag gone", g)
		}
	}
	for name, m := range map[string]oci.Manifest{
		"root": root, "index": index, "child": child, "signed": signed, "signature": signature, "signature of a signature": counter,
		"referrers": list, "cosign": cosign, "subject elsewhere": foreign, "young": young,
	} {
		mustHave(t, r, name, m)
	}
	mustHave(t, other, "shared", shared)
	mustHave(t, other, "asked", asked)
	for name, m := range map[string]oci.Manifest{
		"index without a tag": noIndex, "its child": lost, "old": old, "its signature": oldSignature, "its referrers": oldList,
	} {
		if _, err := r.Fetch(t.Context(), m.Digest.String()); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("%s: %v, want not found", name, err)
		}
	}
	for tag, err := range r.Tags(t.Context()) {
		if err != nil || strings.Contains(tag, old.Digest.Encoded()) {
			t.Errorf("tag %s, %v", tag, err)
		}
	}
}

// mustHave reads a manifest and all its blobs.
func mustHave(t *testing.T, r *oci.Repo, name string, m oci.Manifest) {
	t.Helper()
	got, err := r.Fetch(t.Context(), m.Digest.String())
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if got.MediaType == ocispec.MediaTypeImageIndex {
		return
	}
	img := must.Get(got.Image())(t)
	for _, l := range img.Layers {
		if _, err := r.ReadBlob(t.Context(), l, 1<<20); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStays: repeated writes leave only reachable content after a collection.
func TestStays(t *testing.T) {
	dir := t.TempDir()
	r, registry := serveDir(t, dir)
	pushImage(t, r, "kept", nil, "last")
	age(t, dir)
	before := all(t, dir)
	for i := range 5 {
		m := pushImage(t, r, "kept", nil, strings.Repeat("x", i+1))
		pushImage(t, r, "claim", nil, strings.Repeat("y", i+1))
		must.Succeed(t, r.Delete(t.Context(), m.Descriptor))
		must.Succeed(t, r.Untag(t.Context(), "claim"))
	}
	pushImage(t, r, "kept", nil, "last")
	other := must.Get(oci.OpenRepo(r.Host()+"/instances/one", oci.Options{}))(t)
	pushImage(t, other, "v1", nil, "of a repository that ends")
	must.Succeed(t, other.Untag(t.Context(), "v1"))
	age(t, dir)
	for range 2 { // the second one finds the repository empty
		must.Get(registry.Collect(t.Context(), embedded.Collection{MinAge: time.Hour}))(t)
	}
	if after := all(t, dir); after != before {
		t.Errorf("left:\n%s\nwant:\n%s", after, before)
	}
}

// all lists every file and directory except those of this package.
func all(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must.Succeed(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), ".okara") {
			return nil
		}
		rel, _ := filepath.Rel(dir, path)
		b.WriteString(rel + "\n")
		return err
	}))
	return b.String()
}

// serveDir serves a directory until the end of the test.
func serveDir(t *testing.T, dir string) (*oci.Repo, *embedded.Registry) {
	t.Helper()
	return serveRegistry(t, dir, embedded.Options{})
}
