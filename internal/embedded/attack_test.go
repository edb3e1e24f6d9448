// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

func blobFile(dir, hex string) string {
	return filepath.Join(dir, "docker/registry/v2/blobs/sha256", hex[:2], hex, "data")
}

func tagDir(dir, tag string) string {
	return filepath.Join(dir, "docker/registry/v2/repositories/test/repo/_manifests/tags", tag)
}

// damage changes one byte of a file in place, as a failing disk does.
func damage(t *testing.T, file string) {
	t.Helper()
	b := must.Get(os.ReadFile(file))(t)
	b[0] ^= 1
	must.Succeed(t, os.WriteFile(file, b, 0o600))
}

// TestDamaged checks a blob and a manifest whose bytes do not match their
// digest. They used to be delivered with 200 and their full length.
//
// Shows: mistakes 13 | the built-in registry delivered a damaged blob as intact | a file is hashed
// when it is first read, and again after a change; a damaged file is an error, and pushing it again
// replaces it
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	r, _ := serveRegistry(t, dir, embedded.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	m, blob := image(t, nil, "0123456789")
	push(t, r, "v1", m, blob)
	answer := func(method, path string) (int, string) {
		t.Helper()
		req := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+r.Host()+"/v2/test/repo/"+path, nil))(t)
		req.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json")
		resp := must.Get(http.DefaultClient.Do(req))(t)
		defer resp.Body.Close()
		body := must.Get(io.ReadAll(resp.Body))(t)
		return resp.StatusCode, string(body)
	}
	digest := blob.Descriptor.Digest
	if status, body := answer(http.MethodGet, "blobs/"+digest.String()); status != http.StatusOK || body != "0123456789" {
		t.Fatalf("whole: %d %q", status, body)
	}
	damage(t, blobFile(dir, digest.Encoded()))
	for range 2 {
		if status, body := answer(http.MethodGet, "blobs/"+digest.String()); status != http.StatusInternalServerError || strings.Contains(body, "123456789") {
			t.Errorf("damaged: %d %q", status, body)
		}
	}
	if n := strings.Count(log.String(), "is damaged"); n != 1 {
		t.Errorf("reported %d times:\n%s", n, &log)
	}
	if _, err := r.ReadBlob(t.Context(), blob.Descriptor, 100); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("to okara: %v, want corrupt data", err)
	}
	if status, _ := answer(http.MethodHead, "blobs/"+digest.String()); status != http.StatusNotFound {
		t.Errorf("HEAD: %d, nobody would send it again", status)
	}
	push(t, r, "v1", m, blob)
	if status, body := answer(http.MethodGet, "blobs/"+digest.String()); status != http.StatusOK || body != "0123456789" {
		t.Errorf("pushed again: %d %q", status, body)
	}

	damage(t, blobFile(dir, m.Digest.Encoded()))
	for range 2 { // never 404: a reader of a state would conclude that there is none
		if status, body := answer(http.MethodGet, "manifests/v1"); status != http.StatusInternalServerError {
			t.Errorf("manifest: %d %q", status, body)
		}
	}
	push(t, r, "v1", m, blob)
	if status, body := answer(http.MethodGet, "manifests/v1"); status != http.StatusOK {
		t.Errorf("manifest pushed again: %d %q", status, body)
	}
}

// TestDamagedManifest checks that nothing is removed while a tag leads to a
// damaged manifest, because its needs are unknown.
//
// Shows: mistakes 13
func TestDamagedManifest(t *testing.T) {
	dir := t.TempDir()
	r, stop := newRepo(t, dir, embedded.Options{})
	m := pushImage(t, r, "v1", nil, "one")
	lost := pushImage(t, r, "", nil, "two")
	stop()
	damage(t, blobFile(dir, m.Digest.Encoded()))
	if _, err := embedded.Collect(t.Context(), dir, embedded.Collection{}); !errors.Is(err, embedded.ErrDamaged) {
		t.Errorf("got %v, want damaged", err)
	}
	if _, err := os.Stat(blobFile(dir, lost.Digest.Encoded())); err != nil {
		t.Error(err)
	}
}

// TestDanglingTag checks a tag whose write was interrupted, which used to be
// listed and never found.
//
// Shows: mistakes 25 | a kill left tags that are listed but cannot be read; such a claim locked a
// state until an administrator intervened | the built-in registry removes them; on any registry a
// claim that stays unreadable for a minute is ended and reported; lists omit other such tags
func TestDanglingTag(t *testing.T) {
	dir := t.TempDir()
	r, stop := newRepo(t, dir, embedded.Options{})
	m := pushImage(t, r, "v1", nil, "one")
	deleted := pushImage(t, r, "state-default-v1", nil, "whose DELETE was cut off")
	stop()
	link := "docker/registry/v2/repositories/test/repo/_manifests/revisions/sha256/" + deleted.Digest.Encoded() + "/link"
	must.Succeed(t, os.Remove(filepath.Join(dir, link)))
	for _, dangling := range []string{
		"locked-default-000000000001-00/index/sha256/" + m.Digest.Encoded(),
		"locked-default-000000000001-01/current",
	} {
		must.Succeed(t, os.MkdirAll(tagDir(dir, dangling), 0o700))
	}
	must.Succeed(t, os.WriteFile(filepath.Join(tagDir(dir, "locked-default-000000000001-01/current"), "link.x.tmp"), []byte("sha"), 0o600))
	r, stop = newRepo(t, dir, embedded.Options{})
	defer stop()
	mustList(t, r, "v1")

	// A failing write: the directory of the link is a file.
	must.Succeed(t, os.MkdirAll(tagDir(dir, "v2"), 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(tagDir(dir, "v2"), "current"), nil, 0o600))
	if err := r.PutTag(t.Context(), "v2", m); err == nil {
		t.Error("written")
	}
}

func mustList(t *testing.T, r *oci.Repo, want ...string) {
	t.Helper()
	var got []string
	for tag, err := range r.Tags(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, tag)
	}
	if !slices.Equal(got, want) {
		t.Errorf("tags %q, want %q", got, want)
	}
}

// TestTwoServers checks that a second server cannot use the directory: no
// collection would know the running pushes of both.
//
// Shows: mistakes 21
func TestTwoServers(t *testing.T) {
	dir := t.TempDir()
	_, stop := newRepo(t, dir, embedded.Options{})
	if _, err := embedded.New(dir, embedded.Options{}); !errors.Is(err, embedded.ErrInUse) {
		t.Errorf("second server: %v, want in use", err)
	}
	if _, err := embedded.Collect(t.Context(), dir, embedded.Collection{DryRun: true}); err != nil {
		t.Errorf("a dry run beside the server: %v", err)
	}
	stop()
	_, stop = newRepo(t, dir, embedded.Options{})
	stop()
}

// TestCollectBesidePushes pushes indexes of old manifests during collections: all with a tag is
// complete.
//
// Shows: mistakes 24
func TestCollectBesidePushes(t *testing.T) {
	dir := t.TempDir()
	r, registry := serveDir(t, dir)
	const rounds = 8
	var children []oci.Manifest
	for i := range rounds {
		children = append(children, pushImage(t, r, "", nil, fmt.Sprint("layer ", i)))
	}
	age(t, dir)
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() {
		for {
			if _, err := registry.Collect(t.Context(), embedded.Collection{MinAge: time.Hour}); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for i, child := range children {
		tag := fmt.Sprint("v", i)
		index := must.Get(oci.NewIndex(indexOf(child)))(t)
		if err := r.PutTag(t.Context(), tag, index); err != nil {
			continue // the child was removed before, and the client gets an error
		}
		if _, err := r.Fetch(t.Context(), tag); err != nil {
			t.Errorf("%s: %v", tag, err)
		}
		mustHave(t, r, tag, child)
		mustHave(t, r, tag, pushImage(t, r, tag+"-new", nil, "new "+tag))
	}
	close(done)
	group.Wait()
}
