// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// TestGroups: groups count for ownership for a day, though the login lasts longer.
func TestGroups(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	keys := must.Get(keyring.New([]keyring.Key{{Secret: make([]byte, 32)}}))(t)
	use := rights.Scope{Action: rights.Use, Kind: addr.KindInstance, Glob: "sandbox/*"}
	g := must.Get(New(Options{
		Keyring: keys, Now: func() time.Time { return now },
		Login:  &Login{Issuer: Issuer{URL: "https://issuer.example"}, ClientID: "okara", PublicURL: "https://okara.example"},
		Policy: Policy{Rules: []Rule{{Name: "all", Allow: []rights.Scope{use}}}, Anonymous: []rights.Scope{use}},
	}))(t)
	grant := func(id identity) Grant {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "https://okara.example/api/v1/instances", nil)
		if id.Issuer != "" {
			sealed := must.Get(keys.Seal("login token", loginToken{id, now.Unix()}))(t)
			r.Header.Set("Authorization", "Bearer okl_"+sealed)
		}
		return must.Get(g.Allow(r, rights.Right{Action: rights.Use, Kind: addr.KindInstance, Address: rights.Somewhere}))(t)
	}
	anna := grant(identity{
		Issuer: "https://issuer.example", Subject: "u1", Groups: []string{"team-a", "ops"},
		Claims: map[string]any{"name": "Anna", "email": "anna@example.com", "department": "net", "email_verified": true},
	})
	carla, nobody := grant(identity{Issuer: "https://issuer.example", Subject: "u3"}), grant(identity{})
	if anna.Issuer != "https://issuer.example" || anna.Subject != "u1" || anna.Label != "Anna" || carla.Label != "u3" {
		t.Errorf("%+v, %+v", anna.Caller, carla.Caller)
	}
	must.Match(t, "claims", anna.Claims, map[string]string{"name": "Anna", "email": "anna@example.com", "department": "net", "email_verified": "true"})
	for _, tt := range []struct {
		name  string
		grant Grant
		after time.Duration
		age   time.Duration
		want  []string // nil: 401
	}{
		{"at once", anna, 0, 0, []string{"team-a", "ops"}},
		{"a day later", anna, 24 * time.Hour, 0, []string{"team-a", "ops"}},
		{"a second more", anna, 24*time.Hour + time.Second, 0, nil},
		{"as set", anna, 2 * time.Hour, time.Hour, nil},
		{"nobody knows when", Grant{Caller: Caller{groups: []string{"ops"}}, guard: g}, 0, 0, nil},
		{"in no group", carla, 6 * 24 * time.Hour, 0, []string{}},
		{"anonymous", nobody, 0, 0, []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := now
			defer func() { now = began }()
			now = now.Add(tt.after)
			groups, err := tt.grant.Groups(tt.age)
			refusal, _ := errors.AsType[*Refusal](err)
			if tt.want == nil && (refusal == nil || refusal.Status != http.StatusUnauthorized) || tt.want != nil && err != nil || !slices.Equal(groups, tt.want) {
				t.Errorf("%v, %v; want %v", groups, err, tt.want)
			}
		})
	}
}

func TestScopeOfInstances(t *testing.T) {
	for _, tt := range []struct {
		scope, right string
		want         bool
	}{
		{"use:instance:sandbox/*", "use:instance:sandbox/vpc", true},
		{"use:instance:sandbox/*", "read:template:sandbox/vpc", true},
		{"use:instance:sandbox/*", "publish:template:sandbox/vpc", false},
		{"use:instance:sandbox/*", "admin:template:sandbox/vpc", false},
		{"use:instance:sandbox/*", "read:template:other/vpc", false},
		{"use:instance:sandbox/*", "read:instance:sandbox/vpc", false},
		{"use:instance:sandbox/*", "approve:instance:sandbox/vpc", false},
		{"use:instance:sandbox/*", "admin:instance:sandbox/vpc", false},
		{"use:instance:sandbox/*", "use:instance:?", true},
		{"use:instance:sandbox/*", "approve:instance:?", false},
		{"use:instance:sandbox/*", "use:instance:**", false},
		{"read:instance:**", "read:instance:sandbox/vpc", true},
		{"read:instance:**", "use:instance:sandbox/vpc", false},
		{"read:instance:**", "read:template:sandbox/vpc", false},
		{"approve:instance:**", "read:instance:sandbox/vpc", true},
		{"approve:instance:**", "use:instance:sandbox/vpc", false},
		{"admin:instance:**", "use:instance:sandbox/vpc", true},
		{"admin:instance:**", "approve:instance:sandbox/vpc", true},
		{"admin:instance:**", "admin:instance:**", true},
		{"admin:instance:sandbox/*", "admin:instance:**", false},
		{"admin:instance:**", "read:template:sandbox/vpc", true},
		{"admin:instance:**", "admin:template:sandbox/vpc", false},
		{"admin:instance:**", "admin:module:sandbox/vpc/aws", false},
		{"read:template:**", "read:template:sandbox/vpc", true},
		{"read:template:**", "use:instance:sandbox/vpc", false},
		{"publish:template:sandbox/*", "read:template:sandbox/vpc", true},
		{"publish:template:sandbox/*", "admin:template:sandbox/vpc", false},
		{"admin:template:**", "publish:template:sandbox/vpc", true},
		{"admin:template:**", "use:instance:sandbox/vpc", false},
		{"admin:*:**", "read:template:sandbox/vpc", false},
		{"admin:*:**", "read:instance:sandbox/vpc", false},
		{"admin:*:**", "use:instance:sandbox/vpc", false},
		{"admin:*:**", "use:instance:?", false},
		{"admin:instance:**", "read:instance:tfe/acme", false},
		{"admin:instance:tfe/*", "use:instance:tfe/acme", false},
		{"admin:template:**", "read:template:tfe/acme", false},
		{"use:instance:**", "read:template:tfe/acme", false},
		{"run:state:shop", "read:state:shop", true},
		{"run:state:shop", "run:state:shop", true},
		{"run:state:shop", "write:state:shop", false},
		{"write:state:shop", "run:state:shop", false},
	} {
		s := must.Get(rights.ParseScope(tt.scope))(t)
		right := must.Get(rights.ParseScope(tt.right))(t)
		if got := s.Allows(rights.Right{Action: right.Action, Kind: right.Kind, Address: right.Glob}); got != tt.want {
			t.Errorf("%s allows %s: %v, want %v", tt.scope, tt.right, got, tt.want)
		}
		must.Equal(t, tt.scope+": is written", s.String(), tt.scope)
	}
	for _, s := range []string{"use:template:**", "write:instance:**", "publish:instance:**", "approve:template:**", "use:*:**", "admin:state:**", "run:instance:**"} {
		if _, err := rights.ParseScope(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
	// On a loopback listener every caller has rights to all kinds.
	everybody := Caller{scopes: rights.AnonymousAll()}
	for _, right := range []rights.Right{{Action: rights.Use, Kind: addr.KindInstance, Address: "sandbox/vpc"}, {Action: rights.Approve, Kind: addr.KindInstance, Address: "sandbox/vpc"}, {Action: rights.Publish, Kind: addr.KindTemplate, Address: "sandbox/vpc"}, {Action: rights.Run, Kind: addr.KindState, Address: "shop"}} {
		if _, ok := everybody.ruleFor(right); !ok {
			t.Errorf("everybody may everything, but not %v", right)
		}
	}
}
