// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

func newKeyring(t *testing.T, secret byte) *keyring.Ring {
	t.Helper()
	return must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte{secret}, 32)}}))(t)
}

func newGuard(t *testing.T, o access.Options) *access.Guard {
	t.Helper()
	return must.Get(access.New(o))(t)
}

// asking returns a request with a token, "" for none.
func asking(path, token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://okara.example"+path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// statusOf returns the status of a refusal, 200 if there is none.
func statusOf(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return http.StatusOK
	}
	refusal, ok := errors.AsType[*access.Refusal](err)
	if !ok {
		t.Fatalf("%v is no refusal", err)
	}
	return refusal.Status
}

// TestRunToken checks which rights the token of a run gives, and for how long.
func TestRunToken(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	over := false
	var log bytes.Buffer
	g := newGuard(t, access.Options{
		Audit: slog.New(slog.NewTextHandler(&log, nil)), Keyring: newKeyring(t, 1), Now: func() time.Time { return now }, RunOver: func(run string) bool { return run == "k7m2p9x4tq/3/1" && over },
	})
	token := must.Get(g.NewRunToken(access.RunToken{Run: "k7m2p9x4tq/3/1", Limit: time.Hour, Scopes: []rights.Scope{
		{Action: rights.Read, Kind: addr.KindProvider, Glob: "**"}, {Action: rights.Read, Kind: addr.KindModule, Glob: "net/**"}}}))(t)
	provider := rights.Right{Action: rights.Read, Kind: addr.KindProvider, Address: "acme/dns"}
	for _, tt := range []struct {
		name  string
		path  string
		right rights.Right
		want  int
	}{
		{"a provider", "/v1/providers/acme/dns/versions", provider, 200},
		{"a module of its namespace", "/v1/modules/net/vpc/aws/versions", rights.Right{Action: rights.Read, Kind: addr.KindModule, Address: "net/vpc/aws"}, 200},
		{"another module", "/v1/modules/app/vpc/aws/versions", rights.Right{Action: rights.Read, Kind: addr.KindModule, Address: "app/vpc/aws"}, 403},
		{"publish", "/v1/modules/net/vpc/aws/1.0.0", rights.Right{Action: rights.Publish, Kind: addr.KindModule, Address: "net/vpc/aws"}, 403},
		{"a state", "/state/shop/default", rights.Right{Action: rights.Read, Kind: addr.KindState, Address: "shop"}, 403},
		{"a template", "/v2/templates/net/vpc/tags/list", rights.Right{Action: rights.Read, Kind: addr.KindTemplate, Address: "net/vpc"}, 403},
		{"the server", "/metrics", rights.Server(), 403},
		{"a list", "/v1/catalog", rights.Right{Action: rights.List, Kind: rights.AnyKind}, 200},
		{"a list in the API of people", "/api/v1/instances", rights.Right{Action: rights.List, Kind: addr.KindInstance}, 401},
		{"the API of people", "/api/v1/instances", provider, 401},
		{"a page", "/ui/templates", provider, 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			grant, err := g.Allow(asking(tt.path, token), tt.right)
			if got := statusOf(t, err); got != tt.want {
				t.Errorf("got %d, want %d: %v", got, tt.want, err)
			}
			if err == nil && (grant.Mode != "run" || grant.Subject != "k7m2p9x4tq/3/1" || grant.Issuer != "") {
				t.Errorf("caller %+v", grant.Caller)
			}
			if err == nil {
				if grant.Record("acme/prod", access.Change{Action: rights.Write, Status: 200}); !strings.Contains(log.String(), " run=3 ") {
					t.Errorf("the record of a run does not name it: %s", &log)
				}
			}
		})
	}

	allowed := func() int {
		_, err := g.Allow(asking("/v1/providers/acme/dns/versions", token), provider)
		return statusOf(t, err)
	}
	now = now.Add(75*time.Minute - time.Second)
	must.Equal(t, "15 minutes beyond the time limit, less a second", allowed(), 200)
	now = now.Add(time.Second)
	must.Equal(t, "15 minutes beyond the time limit", allowed(), 401)
	now = now.Add(-time.Hour)
	over = true
	must.Equal(t, "the run is over", allowed(), 401)
}

// TestRunTokenState: a run's right to a state counts only in the tool's API, for its workspace.
func TestRunTokenState(t *testing.T) {
	g := newGuard(t, access.Options{Keyring: newKeyring(t, 1)})
	token := must.Get(g.NewRunToken(access.RunToken{Run: "k7m2p9x4tq/3/1", Limit: time.Hour, Scopes: []rights.Scope{
		{Action: rights.Read, Kind: addr.KindProvider, Glob: "**"}, {Action: rights.Write, Kind: addr.KindState, Glob: "acme/prod"}}}))(t)
	layout := addr.Layout{}
	prod := func(a rights.Action) rights.Right { return rights.StateRight(layout, a, "acme", "prod") }
	for _, tt := range []struct {
		name, path string
		right      rights.Right
		want       int
	}{
		{"its state", "/api/v2/workspaces/ws-x/current-state-version", prod(rights.Read), 200},
		{"its state, to write", "/api/v2/workspaces/ws-x/state-versions", prod(rights.Write), 200},
		{"a run of its own", "/api/v2/runs", prod(rights.Run), 403},
		{"another workspace", "/api/v2/workspaces/ws-x/state-versions", rights.StateRight(layout, rights.Read, "acme", "prod2"), 403},
		{"the organization", "/api/v2/organizations/acme", rights.StateRight(layout, rights.Read, "acme", ""), 403},
		{"by another door", "/state/acme/prod", prod(rights.Read), 403},
		{"as an artifact", "/v2/state/acme/tags/list", prod(rights.Read), 403},
		{"in the archive", "/archive/x", prod(rights.Read), 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := g.Allow(asking(tt.path, token), tt.right)
			if got := statusOf(t, err); got != tt.want {
				t.Errorf("got %d, want %d: %v", got, tt.want, err)
			}
		})
	}
}

// TestRunTokenForged: only the server's keys make run tokens.
func TestRunTokenForged(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	keys := newKeyring(t, 1)
	provider := rights.Right{Action: rights.Read, Kind: addr.KindProvider, Address: "acme/dns"}
	o := access.Options{Keyring: keys, Now: func() time.Time { return now }}
	g := newGuard(t, o)
	ask := access.RunToken{Run: "k7m2p9x4tq/3/1", Limit: time.Hour, Scopes: []rights.Scope{{Action: rights.Read, Kind: addr.KindProvider, Glob: "**"}}}
	token := must.Get(g.NewRunToken(ask))(t)
	other := o
	other.Keyring = newKeyring(t, 2)
	foreign := must.Get(newGuard(t, other).NewRunToken(ask))(t)
	claims := map[string]any{"r": "k7m2p9x4tq/3/1", "s": []string{"read:provider:**"}, "e": now.Add(time.Hour).Unix()}
	seal := func(purpose string, v any) string { return must.Get(keys.Seal(purpose, v))(t) }
	middle := len(token) / 2
	flipped := "A"
	if token[middle] == 'A' {
		flipped = "B"
	}
	for _, tt := range []struct{ name, token string }{
		{"empty", "okr_"},
		{"other keys", foreign},
		{"a changed byte", token[:middle] + flipped + token[middle+1:]},
		{"cut", token[:len(token)-4]},
		{"as a login", "okl_" + strings.TrimPrefix(token, "okr_")},
		{"sealed for logins", "okr_" + seal("login token", claims)},
		{"sealed as a receipt", "okr_" + seal("receipt", claims)},
		{"a right that is none", "okr_" + seal("run token", map[string]any{"r": "x", "s": []string{"eat:provider:**"}, "e": now.Add(time.Hour).Unix()})},
		{"no end", "okr_" + seal("run token", map[string]any{"r": "x", "s": []string{"read:provider:**"}})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := g.Allow(asking("/v1/providers/acme/dns/versions", tt.token), provider)
			if got := statusOf(t, err); got != 401 {
				t.Errorf("got %d: %v", got, err)
			}
		})
	}
	if _, err := g.Allow(asking("/v1/providers/acme/dns/versions", token), provider); err != nil {
		t.Errorf("the token itself: %v", err)
	}
	if _, err := g.Allow(asking("/v1/providers/acme/dns/versions", "okr_"+seal("run token", claims)), provider); err != nil {
		t.Errorf("what the cases above are made of: %v", err)
	}
	for _, bad := range []access.RunToken{{Limit: time.Hour, Scopes: ask.Scopes}, {Run: "x", Scopes: ask.Scopes}, {Run: "x", Limit: time.Hour}} {
		if _, err := g.NewRunToken(bad); err == nil {
			t.Errorf("a token for %+v", bad)
		}
	}
}
