// SPDX-License-Identifier: Apache-2.0

package templatesource_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/templatesource"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

// TestSignedTemplates admits a template of the registry only once it is signed with a key
// that the policy trusts.
//
// Shows: platform 6
// Shows: platform-attacks 12
func TestSignedTemplates(t *testing.T) {
	s := newFixture(t)
	key, foreign := must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	o := s.depot.Options()
	s.o.Catalog = catalog.New(catalog.Options{
		Client: o.Client, Layout: o.Layout, Now: func() time.Time { return time.Now().Add(time.Duration(s.later.Load())) },
		Require: map[string]trust.Policy{addr.KindTemplate: {Require: []string{trust.RequireCosign}, Cosign: []*ecdsa.PublicKey{&key.PublicKey}}},
	})
	s.o.Sources = []templatesource.Source{{Templates: "acme/*", Versions: must.Fixed(addr.ParseConstraint(""))}}
	s.moduleAt("acme/vpc/aws", "1.0.0", config)
	sign := func(version string, key *ecdsa.PrivateKey) {
		t.Helper()
		it := addr.Item{Kind: addr.KindTemplate, Template: "acme/vpc"}
		must.Get(trust.SignCosign(t.Context(), must.Fixed(s.depot.Subject(t.Context(), it, must.Fixed(addr.ParseVersion(version)))), key))(t)
	}
	all := templatesource.New(s.o)
	title := func() string {
		s.load(all)
		e, ok := all.Current("acme/vpc")
		if !ok {
			return ""
		}
		return e.Template.Title + e.Problem
	}
	s.publish("acme/vpc", "1.0.0", templateText("acme/vpc", `address = "acme/vpc/aws"`, `title = "one"`))
	must.Equal(t, "without a signature", title(), "")
	sign("1.0.0", foreign)
	must.Equal(t, "signed by somebody", title(), "")
	sign("1.0.0", key)
	if got := title(); got != "one" {
		t.Errorf("signed: %q, %v", got, problems(all))
	}
	s.publish("acme/vpc", "1.1.0", templateText("acme/vpc", `address = "acme/vpc/aws"`, `title = "two"`))
	must.Equal(t, "beside a version without a signature", title(), "one")
	s.publish("acme/vpc", "1.2.0", templateText("acme/vpc", `address = "acme/vpc/aws"`, `title = "three"`))
	sign("1.2.0", key)
	must.Equal(t, "a newer one that is signed", title(), "three")
}

// TestTemplatesNews: a module published later makes the template valid at once; until then it says
// what is missing.
func TestTemplatesNews(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	dir := t.TempDir()
	s := &fixture{t: t, dir: dir}
	s.file("a.hcl", templateText("a/one", `address = "net/vpc/aws"`, ""))
	synctest.Test(t, func(t *testing.T) {
		client := must.Fixed(oci.New("registry.test", oci.Options{Transport: ocitest.Direct{Handler: handler}, PlainHTTP: true}))
		layout := addr.Layout{Prefix: "p"}
		c := catalog.New(catalog.Options{Client: client, Layout: layout})
		all := templatesource.New(templatesource.Options{Dir: dir, Catalog: c})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := all.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(31 * time.Second)
		e, ok := all.Current("a/one")
		if want := "module net/vpc/aws: no version of it is published: not found"; !ok || e.Problem != want || strings.Contains(e.Problem, "registry.test") {
			t.Errorf("before: %t, %q, want %q", ok, e.Problem, want)
		}
		m := addr.ModuleVersion{Module: must.Fixed(addr.ParseModule("net/vpc/aws")), Version: must.Fixed(addr.ParseVersion("1.0.0"))}
		d := depot.New(depot.Options{Client: client, Layout: layout})
		out := must.Get(d.PublishModule(t.Context(), fstest.MapFS{"main.tf": {Data: []byte(config)}}, m, depot.ModuleOptions{}))(t)
		c.Changed(layout.Module(m.Module), out.Tag)
		c.ChangedPublished()
		time.Sleep(5 * time.Second)
		e, _ = all.Current("a/one")
		if diff := cmp.Diff("", e.Problem); diff != "" || e.Source.Version != "1.0.0" {
			t.Errorf("afterwards: %s, %+v", diff, e.Source)
		}
		cancel()
		running.Wait()
	})
}
