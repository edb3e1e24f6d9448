// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestWebPages attacks every route from a browser on a developer's machine.
//
// Shows: pages 9 | content of users is never executed as a script of the server
// Shows: mistakes 4 | an open server on loopback trusted any web page | where anonymous callers may
// write, it answers only to its own host names; no server makes a change that a page of another
// site requests
func TestWebPages(t *testing.T) {
	reached := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	start := func(anonymous []rights.Scope) *front {
		return newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), nil, func(o *server.Options) {
			o.Access.Anonymous = anonymous
			o.Hostname, o.PublicURL = "okara.example.com", "https://tf.example.org:8443/x"
			o.Embedded, o.Depot, o.Metrics = reached, reached, server.NewMetrics()
			o.Stores = func(context.Context, string) (*statebackend.Store, error) { return nil, oci.ErrNotFound }
		})
	}
	open, closed := start(rights.AnonymousAll()), start(rights.AnonymousRead())
	routes := []string{
		"GET /state/shop/default", "POST /state/shop/default", "LOCK /state/shop/default", "DELETE /state/shop/default", "GET /metrics", "GET /healthz",
		"GET /v2/", "GET /v2/acme/state/shop/tags/list", "PUT /v2/acme/state/shop/manifests/x", "DELETE /v2/acme/state/shop/manifests/x",
		"POST /v2/acme/state/shop/blobs/uploads/", "POST /depot/sync", "GET /v1/modules", "GET /.well-known/terraform.json", "GET /nothing", "GET /a//b",
		"PUT /v1/modules/net/vpc/aws/1.0.0", "POST /v1/providers/acme/dns/1.0.0/status", "GET /archives/public/x/y/z", "GET /mirror/a/b/c/index.json",
	}
	do := func(f *front, route string, change func(*http.Request)) *httptest.ResponseRecorder {
		method, path, _ := strings.Cut(route, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Host = "127.0.0.1:8080"
		change(r)
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, r)
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: no nosniff", route)
		}
		return w
	}
	hosts := map[string]bool{
		"127.0.0.1:8080": true, "127.1.2.3": true, "[::1]:8080": true, "::1": true, "localhost": true, "LOCALHOST:80": true, "app.localhost": true, "localhost.": true,
		"okara.example.com": true, "OKARA.example.com:443": true, "tf.example.org": true, "[::ffff:127.0.0.1]": true, "192.0.2.5:8080": true,
		"": false, "evil.example": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false, "evil-localhost": false, "x.okara.example.com": false,
		"192.0.2.6": false, "10.0.0.1": false, "0.0.0.0": false, "127.0.0.1@evil.example": false, "2130706433": false, "[::]": false, ".localhost.evil.example": false,
	}
	at := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.5:8080"))
	for host, known := range hosts {
		for _, route := range routes {
			call := func(r *http.Request) {
				r.Host = host
				*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(at)))
			}
			if w := do(open, route, call); (w.Code == http.StatusMisdirectedRequest) == known {
				t.Errorf("%s for %q: %d", route, host, w.Code)
			}
			if w := do(closed, route, call); w.Code == http.StatusMisdirectedRequest {
				t.Errorf("%s for %q where not everybody may write: %d", route, host, w.Code)
			}
		}
	}
	listener := httptest.NewServer(access.Local(reached, "okara.example.com", "", "https://tf.example.org:8443/x"))
	t.Cleanup(listener.Close)
	for host, want := range map[string]int{"localhost:9090": 200, "tf.example.org:443": 200, "evil.example": 421, "192.0.2.5": 421} {
		r := must.Fixed(http.NewRequestWithContext(t.Context(), http.MethodGet, listener.URL, nil))
		r.Host = host
		resp := must.Fixed(listener.Client().Do(r))
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("a listener without tokens, for %q: %d, want %d", host, resp.StatusCode, want)
		}
	}
	pages := []struct {
		name, origin, site string
		want               bool
	}{
		{"a tool", "", "", true},
		{"a page of this server", "http://127.0.0.1:8080", "same-origin", true},
		{"an old browser on a page of this server", "http://127.0.0.1:8080", "", true},
		{"typed by a person", "", "none", true},
		{"another site", "https://evil.example", "cross-site", false},
		{"another port of this machine", "http://127.0.0.1:3000", "same-site", false},
		{"an old browser on another site", "https://evil.example", "", false},
		{"an old browser on another port", "http://127.0.0.1:3000", "", false},
		{"a sandboxed frame", "null", "cross-site", false},
		{"an old browser in a sandboxed frame", "null", "", false},
	}
	for _, p := range pages {
		for _, route := range routes {
			for _, f := range []*front{open, closed} {
				w := do(f, route, func(r *http.Request) {
					if p.origin != "" {
						r.Header.Set("Origin", p.origin)
					}
					if p.site != "" {
						r.Header.Set("Sec-Fetch-Site", p.site)
					}
				})
				refused := w.Code == http.StatusForbidden && strings.Contains(w.Body.String(), "cross-site request")
				reads := strings.HasPrefix(route, "GET ") // browsers hide the answer from the page
				if refused != (!p.want && !reads) {
					t.Errorf("%s by %s: %d %s", route, p.name, w.Code, w.Body)
				}
			}
		}
	}
}
