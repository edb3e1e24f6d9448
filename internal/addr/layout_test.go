// SPDX-License-Identifier: Apache-2.0

package addr_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
)

func flatLayout() addr.Layout {
	return addr.Layout{
		Prefix:    "org",
		Modules:   "{prefix}/modules.{namespace}.{name}.{system}",
		Providers: "{prefix}/providers.{namespace}.{type}",
		Mirror:    "{prefix}/{hostname}.okara.mirror.{namespace}.{type}",
		State:     "{prefix}/state/{name}.x",
		Templates: "{prefix}/templates.{namespace}.{name}",
		Instances: "{prefix}/instances",
		Ledgers:   "{prefix}/okara.ledger",
	}
}

func TestLayoutNames(t *testing.T) {
	m := addr.Module{Namespace: "net", Name: "vpc", System: "aws"}
	own := addr.Provider{Namespace: "acme", Type: "dns"}
	mirrored := addr.Provider{Hostname: "registry.example.com:8443", Namespace: "acme", Type: "dns"}
	tests := []struct {
		name   string
		layout addr.Layout
		want   []string
	}{
		{"no prefix", addr.Layout{}, []string{
			"modules/net/vpc/aws", "providers/acme/dns", "mirror/registry.example.com_8443/acme/dns", "state/shop.prod", "catalog", "queue",
			"templates/sandbox/vpc", "instances/sandbox/vpc/k7m2p9x4tq default", "ledger", "ledger-12"}},
		{"prefix", addr.Layout{Prefix: "a/b"}, []string{
			"a/b/modules/net/vpc/aws", "a/b/providers/acme/dns", "a/b/mirror/registry.example.com_8443/acme/dns", "a/b/state/shop.prod", "a/b/catalog", "a/b/queue",
			"a/b/templates/sandbox/vpc", "a/b/instances/sandbox/vpc/k7m2p9x4tq default", "a/b/ledger", "a/b/ledger-12"}},
		{"one repository a template", addr.Layout{Instances: "{prefix}/instances/{namespace}/{name}"}, []string{
			"modules/net/vpc/aws", "providers/acme/dns", "mirror/registry.example.com_8443/acme/dns", "state/shop.prod", "catalog", "queue",
			"templates/sandbox/vpc", "instances/sandbox/vpc k7m2p9x4tq", "ledger", "ledger-12"}},
		{"flat", flatLayout(), []string{
			"org/modules.net.vpc.aws", "org/providers.acme.dns", "org/registry.example.com_8443.okara.mirror.acme.dns", "org/state/shop.prod.x", "org/catalog", "org/queue",
			"org/templates.sandbox.vpc", "org/instances k7m2p9x4tq", "org/okara.ledger", "org/okara.ledger-12"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.layout
			must.Succeed(t, l.Validate())
			state := must.Get(l.StateRepo("shop.prod"))(t)
			template := must.Get(l.Template("sandbox", "vpc"))(t)
			repository, workspace := must.GetBoth(l.Instance("sandbox", "vpc", "k7m2p9x4tq"))(t)
			got := []string{l.Module(m), l.Provider(own), l.MirrorOf(mirrored), state, l.CatalogRepo(), l.QueueRepo(),
				template, repository + " " + workspace, l.Ledger(1), l.Ledger(12)}
			must.Match(t, "value", got, tt.want)
			want := []addr.Item{
				{Kind: addr.KindModule, Module: m}, {Kind: addr.KindProvider, Provider: own}, {Kind: addr.KindMirror, Provider: mirrored},
				{Kind: addr.KindState, State: "shop.prod"}, {Kind: addr.KindCatalog}, {Kind: addr.KindQueue},
				{Kind: addr.KindTemplate, Template: "sandbox/vpc"}, {Kind: addr.KindInstance}, {Kind: addr.KindLedger, Ledger: 1}, {Kind: addr.KindLedger, Ledger: 12},
			}
			if strings.Contains(repository, "vpc") {
				want[7].Template = "sandbox/vpc"
			}
			if workspace == "default" {
				want[7].Instance = "k7m2p9x4tq"
			}
			for i, name := range got {
				name, _, _ := strings.Cut(name, " ")
				item, ok := l.Parse(name)
				if diff := cmp.Diff(item, want[i]); !ok || diff != "" {
					t.Errorf("Parse(%q), %v (-got +want)\n%s", name, ok, diff)
				}
			}
		})
	}
}

// TestLayoutRuns: runs of a workspace are stored like instances, by the name of their state.
func TestLayoutRuns(t *testing.T) {
	for _, tt := range []struct{ instances, repository, workspace string }{
		{"", "instances/tfe/shop-prod_eu/k7m2p9x4tq", "run"},
		{"{prefix}/all/instances", "all/instances", "run-k7m2p9x4tq"},
	} {
		l := addr.Layout{Instances: tt.instances}
		repository, workspace, err := l.Instance(addr.TemplateReserved, "shop.prod_eu", "k7m2p9x4tq")
		if err != nil || repository != tt.repository || workspace != tt.workspace {
			t.Errorf("%q %q, %v; want %q %q", repository, workspace, err, tt.repository, tt.workspace)
		}
		if item, ok := l.Parse(repository); !ok || item.Kind != addr.KindInstance {
			t.Errorf("Parse(%q) = %+v, %v", repository, item, ok)
		}
	}
}

func TestLayoutParseRefuses(t *testing.T) {
	l := addr.Layout{Prefix: "a"}
	for _, name := range []string{"", "a", "modules/net/vpc/aws", "a/modules/net/vpc", "a/modules/net/vpc/a-ws", "a/modules/Net/vpc/aws",
		"a/providers/ac_me/dns", "a/mirror/Host/acme/dns", "a/mirror/host_443/acme/dns", "a/state/x/y", "a/state/..", "a/state/x.okara--runs", "a/catalog/x",
		"a/templates/sandbox", "a/templates/tfe/acme", "a/templates/a--b/vpc", "a/templates/a_b/vpc", "a/templates/" + strings.Repeat("a", 41) + "/vpc",
		"a/instances/sandbox/vpc", "a/instances/sandbox/vpc/k7m2p9x4t", "a/instances/sandbox/vpc/77m2p9x4tq", "a/instances/sandbox/vpc/k7m2p9x4tl",
		"a/ledger-1", "a/ledger-0", "a/ledger-02", "a/ledger-", "a/ledger-x", "a/ledger-99999999999", "a/ledger2"} {
		if item, ok := l.Parse(name); ok {
			t.Errorf("Parse(%q) = %+v, want none", name, item)
		}
	}
}

func TestLayoutValidate(t *testing.T) {
	tests := []struct {
		name   string
		layout addr.Layout
		err    string
	}{
		{"bad prefix", addr.Layout{Prefix: "A"}, "repository prefix"},
		{"missing placeholder", addr.Layout{Modules: "{prefix}/m/{namespace}/{name}"}, "placeholders {namespace}, {name}, {system}"},
		{"placeholder twice", addr.Layout{Modules: "{prefix}/{namespace}/{name}/{system}/{name}"}, "each once"},
		{"foreign placeholder", addr.Layout{Providers: "{prefix}/{namespace}/{type}/{system}"}, "each once"},
		{"not bounded", addr.Layout{Providers: "{prefix}/p-{namespace}/{type}"}, "stand alone"},
		{"adjacent", addr.Layout{Providers: "{prefix}/{namespace}{type}"}, "placeholders"},
		{"prefix inside", addr.Layout{Providers: "x/{prefix}/{namespace}/{type}"}, "first segment"},
		{"host not first", addr.Layout{Mirror: "{prefix}/m.{hostname}/{namespace}/{type}"}, "first in their segment"},
		{"upper case", addr.Layout{Catalog: "Catalog"}, "stand alone"},
		{"same name", addr.Layout{Queue: "{prefix}/catalog"}, "same repository"},
		{"placeholder over literal", addr.Layout{Providers: "{prefix}/{namespace}/{type}"}, "same repository"},
		{"part of an instance", addr.Layout{Instances: "{prefix}/instances/{namespace}/{id}"}, "{namespace}, {name}, {id} or {namespace}, {name} or none, each once"},
		{"numbered ledger", addr.Layout{Ledgers: "{prefix}/ledger/{id}"}, "placeholders none"},
		{"over a numbered ledger", addr.Layout{Queue: "{prefix}/ledger-7"}, "same repository"},
		{"ledger over a literal", addr.Layout{Ledgers: "{prefix}/queue"}, "same repository"},
		{"state over a ledger", addr.Layout{State: "{prefix}/{name}", Catalog: "c/c", Queue: "q/q"}, "same repository"},
		{"instances over templates", addr.Layout{Instances: "{prefix}/templates/{namespace}/{name}"}, "same repository"},
		{"templates over modules", addr.Layout{Modules: "{prefix}/{namespace}/{name}/{system}"}, "same repository"},
		{"host over own", addr.Layout{Mirror: "{prefix}/{hostname}.{namespace}.{type}", Providers: "{prefix}/providers.{namespace}.{type}"}, "same repository"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.layout.Validate(); err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want an error with %q", err, tt.err)
			}
		})
	}
	if _, err := (addr.Layout{}).StateRepo("a/b"); err == nil {
		t.Error("state name with a slash: want an error")
	}
	if err := (addr.Layout{Queue: "{prefix}/ledger-1", Catalog: "{prefix}/ledgers"}).Validate(); err != nil {
		t.Errorf("names that no ledger has: %v", err)
	}
	for _, name := range []string{"tfe/vpc", "a_b/vpc", "a/", "a/B", "a/" + strings.Repeat("b", 41)} {
		namespace, rest, _ := strings.Cut(name, "/")
		if got, err := (addr.Layout{}).Template(namespace, rest); err == nil {
			t.Errorf("template %q is kept in %s", name, got)
		}
		if _, _, err := addr.ParseTemplate(name); err == nil {
			t.Errorf("template %q was accepted", name)
		}
	}
	if got, _, err := (addr.Layout{}).Instance(addr.TemplateReserved, "a/b", "k7m2p9x4tq"); err == nil {
		t.Errorf("runs of a state with a slash are kept in %s", got)
	}
	for _, id := range []string{"", "k7m2p9x4t", "k7m2p9x4tqq", "27m2p9x4tq", "k7m2p9x4t/", "K7m2p9x4tq", "o7m2p9x4tq"} {
		if got, _, err := (addr.Layout{}).Instance("sandbox", "vpc", id); err == nil {
			t.Errorf("instance %q is kept in %s", id, got)
		}
	}
}

func FuzzLayout(f *testing.F) {
	f.Add("net/vpc/aws", "registry.example.com:8443/acme/dns")
	f.Add("a-b/c__d/x", "acme/dns")
	f.Fuzz(func(t *testing.T, module, provider string) {
		for _, l := range []addr.Layout{{}, {Prefix: "x/y"}, flatLayout()} {
			if m, err := addr.ParseModule(module); err == nil {
				if item, ok := l.Parse(l.Module(m)); !ok || item.Module != m {
					t.Errorf("%v -> %s -> %+v", m, l.Module(m), item)
				}
			}
			p, err := addr.ParseProvider(provider)
			if err != nil {
				continue
			}
			name, kind := l.Provider(p), addr.KindProvider
			if p.Hostname != "" {
				name, kind = l.MirrorOf(p), addr.KindMirror
			}
			if item, ok := l.Parse(name); !ok || item.Kind != kind || item.Provider != p {
				t.Errorf("%v -> %s -> %+v", p, name, item)
			}
		}
	})
}

// Shows: mistakes 10
func TestLayoutBelowState(t *testing.T) {
	for _, tt := range []struct {
		layout     addr.Layout
		repository string
		want       bool
	}{
		{addr.Layout{}, "state/shop", true},
		{addr.Layout{}, "state/a/b/c", true},
		{addr.Layout{}, "state", false},
		{addr.Layout{}, "states/shop", false},
		{addr.Layout{}, "else/state/shop", false},
		{addr.Layout{Prefix: "acme/x"}, "acme/x/state/a/b", true},
		{addr.Layout{Prefix: "acme/x"}, "acme/state/a/b", false},
		{addr.Layout{Prefix: "acme", State: "{prefix}/tf/state.{name}"}, "acme/tf/a/b", true},
		{addr.Layout{State: "tfstate/{name}"}, "tfstate/a/b", true},
		{addr.Layout{Prefix: "acme", State: "{prefix}/{name}.state"}, "acme/a/b.state", false},
		{addr.Layout{State: "{name}.state"}, "a/b", false},
	} {
		if got := tt.layout.BelowState(tt.repository); got != tt.want {
			t.Errorf("%+v: %s: %v", tt.layout, tt.repository, got)
		}
	}
}
