// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestBackup copies the directory of a stopped server, loses it, restores the copy and
// collects garbage there, killing the first runs. Published artifacts must be complete each
// time, and in the end the space of deleted ones must be free.
func TestBackup(t *testing.T) {
	t.Parallel()
	storage, backup := filepath.Join(t.TempDir(), "okara"), filepath.Join(t.TempDir(), "backup")
	okara := func(args ...string) string {
		t.Helper()
		var out strings.Builder
		if code := run(t.Context(), args, strings.NewReader(""), &out, io.Discard, func(string) string { return "" }); code != 0 {
			t.Fatalf("okara %v: exit %d\n%s", args, code, &out)
		}
		return out.String()
	}
	var published string
	serving(t, storage, func(host string) {
		dist := newRelease(t, releasePlatforms, 1<<16)
		keys := t.TempDir()
		okara("keys", "new", "--ed25519", "--dir", keys)
		key, err := filepath.Glob(filepath.Join(keys, "*[0-9A-F].asc"))
		if err != nil || len(key) != 1 {
			t.Fatalf("keys %v, %v", key, err)
		}
		published = okara("publish", "provider", dist, "acme/dns", "1.0.0", "--sign-key", key[0], "--registry", host)
		deleteMany(t, host)
	})
	must.Succeed(t, os.CopyFS(backup, os.DirFS(storage)))
	must.Succeed(t, os.RemoveAll(storage))
	must.Succeed(t, os.CopyFS(storage, os.DirFS(backup)))
	whole := func() {
		t.Helper()
		serving(t, storage, func(host string) {
			r := must.Get(oci.OpenRepo(host+"/providers/acme/dns", oci.Options{}))(t)
			mustBeWhole(t, r)
			if d, err := r.Resolve(t.Context(), "1.0.0"); err != nil || !strings.Contains(published, d.Digest.String()) {
				t.Errorf("restored %s, %v; published %s", d.Digest, err, published)
			}
			okara("verify", "acme/dns@1.0.0", "--deep", "--registry", host)
		})
	}
	whole()
	for range 10 {
		cmd := exec.CommandContext(t.Context(), "okara", "admin", "gc", "--storage", storage)
		cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
		must.Succeed(t, cmd.Start())
		timer := time.AfterFunc(rand.N(100*time.Millisecond), func() { _ = cmd.Process.Kill() }) // it may have ended
		_ = cmd.Wait()
		timer.Stop()
		whole()
	}
	okara("admin", "gc", "--storage", storage)
	whole()
	if out := okara("admin", "gc", "--storage", storage, "--dry-run"); !strings.HasPrefix(out, "would free 0 B: 0 blobs") {
		t.Errorf("after the last run: %s", out)
	}
	if kept, all := size(t, storage), size(t, backup); all-kept < deleted*deletedSize {
		t.Errorf("%d of %d bytes are left", kept, all)
	}
}

const deleted, deletedSize = 100, 10_000

// deleteMany pushes and then deletes artifacts.
func deleteMany(t *testing.T, host string) {
	t.Helper()
	r := must.Get(oci.OpenRepo(host+"/modules/net/old/aws", oci.Options{}))(t)
	for i := range deleted {
		blob := oci.BytesBlob("application/octet-stream", fmt.Appendf(nil, "%0*d", deletedSize, i))
		m := must.Get(oci.NewManifest(ocispec.Manifest{
			ArtifactType: "application/x-test", Config: oci.EmptyBlob().Descriptor, Layers: []oci.Descriptor{blob.Descriptor},
		}))(t)
		must.Get(r.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{blob, oci.EmptyBlob()}, Root: m}))(t)
		must.Succeed(t, r.Delete(t.Context(), m.Descriptor))
	}
}

// serving runs f while the embedded registry of storage is served.
func serving(t *testing.T, storage string, f func(host string)) {
	t.Helper()
	registry := must.Get(embedded.New(filepath.Join(storage, "registry"), embedded.Options{}))(t)
	server := httptest.NewServer(registry)
	defer registry.Close()
	defer server.Close()
	f(strings.TrimPrefix(server.URL, "http://"))
}

func size(t *testing.T, dir string) (n int64) {
	t.Helper()
	must.Succeed(t, filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		n += info.Size()
		return err
	}))
	return n
}
