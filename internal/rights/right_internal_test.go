// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestScope(t *testing.T) {
	tests := []struct {
		scope   string
		action  Action
		kind    Kind
		address string
		want    bool
	}{
		{"read:module:**", "read", "module", "net/vpc/aws", true},
		{"read:module:**", "publish", "module", "net/vpc/aws", false},
		{"read:module:**", "read", "provider", "acme/dns", false},
		{"publish:module:acme/*/*", "read", "module", "acme/vpc/aws", true},
		{"publish:module:acme/*/*", "publish", "module", "acme/vpc/aws", true},
		{"publish:module:acme/*/*", "publish", "module", "acme/vpc", false},
		{"publish:module:acme/*/*", "publish", "module", "acme2/vpc/aws", false},
		{"publish:module:acme/*/*", "admin", "module", "acme/vpc/aws", false},
		{"admin:module:acme/**", "publish", "module", "acme/vpc/aws", true},
		{"read:*:**", "read", "mirror", "registry.opentofu.org/hashicorp/aws", true},
		{"admin:*:**", "read", "state", "shop", false},
		{"admin:*:**", "write", "state", "shop", false},
		{"write:state:shop-*", "read", "state", "shop-prod", true},
		{"write:state:shop-*", "write", "state", "shop-prod", true},
		{"read:state:shop-*", "write", "state", "shop-prod", false},
		{"write:state:shop", "write", "state", "shop/dev", true},
		{"write:state:shop", "write", "state", "shop/", true},
		{"write:state:shop/dev-*", "write", "state", "shop/dev-1", true},
		{"write:state:shop/dev-*", "read", "state", "shop/dev-1", true},
		{"write:state:shop/dev-*", "write", "state", "shop/dev-1/eu", false},
		{"write:state:shop/dev-*", "write", "state", "shop/prod", false},
		{"write:state:shop/dev-*", "write", "state", "shop", false},
		{"write:state:shop/dev-*", "write", "state", "shop/", true},
		{"write:state:shop/dev-*", "write", "state", "shop2/", false},
		{"write:state:shop/dev-*", "write", "state", Everything, false},
		{"write:state:shop/dev-*", "write", "state", Somewhere, true},
		{"write:state:shop/**", "write", "state", "shop/a/b", true},
		{"write:state:*/prod", "write", "state", "shop/prod", true},
		{"write:state:*/prod", "write", "state", "prod", false},
		{"write:state:*/prod", "write", "state", "shop/", true},
		{"write:state:**", "write", "state", "shop/", true},
		{"read:mirror:registry.opentofu.org/**", "read", "mirror", "registry.opentofu.org/hashicorp/aws", true},
		{"read:mirror:registry.opentofu.org/**", "read", "mirror", "registry.terraform.io/hashicorp/aws", false},
	}
	for _, tt := range tests {
		s := must.Get(ParseScope(tt.scope))(t)
		if got := s.Allows(Right{tt.action, tt.kind, tt.address}); got != tt.want {
			t.Errorf("%s allows %s %s %s: %v, want %v", tt.scope, tt.action, tt.kind, tt.address, got, tt.want)
		}
	}
}

func TestParseScopeRefuses(t *testing.T) {
	for _, s := range []string{"", "read", "read:module", "read:module:", "write:module:**", "publish:state:**", "read:nothing:**", "eat:module:**"} {
		if _, err := ParseScope(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestRightToInstances(t *testing.T) {
	for _, l := range []addr.Layout{{Prefix: "p"}, {Prefix: "p", Instances: "{prefix}/instances"}, {Prefix: "p", Instances: "{prefix}/instances/{namespace}/{name}"}} {
		for _, action := range []Action{Read, Publish} {
			template := must.Get(l.Template("sandbox", "vpc"))(t)
			own, _ := must.GetBoth(l.Instance("sandbox", "vpc", "k7m2p9x4tq"))(t)
			must.Equal(t, template, RightTo(l, action, template), Right{action, addr.KindTemplate, "sandbox/vpc"})
			for _, repository := range []string{own, l.Ledger(1), l.Ledger(7), l.QueueRepo(), "p/templates/tfe/acme", "p/templates/sandbox", "p/state/acme" + addr.RunsSuffix} {
				must.Equal(t, repository+": that to the server", RightTo(l, action, repository), Server())
			}
		}
	}
}

// TestStateRight: a workspace's two names are one address; impossible names need all states.
func TestStateRight(t *testing.T) {
	l := addr.Layout{Prefix: "p", Split: []string{"acme"}}
	for _, tt := range []struct{ name, workspace, want, any string }{
		{"shop", "dev", "shop/dev", "shop/"},
		{"shop", "", "shop", "shop/"},
		{"shop", "a/b", "shop/a/b", "shop/"},
		{"shop", "**", "shop/**", "shop/"},
		{"acme", "prod", "acme/prod", "acme/"},
		{"acme.prod", "default", "acme/prod", "acme/prod"},
		{"acme.prod", "other", "acme", "acme/prod"},
		{"acme.prod", "", "acme", "acme/prod"},
		{"acme.prod.eu", "default", "acme/prod.eu", "acme/prod.eu"},
		{"acme-2.prod", "default", "acme-2.prod/default", "acme-2.prod/"},
		{"?", "default", Everything, Everything},
		{"**", "", Everything, Everything},
		{"shop/dev", "", Everything, Everything},
		{"", "dev", Everything, Everything},
		{"acme.", "default", Everything, Everything},
	} {
		if got, want := StateRight(l, Write, tt.name, tt.workspace), (Right{Write, addr.KindState, tt.want}); got != want {
			t.Errorf("%q, workspace %q: %v, want %v", tt.name, tt.workspace, got, want)
		}
		if got, want := AnyStateRight(l, Write, tt.name), (Right{Write, addr.KindState, tt.any}); got != want {
			t.Errorf("%q, any workspace: %v, want %v", tt.name, got, want)
		}
	}
	for repository, want := range map[string]string{"p/state/shop": "shop", "p/state/acme": "acme", "p/state/acme.prod": "acme/prod"} {
		if got := RightTo(l, Publish, repository); got != (Right{Write, addr.KindState, want}) {
			t.Errorf("%s: %v, want that to %s", repository, got, want)
		}
	}
}

// TestWithin checks that a scope lies within a glob only if it does for all claim values.
//
// Shows: operator 3
func TestWithin(t *testing.T) {
	for _, test := range []struct {
		right, glob string
		want        bool
	}{
		{"team-a/**", "team-a/**", true},
		{"team-a/vpc/*", "team-a/**", true},
		{"team-a", "team-a/**", true},
		{"team-a/vp*/aws", "team-a/v*/*", true},
		{"team-a/{name}/aws", "team-a/**", true},
		{"team-a/{name}/aws", "team-a/*/aws", true},
		{"team-a/{name...}", "team-a/**", true},
		{"team-a/x-{name...}", "team-a/**", true},
		{"{team}/vpc/aws", "**", true},
		{"team-*/vpc/aws", "team-a/**", false},
		{"team-a*/**", "team-a/**", false},
		{"team-b/vpc/aws", "team-a/**", false},
		{"**", "team-a/**", false},
		{"*/vpc/aws", "team-a/**", false},
		{"{team}/vpc/aws", "team-a/**", false},
		{"team-{x}/vpc/aws", "team-a/**", false},
		{"{team}/vpc/aws", "{team}/**", false},
		{"net/**", "net/*/aws", false},
		{"net/{name...}", "net/*", false},
		{"net/x{name...}", "net/x*", false},
		{"net/{name}/aws", "net/a*/aws", false},
		{"net/**/aws", "net/**/**/aws", true},
		{"net/**", "net/*/**", false},
	} {
		s := Scope{Read, "module", test.right}
		if got := s.Within(test.glob); got != test.want {
			t.Errorf("%s within %s: %t", test.right, test.glob, got)
		}
	}
}
