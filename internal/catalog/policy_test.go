// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/trust"
)

// signed requires modules to be signed with a key.
func signed(key *ecdsa.PrivateKey) func(*catalog.Options) {
	return func(o *catalog.Options) {
		o.Require = map[string]trust.Policy{
			addr.KindModule: {Require: []string{trust.RequireCosign}, Cosign: []*ecdsa.PublicKey{&key.PublicKey}},
		}
	}
}

func newCosign() *ecdsa.PrivateKey {
	return must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

func (s *store) sign(t *testing.T, repository, version string, key *ecdsa.PrivateKey) {
	t.Helper()
	it, _ := s.depot.Options().Layout.Parse(repository)
	must.Get(trust.SignCosign(t.Context(), must.Fixed(s.depot.Subject(t.Context(), it, must.Fixed(addr.ParseVersion(version)))), key))(t)
}

// TestPolicy checks each version once, a refused one again: a signature may be added.
func TestPolicy(t *testing.T) {
	key := newCosign()
	checked := map[string]int{}
	s := newStore(t, func(o *catalog.Options) {
		signed(key)(o)
		o.Watch.Checked = func(kind, result string) { checked[kind+" "+result]++ }
	})
	s.module(t, vpc, "1.0.0")
	s.module(t, vpc, "1.1.0")
	s.sign(t, vpcRepo, "1.0.0", key)
	s.sign(t, vpcRepo, "1.1.0", newCosign())
	s.pass(time.Minute)
	if diff := cmp.Diff(s.listed(t, vpc), []string{"1.0.0"}); diff != "" {
		t.Fatalf("got - want +:\n%s", diff)
	}
	if n := s.requests(func() { must.Fixed(s.version(t.Context(), vpc, "1.0.0")) }); len(n) != 0 {
		t.Errorf("a version that was checked for the list is checked again: %v", n)
	}
	_, err := s.version(t.Context(), vpc, "1.1.0")
	if _, refused := errors.AsType[*catalog.RefusedError](err); !refused || !strings.Contains(err.Error(), "policy") {
		t.Errorf("a stranger's version: %v", err)
	}
	s.sign(t, vpcRepo, "1.1.0", key)
	s.Changed(vpcRepo, must.Fixed(s.repo(vpcRepo).Resolve(t.Context(), "1.1.0")).Digest.String())
	must.Match(t, "once it is signed", s.listed(t, vpc), []string{"1.1.0", "1.0.0"})
	if checked["module passed"] < 2 || checked["module refused"] == 0 {
		t.Errorf("checks: %v", checked)
	}
}

func TestValidateRequire(t *testing.T) {
	key := newCosign()
	cosign := trust.Policy{Require: []string{trust.RequireCosign}, Cosign: []*ecdsa.PublicKey{&key.PublicKey}}
	tests := []struct {
		name, kind string
		o          trust.Policy
		good       bool
	}{
		{"cosign of modules", addr.KindModule, cosign, true},
		{"a kind that nobody lists", addr.KindState, cosign, false},
		{"nothing", addr.KindModule, trust.Policy{}, false},
		{"cosign without keys", addr.KindModule, trust.Policy{Require: []string{trust.RequireCosign}}, false},
		{"keys that nobody asks for", addr.KindModule, trust.Policy{Require: []string{trust.RequireScan}, Cosign: cosign.Cosign}, false},
		{"modules have no OpenPGP", addr.KindModule, trust.Policy{Require: []string{trust.RequireOpenPGP}}, false},
		{"unknown", addr.KindModule, trust.Policy{Require: []string{"magic"}}, false},
		{"a gate alone", addr.KindMirror, trust.Policy{Block: "high"}, true},
	}
	for _, tt := range tests {
		if err := catalog.ValidateRequire(tt.kind, tt.o); (err == nil) != tt.good {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
