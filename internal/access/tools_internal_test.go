// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"crypto/tls"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// TestAnyToken: tokens of tools are ignored without access rules, on the tools' routes alone.
func TestAnyToken(t *testing.T) {
	keys := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	for _, tt := range []struct {
		any           bool
		path, header  string
		mode, refused string
	}{
		{true, "/api/v2/organizations", "Bearer anonymous", "anonymous", ""},
		{true, "/api/v2/organizations", "Bearer oks_ci_0123456789abcdefghij", "anonymous", ""},
		{true, "/v1/modules/a/b/c/versions", "Bearer anonymous", "anonymous", ""},
		{true, "/api/v2/organizations", "Basic eDp5", "", "not valid"},
		{true, "/api/v2/organizations", "Bearer", "", "not valid"},
		{true, "/state/shop/default", "Bearer anonymous", "", "not valid"},
		{true, "/v2/shop/tags/list", "Bearer anonymous", "", "not valid"},
		{true, "/ui/me", "Bearer anonymous", "", "not valid"},
		{true, "/metrics", "Bearer anonymous", "", "not valid"},
		{false, "/api/v2/organizations", "Bearer anonymous", "", "not valid"},
	} {
		g := must.Get(New(Options{Policy: Policy{Anonymous: rights.AnonymousAll(), AnyToken: tt.any}, Keyring: keys}))(t)
		r := httptest.NewRequest("GET", "http://localhost"+tt.path, nil)
		r.Header.Set("Authorization", tt.header)
		grant, err := g.Allow(r, rights.Right{Action: rights.Write, Kind: "state", Address: "shop"})
		if (err != nil) != (tt.refused != "") || grant.Mode != tt.mode {
			t.Errorf("any %v, %s with %q: as %q, %v", tt.any, tt.path, tt.header, grant.Mode, err)
		}
	}
}

// TestScheme checks that X-Forwarded-Proto counts only from a listed proxy.
func TestScheme(t *testing.T) {
	g := &Guard{o: Options{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for _, tt := range []struct {
		from, said string
		tls        bool
		want       string
	}{
		{"10.1.2.3:4", "https", false, "https"},
		{"10.1.2.3:4", " HTTP ", false, "http"},
		{"10.1.2.3:4", "javascript", false, ""},
		{"10.1.2.3:4", "", false, ""},
		{"192.0.2.1:4", "https", false, ""},
		{"192.0.2.1:4", "http", true, "https"},
		{"nonsense", "https", false, ""},
	} {
		r := httptest.NewRequest("GET", "http://okara.example/", nil)
		r.RemoteAddr = tt.from
		r.Header.Set("X-Forwarded-Proto", tt.said)
		if tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got := g.Scheme(r); got != tt.want {
			t.Errorf("from %s, which says %q: %q, want %q", tt.from, tt.said, got, tt.want)
		}
	}
}
