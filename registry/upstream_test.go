// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// TestLayouts serves everything from repositories named by the configuration,
// at the root of a registry and deep in it.
//
// Shows: opendepot-defects 3 | a wrong storage path without a prefix
func TestLayouts(t *testing.T) {
	for name, layout := range map[string]addr.Layout{
		"no prefix":   {},
		"deep prefix": {Prefix: "a/b/c/d"},
		"templates":   {Prefix: "team", Modules: "tf/m/{namespace}/{name}/{system}", Providers: "tf/p/{namespace}/{type}", Mirror: "tf/x/{hostname}/{namespace}/{type}"},
		"at the root": {Modules: "m/{namespace}/{name}/{system}", Providers: "p/{namespace}/{type}", Mirror: "x/{hostname}/{namespace}/{type}"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, func(o *server.Options) { o.Layout = layout })
			files := map[string]string{"main.tf": "# " + name}
			f.module(t, "net/vpc/aws", "1.0.0", files)
			own := f.provider(t, release{address: "acme/dns", version: "1.0.0"})
			mirrored := f.provider(t, release{address: "registry.opentofu.org/hashicorp/time", version: "1.0.0"})
			tofutest.RunModules(t, f.target(), tofutest.Module{Address: "net/vpc/aws", Versions: []string{"1.0.0"}, Files: files})
			tofutest.RunProviders(t, f.target(), "/v1/providers/", tofutest.Provider{
				Host: "example.com", Address: "acme/dns", Version: "1.0.0", Protocols: []string{"5.0"}, Zips: own.zips,
			})
			tofutest.RunMirror(t, f.target(), tofutest.Provider{
				Host: "registry.opentofu.org", Address: "hashicorp/time", Version: "1.0.0", Zips: mirrored.zips,
			})
		})
	}
}

// TestRunnersBesideTheStorage: who cannot reach the storage gets bytes, others are redirected.
//
// Shows: registries 17 | runners that cannot reach the storage | boring-registry#180
func TestRunnersBesideTheStorage(t *testing.T) {
	var archive []byte
	blobs := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) })
	storage, clear := httptest.NewTLSServer(blobs), httptest.NewServer(blobs)
	t.Cleanup(storage.Close)
	t.Cleanup(clear.Close)
	runner := func(proxies ...string) func(*server.Options) {
		return func(o *server.Options) {
			o.Archives.StreamFor = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
			for _, p := range proxies {
				o.Proxies = append(o.Proxies, netip.MustParsePrefix(p))
			}
		}
	}
	tests := []struct {
		name     string
		redirect string // of the registry
		change   func(*server.Options)
		header   []string
		want     int
	}{
		{"default", storage.URL + "/", nil, nil, 307},
		{"default, no storage", "", nil, nil, 200},
		{"default, storage in clear", clear.URL + "/", nil, nil, 200},
		{"never", storage.URL + "/", func(o *server.Options) { o.Archives.Redirect = "never" }, nil, 200},
		{"never, no storage", "", func(o *server.Options) { o.Archives.Redirect = "never" }, nil, 200},
		{"loopback clients", storage.URL + "/", func(o *server.Options) {
			o.Archives.StreamFor = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}, nil, 200},
		{"other clients", storage.URL + "/", runner(), nil, 307},
		{"behind a proxy", storage.URL + "/", runner("127.0.0.0/8"), []string{"X-Forwarded-For", "10.1.2.3"}, 200},
		{"behind a proxy, others", storage.URL + "/", runner("127.0.0.0/8"), []string{"X-Forwarded-For", "10.2.2.3"}, 307},
		{"behind a proxy that is not listed", storage.URL + "/", runner(), []string{"X-Forwarded-For", "10.1.2.3"}, 307},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{RedirectBlobs: tt.redirect}), storage.Client().Transport, tt.change)
			var u *url.URL
			archive, u = f.moduleLink(t, 1000)
			resp, body := ask(t, http.MethodGet, u, tt.header...)
			if resp.StatusCode != tt.want || tt.want == 200 && !bytes.Equal(body, archive) {
				t.Errorf("%d with %d bytes, want %d", resp.StatusCode, len(body), tt.want)
			}
		})
	}
}

// gated is a body of 64 KiB until open is closed.
type gated struct {
	io.ReadCloser
	open <-chan struct{}
	left int
}

func (g *gated) Read(p []byte) (int, error) {
	if g.left == 0 {
		<-g.open
		return g.ReadCloser.Read(p)
	}
	n, err := g.ReadCloser.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// TestArchiveFlows: the first byte comes before the last has left, in one request.
//
// Shows: registries 28 | whole archives in memory | citizen, terrakube, otf
// Shows: opendepot-defects 6 | an archive is read completely before its first byte is sent
func TestArchiveFlows(t *testing.T) {
	open := make(chan struct{})
	gate := roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && ocitest.On("GET", "blob")(r) {
			resp.Body = &gated{resp.Body, open, 64 << 10}
		}
		return resp, err
	})
	f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), gate, nil)
	archive, u := f.moduleLink(t, 300_000)
	f.count.Take()
	resp := must.Fixed(http.Get(u.String()))
	defer resp.Body.Close()
	first := make([]byte, 1)
	must.Fixed(io.ReadFull(resp.Body, first))
	close(open)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(append(first, rest...), archive) {
		t.Errorf("%d bytes, %v", 1+len(rest), err)
	}
	if got := f.count.Take(); got["GET blob"] != 1 || len(got) != 1 {
		t.Errorf("requests to the registry: %v", got)
	}
}
