// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

const kills = 20

// TestKilledPublish kills okara with signal 9 at random moments of a publish. No
// version may be visible unless it is complete, the next run must finish it, and
// the one after that send nothing.
func TestKilledPublish(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	okara := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "okara", args...)
		cmd.Env = env
		return cmd
	}
	out, err := okara("keys", "new", "--allow-ecc").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, key, _ := strings.Cut(strings.TrimSpace(string(out)), "\t")
	dist := newRelease(t)

	var uploads atomic.Int64
	registry := ocitest.Handler(t, ocitest.Quirks{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/blobs/uploads/") {
			uploads.Add(1)
		}
		registry.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")

	publish := func(n int) *exec.Cmd {
		return okara("publish", "provider", dist, fmt.Sprintf("acme%d/dns", n), "1.0.0", "--sign-key", key, "--registry", host)
	}
	start := time.Now()
	if out, err := publish(0).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	whole := time.Since(start)
	killed := 0
	for n := 1; n <= kills; n++ {
		cmd := publish(n)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(rand.N(whole), func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			killed++
		}
		timer.Stop()
		r, err := oci.OpenRepo(fmt.Sprintf("%s/providers/acme%d/dns", host, n), oci.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Resolve(t.Context(), "1.0.0"); err == nil {
			mustBeWhole(t, r)
		} else if !errors.Is(err, oci.ErrNotFound) {
			t.Fatal(err)
		}
		if out, err := publish(n).CombinedOutput(); err != nil {
			t.Fatalf("second run: %v: %s", err, out)
		}
		mustBeWhole(t, r)
		before := uploads.Load()
		if out, err := publish(n).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("already published")) || uploads.Load() != before {
			t.Errorf("third run: %v: %s", err, out)
		}
	}
	if killed == 0 {
		t.Errorf("none of %d runs of %v was killed in time", kills, whole)
	}
}

// mustBeWhole fetches all that version 1.0.0 consists of.
func mustBeWhole(t *testing.T, r *oci.Repo) {
	t.Helper()
	m, err := r.Fetch(t.Context(), "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	index, err := oci.ParseProviderIndex(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range index.Platforms {
		bare := oci.ProviderPlatform{Platform: p.Platform, Manifest: p.Manifest} // so that the manifest is read
		zip, err := r.ProviderZip(t.Context(), bare)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := r.HasBlob(t.Context(), zip); !ok || err != nil {
			t.Errorf("%s %s is visible without its zip, %v", r, p.Platform, err)
		}
	}
	if _, err := r.ProviderMetadata(t.Context(), index); err != nil || len(index.Platforms) != releasePlatforms {
		t.Errorf("%s: %d platforms, %v", r, len(index.Platforms), err)
	}
}

const releasePlatforms = 6

// newRelease makes a release of TYPE dns with packages of a megabyte each.
func newRelease(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range releasePlatforms {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: "terraform-provider-dns", Method: zip.Store}
		h.SetMode(0o755)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		plugin := make([]byte, 1<<20)
		rng := rand.NewChaCha8([32]byte{byte(i)})
		if _, err := rng.Read(plugin); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(plugin); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, fmt.Sprintf("terraform-provider-dns_1.0.0_os%d_amd64.zip", i))
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
