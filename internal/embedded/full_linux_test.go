// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
)

// mountSmall mounts a file system of the given size until the end of the test.
func mountSmall(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		t.Skipf("mounting needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestDiskFull writes tags until the disk is full: listed ones are readable, acknowledged ones
// there, and freed space is enough to go on.
//
// Shows: mistakes 21
func TestDiskFull(t *testing.T) {
	dir := mountSmall(t, "600k")
	r, _ := serveDir(t, filepath.Join(dir, "registry"))
	first := pushImage(t, r, "first", nil, strings.Repeat("x", 1000))
	ballast := filepath.Join(dir, "ballast")
	var acknowledged []string
	var failed int
	for i := 0; failed < 40 && i < 2000; i++ {
		tag := fmt.Sprintf("v%04d", i)
		err := r.PutTag(t.Context(), tag, first)
		switch {
		case err == nil:
			acknowledged = append(acknowledged, tag)
			if len(acknowledged) == 5 { // one page less than full from now on
				fill(t, ballast)
			}
		case !strings.Contains(err.Error(), "no space left on device") || strings.Contains(err.Error(), dir):
			t.Fatalf("%s: %v; want the reason and no path", tag, err)
		default:
			failed++
			if failed%2 == 0 {
				shrink(t, ballast, 4096) // the next write gets one file further
			}
		}
	}
	var listed []string
	for tag, err := range r.Tags(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, tag)
		if _, err := r.Fetch(t.Context(), tag); err != nil {
			t.Errorf("listed, but %v", err)
		}
	}
	for _, tag := range acknowledged {
		if !slices.Contains(listed, tag) {
			t.Errorf("%s was acknowledged and is lost", tag)
		}
	}
	t.Logf("%d written, %d refused, %d listed", len(acknowledged), failed, len(listed))
	must.Succeed(t, os.Remove(ballast))
	pushImage(t, r, "again", nil, "goes on")
}

// TestUploadRefusedAtItsBeginning begins an upload while there is space for its files, but
// not for bytes: it is refused and leaves nothing.
//
// Shows: mistakes 36
func TestUploadRefusedAtItsBeginning(t *testing.T) {
	dir := mountSmall(t, "2m")
	storage, ballast := filepath.Join(dir, "registry"), filepath.Join(dir, "ballast")
	r, _ := serveRegistry(t, storage, embedded.Options{Reserve: 64 << 10})
	mustPush(t, r, "first", "x")
	fill(t, ballast)
	shrink(t, ballast, 128<<10)
	resp := must.Get(http.Post("http://"+r.Host()+"/v2/"+r.Name()+"/blobs/uploads/", "", nil))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusInsufficientStorage {
		t.Errorf("answered %s", resp.Status)
	}
	left, err := filepath.Glob(filepath.Join(storage, "docker/registry/v2/repositories", r.Name(), "_uploads/*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	page := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(page)
	}
	must.Succeed(t, f.Close())
}

func shrink(t *testing.T, file string, by int64) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil || info.Size() < by {
		return
	}
	must.Succeed(t, os.Truncate(file, info.Size()-by))
}

// TestReadOnly checks a disk that becomes read-only while the server runs, and
// a server that is started on it.
//
// Shows: mistakes 21
func TestReadOnly(t *testing.T) {
	dir := mountSmall(t, "1m")
	r, registry, stop := start(t, dir, embedded.Options{})
	m := pushImage(t, r, "v1", nil, "one")
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("remounting: %v", err) // the lock is open for writing
	}
	if err := r.PutTag(t.Context(), "v2", m); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("write: %v", err)
	}
	mustHave(t, r, "read", m)
	mustList(t, r, "v1")
	if _, err := registry.Collect(t.Context(), embedded.Collection{}); err != nil {
		t.Errorf("nothing to collect: %v", err)
	}
	stop()
	if _, err := embedded.New(dir, embedded.Options{}); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("start: %v", err)
	}
}
