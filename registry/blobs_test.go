// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
)

// newCached caches blobs in a directory, and publishes a module.
func newCached(t *testing.T, transport http.RoundTripper) (f *front, file string, archive []byte, link *url.URL) {
	t.Helper()
	dir := t.TempDir()
	f = newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), transport, func(o *server.Options) {
		o.Blobs = cache.BlobOptions{Dir: dir, Bytes: 1 << 20}
	})
	archive, link = f.moduleLink(t, 300_000)
	return f, cacheFile(dir, f.layout.Module(must.Fixed(addr.ParseModule("net/vpc/aws"))), archive), archive, link
}

func cacheFile(dir, repository string, archive []byte) string {
	return filepath.Join(dir, hexSum(archive)+"."+hexSum([]byte(repository))[:32])
}

func (f *front) download(t *testing.T, link *url.URL, want []byte, header ...string) {
	t.Helper()
	if resp, body := ask(t, http.MethodGet, link, header...); resp.StatusCode/100 != 2 || !bytes.Equal(body, want) {
		t.Errorf("%s %v: %d with %d of %d bytes", link.Path, header, resp.StatusCode, len(body), len(want))
	}
}

func exists(file string) func() bool {
	return func() bool { _, err := os.Stat(file); return err == nil }
}

// TestBlobCache: a blob on disk needs no request; a missing file is fine.
func TestBlobCache(t *testing.T) {
	f, file, archive, link := newCached(t, nil)
	f.count.Take()
	f.download(t, link, archive[1000:], "Range", "bytes=1000-")
	if exists(file)() {
		t.Error("a part of a blob began to fill the cache")
	}
	f.download(t, link, archive)
	waitFor(t, exists(file))
	f.count.Take()
	f.download(t, link, archive)
	f.download(t, link, archive[5:100], "Range", "bytes=5-99")
	secure := httptest.NewTLSServer(f.handler)
	defer secure.Close()
	resp := must.Fixed(secure.Client().Get(secure.URL + link.Path))
	defer resp.Body.Close()
	if body := must.Fixed(io.ReadAll(resp.Body)); !bytes.Equal(body, archive) {
		t.Errorf("over TLS: %d of %d bytes", len(body), len(archive))
	}
	if n := f.count.Take(); len(n) != 0 {
		t.Errorf("from the cache: registry requests %v", n)
	}

	must.Succeed(t, os.Truncate(file, 100_000))
	f.download(t, link, archive)
	must.Succeed(t, os.RemoveAll(filepath.Dir(file)))
	f.download(t, link, archive)
}

// TestBlobCacheOutage: cached blobs are served without the registry.
func TestBlobCacheOutage(t *testing.T) {
	f, file, archive, link := newCached(t, nil)
	f.download(t, link, archive)
	waitFor(t, exists(file))
	down := newFrontAt(t, "127.0.0.1:1", nil, func(o *server.Options) {
		o.Blobs = cache.BlobOptions{Dir: filepath.Dir(file), Bytes: 1 << 20}
	})
	down.download(t, down.url(t, link.Path), archive)
	public := strings.Replace(link.Path, strings.Split(link.Path, "/")[2], "public", 1)
	if resp, _ := ask(t, http.MethodGet, down.url(t, public)); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("a link that proves nothing: %d", resp.StatusCode)
	}
}

// TestFiles: a registry in process is not asked for a blob with a file.
func TestFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	f := newFront(t, func(o *server.Options) {
		o.Files = func(string, string) (*os.File, error) { return os.Open(file) }
	})
	archive, link := f.moduleLink(t, 300_000)
	f.download(t, link, archive) // no such file: read from the registry
	must.Succeed(t, os.WriteFile(file, archive, 0o600))
	f.count.Take()
	f.download(t, link, archive)
	f.download(t, link, archive[7:], "Range", "bytes=7-")
	if n := f.count.Take(); len(n) != 0 {
		t.Errorf("registry requests %v", n)
	}
}
