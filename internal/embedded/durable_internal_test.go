// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/oci"
)

// TestDurable: nothing is acknowledged before the disk has it, and no tag is there before
// what it names.
func TestDurable(t *testing.T) {
	h, err := New(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	var fails atomic.Bool
	h.store.sync = func(path string) error {
		if fails.Load() {
			return syscall.EIO
		}
		return syncPath(path)
	}
	r, err := oci.OpenRepo(strings.TrimPrefix(server.URL, "http://")+"/test/repo", oci.Options{PlainHTTP: true, Retry: oci.Retry{MaxAttempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := oci.NewManifest(ocispec.Manifest{ArtifactType: "a/b", Config: oci.EmptyBlob().Descriptor})
	if err != nil {
		t.Fatal(err)
	}
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

	// What a power failure leaves of a link that nobody was told of is no link.
	link := filepath.Join(h.root, "docker/registry/v2/repositories/test/repo/_layers/sha256", oci.EmptyBlob().Digest.Encoded(), "link")
	if err := os.Truncate(link, 0); err != nil {
		t.Fatal(err)
	}
	if pushed, err := r.EnsureBlob(t.Context(), oci.EmptyBlob()); err != nil || !pushed {
		t.Errorf("after a power failure: %t, %v", pushed, err)
	}
}
