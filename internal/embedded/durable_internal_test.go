// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// failing is a registry whose disk refuses the paths of fails.
func failing(t *testing.T, fails func(path string) bool) (*Registry, *oci.Repo) {
	t.Helper()
	h := must.Get(New(t.TempDir(), Options{}))(t)
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	h.store.sync = func(path string) error {
		if fails(path) {
			return syscall.EIO
		}
		return syncPath(path)
	}
	r := must.Get(oci.OpenRepo(strings.TrimPrefix(server.URL, "http://")+"/test/repo", oci.Options{PlainHTTP: true, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	return h, r
}

// TestDurable: nothing is acknowledged before it is on the disk, no tag before its content.
func TestDurable(t *testing.T) {
	var fails atomic.Bool
	h, r := failing(t, func(string) bool { return fails.Load() })
	m := must.Get(oci.NewManifest(ocispec.Manifest{ArtifactType: "a/b", Config: oci.EmptyBlob().Descriptor}))(t)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"blob", func() error { return r.PushBlob(t.Context(), oci.EmptyBlob()) }},
		{"manifest", func() error { return r.PutManifest(t.Context(), m) }},
		{"tag", func() error { return r.PutTag(t.Context(), "v1", m) }},
	} {
		fails.Store(true)
		if err := step.do(); err == nil {
			t.Errorf("%s: acknowledged, and the disk has it not", step.name)
		}
		if list, err := r.Snapshot(t.Context()); err == nil && len(list.Tags) > 0 {
			t.Errorf("%s: there are the tags %q", step.name, list.Tags)
		}
		fails.Store(false)
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}

	// An unacknowledged link that a power failure truncated does not count as a link.
	link := filepath.Join(h.root, "docker/registry/v2/repositories/test/repo/_layers/sha256", oci.EmptyBlob().Digest.Encoded(), "link")
	must.Succeed(t, os.Truncate(link, 0))
	if pushed, err := r.EnsureBlob(t.Context(), oci.EmptyBlob()); err != nil || !pushed {
		t.Errorf("after a power failure: %t, %v", pushed, err)
	}
}

// TestDurableOfOthers: no manifest before its blobs, whoever wrote them; what the disk refused is
// written again.
func TestDurableOfOthers(t *testing.T) {
	b := oci.BytesBlob("text/plain", []byte("of another request"))
	var fails atomic.Bool
	h, r := failing(t, func(path string) bool { return fails.Load() && strings.Contains(path, b.Digest.Encoded()) })
	m := must.Get(oci.NewManifest(ocispec.Manifest{ArtifactType: "a/b", Config: oci.EmptyBlob().Descriptor, Layers: []oci.Descriptor{b.Descriptor}}))(t)
	must.Succeed(t, r.PushBlob(t.Context(), oci.EmptyBlob()))
	fails.Store(true)
	if err := r.PushBlob(t.Context(), b); err == nil {
		t.Fatal("acknowledged, and the disk has it not")
	}
	if err := r.PutTag(t.Context(), "v1", m); err == nil {
		t.Error("the tag is acknowledged, and the disk has not the blob")
	}
	fails.Store(false)
	link := filepath.Join(h.root, "docker/registry/v2/repositories/test/repo/_layers/sha256", b.Digest.Encoded(), "link")
	data := filepath.Join(h.root, "docker/registry/v2/blobs/sha256", b.Digest.Encoded()[:2], b.Digest.Encoded(), "data")
	refused := map[string]os.FileInfo{link: must.Get(os.Stat(link))(t), data: must.Get(os.Stat(data))(t)}
	must.Succeed(t, r.PushBlob(t.Context(), b))
	for file, before := range refused {
		if now, err := os.Stat(file); err != nil || os.SameFile(before, now) {
			t.Errorf("%s is the one that the disk refused, or: %v", file, err)
		}
	}
	must.Succeed(t, r.PutTag(t.Context(), "v1", m))
	fresh := oci.BytesBlob("text/plain", []byte("new"))
	must.Succeed(t, r.PushBlob(t.Context(), fresh))
	for path := range h.store.unsynced.paths {
		if strings.Contains(path, fresh.Digest.Encoded()) {
			t.Errorf("%s is acknowledged, and waited for still", path)
		}
	}
}

// TestDurableAnswers: an answer without explicit status waits too.
func TestDurableAnswers(t *testing.T) {
	h, _ := failing(t, func(string) bool { return true })
	for name, body := range map[string]string{"none": "", "a body": "done"} {
		by := blobs{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := h.store.PutContent(r.Context(), "/docker/registry/v2/"+name, []byte("x")); err != nil {
				t.Error(err)
			}
			if body != "" {
				_, _ = io.WriteString(w, body)
			}
		}), h}
		got := httptest.NewRecorder()
		by.ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v2/a/manifests/b", http.NoBody))
		must.Equal(t, name+": status", got.Code, http.StatusInternalServerError)
	}
}
