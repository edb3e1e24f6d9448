// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// site serves the pages over a registry of this test alone.
type site struct {
	*httptest.Server
	depot  *depot.Depot
	client *oci.Client
	layout addr.Layout
	count  *ocitest.Count // requests of the pages to the registry
	outage *atomic.Bool   // the registry is down
	finder *catalog.Finder

	protocols *registry.Handler
	require   map[string]trust.Policy
}

// clock stands still, so that a page is the same each time.
func clock() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) }

// New starts a site for callers with the rights anonymous.
func New(t testing.TB, anonymous ...rights.Scope) *site {
	t.Helper()
	return newSiteThat(t, nil, anonymous...)
}

// newSiteThat starts a site with a policy for versions, by kind.
func newSiteThat(t testing.TB, require map[string]trust.Policy, anonymous ...rights.Scope) *site {
	t.Helper()
	return newSiteOf(t, require, access.Policy{Anonymous: anonymous})
}

// newSiteOf starts a site; change may adjust the protocols' options.
func newSiteOf(t testing.TB, require map[string]trust.Policy, policy access.Policy, change ...func(*registry.Options)) *site {
	t.Helper()
	host := ocitest.New(t, ocitest.Quirks{})
	s := &site{layout: addr.Layout{Prefix: "acme"}, outage: &atomic.Bool{}, require: require}
	s.count = &ocitest.Count{Base: &ocitest.Fault{Times: -1, Do: ocitest.Refuse, Match: func(*http.Request) bool { return s.outage.Load() }}}
	s.client = mustClient(t, host, oci.Options{PlainHTTP: true})
	s.depot = depot.New(depot.Options{Client: s.client, Layout: s.layout})
	keys := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	guard := must.Get(access.New(access.Options{
		Policy: policy, Keyring: keys, Sessions: &access.Sessions{Keyring: keys, Plain: true},
	}))(t)
	kit := service.New(service.Options{Guard: guard, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	o := registry.Options{
		Kit: kit, Keys: keys, Client: mustClient(t, host, oci.Options{PlainHTTP: true, Transport: s.count, Retry: oci.Retry{MaxAttempts: 1}}), Layout: s.layout, Require: s.require,
	}
	for _, f := range change {
		f(&o)
	}
	protocols := must.Get(registry.New(o))(t)
	s.protocols, s.finder = protocols, catalog.NewFinder(protocols.Catalog(), false)
	pages := must.Get(web.New(web.Options{
		Kit: kit, Catalog: protocols.Catalog(), Finder: s.finder, Downloads: protocols.Downloads(), Archives: protocols, Hostname: "okara.example.com", Version: "1.2.3", Now: clock,
	}))(t)
	mux := http.NewServeMux()
	mux.Handle("/ui/", pages)
	mux.Handle("/", protocols)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func mustClient(t testing.TB, host string, o oci.Options) *oci.Client {
	t.Helper()
	return must.Get(oci.New(host, o))(t)
}

func (s *site) module(t testing.TB, address, version string, files map[string]string) {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	must.Get(s.depot.PublishModule(t.Context(), tree, depottest.MustModule(t, address, version), depot.ModuleOptions{}))(t)
}

func (s *site) provider(t testing.TB, version string) {
	t.Helper()
	key := depottest.NewKey(t, signing.KeyOptions{Name: "okara test", Email: "test@example.com", ECC: true})
	dist := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
	for name, text := range providerDocs() {
		dist["docs/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	must.Get(s.depot.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, version), depot.ProviderOptions{SignKey: key}))(t)
}

// get requests a page, and checks the properties that all pages must have.
func (s *site) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil))(t)
	resp := must.Get(s.Client().Do(req))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	if !strings.HasPrefix(path, "/ui/assets/") && !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
		t.Errorf("GET %s has no policy of content: %v", path, resp.Header)
	}
	return resp.StatusCode, string(b)
}
