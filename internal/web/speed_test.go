// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
)

// Sizes for the budgets of pages.
const (
	largeModules   = 10_000
	largeVersions  = 10 // of each module
	largeProviders = 1_000
	largeInstances = 1_000
	largeMemory    = 64 << 20 // bytes
	visited        = 1_000    // modules whose pages were opened
)

// newLarge has many modules and providers that answer as the first. Its clock stands still.
func newLarge(b testing.TB) *site {
	b.Helper()
	start := time.Now()
	s := newSiteOf(b, nil, access.Policy{Anonymous: rights.AnonymousRead()}, func(o *registry.Options) { o.Now = func() time.Time { return start } })
	for n := range largeVersions {
		s.module(b, "team0/thing0/aws", fmt.Sprintf("1.%d.0", n), map[string]string{
			"main.tf":   "variable \"cidr\" { type = string }\nvariable \"zones\" {\n  type    = list(string)\n  default = []\n}\nresource \"aws_vpc\" \"this\" {}\noutput \"id\" { value = aws_vpc.this.id }\n",
			"README.md": "# A network\n\n" + strings.Repeat("It has subnets in each zone, and a way out.\n\n```hcl\nmodule \"net\" {\n  cidr = \"10.0.0.0/16\"\n}\n```\n\n", 10),
		})
	}
	s.provider(b, "1.2.3")
	entries, tags := make([]search.Entry, 0, largeModules+largeProviders), []string{"okara-index"}
	add := func(kind, address, repository string) {
		e := search.Entry{
			Kind: kind, Address: address, Version: "1.9.0", Time: start.Add(-time.Duration(len(entries)) * time.Minute), Description: fmt.Sprint("Makes a network with subnets for service ", len(entries)),
			Listed: start, Read: start,
		}
		if kind == addr.KindModule {
			e.Resources = []string{"aws_vpc", "aws_subnet", fmt.Sprint("aws_thing_", len(entries)%300)}
			for j := range 12 {
				e.Inputs = append(e.Inputs, fmt.Sprint("input_", j+len(entries)%50))
			}
		}
		entries, tags = append(entries, e), append(tags, artifact.CatalogTag(repository))
	}
	for n := range largeModules {
		m := addr.Module{Namespace: fmt.Sprint("team", n%100), Name: fmt.Sprint("thing", n), System: "aws"}
		add(addr.KindModule, m.String(), s.layout.Module(m))
	}
	dns := addr.Provider{Namespace: "acme", Type: "dns"}
	add(addr.KindProvider, "acme/dns", s.layout.Provider(dns))
	for n := range largeProviders - 1 {
		p := addr.Provider{Namespace: fmt.Sprint("team", n%100), Type: fmt.Sprint("service", n)}
		add(addr.KindProvider, p.Namespace+"/"+p.Type, s.layout.Provider(p))
	}
	s.store(b, entries, tags)
	return s
}

// store puts the index of entries and a catalog with tags into the registry.
func (s *site) store(b testing.TB, entries []search.Entry, tags []string) {
	b.Helper()
	document := must.Get(search.EncodeEntries(entries))(b)
	r := must.Get(s.client.Repo(s.layout.CatalogRepo()))(b)
	must.Succeed(b, artifact.SearchIndex().Put(b.Context(), r, nil, document))
	thing := regexp.MustCompile(`/team\d+/thing\d+/aws/`)
	s.count.Base = &ocitest.Fault{
		Times: -1, Match: func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/"+s.layout.CatalogRepo()+"/tags/list")
		},
		Do: ocitest.Respond("application/json", `{"name":"`+s.layout.CatalogRepo()+`","tags":["`+strings.Join(tags, `","`)+`"]}`),
		Base: &ocitest.Fault{Times: -1, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Path = thing.ReplaceAllString(r.URL.Path, "/team0/thing0/aws/")
			return next.RoundTrip(r)
		}},
	}
}

// BenchmarkPages measures cached pages.
//
// Shows: pages 11
func BenchmarkPages(b *testing.B) {
	s := newLarge(b)
	must.Get(s.protocols.Catalog().Published(b.Context()))(b) // a page waits only two seconds
	for name, path := range warmPages() {
		b.Run(name, func(b *testing.B) {
			var each []time.Duration
			s.as(b, "", "/ui/"+path)
			for b.Loop() {
				begin := time.Now()
				s.as(b, "", "/ui/"+path)
				each = append(each, time.Since(begin))
			}
			slices.Sort(each)
			b.ReportMetric(float64(each[len(each)*99/100].Microseconds())/1000, "ms-p99")
		})
	}
}

func warmPages() map[string]string {
	return map[string]string{
		"home": "", "search": "search?q=network+aws_vpc", "module": "modules/team0/thing0/aws", "versions": "modules/team0/thing0/aws/versions", "provider": "providers/acme/dns",
	}
}

// many creates the instances of 50 users.
func many(b testing.TB, d *portaltest.Pages) {
	b.Helper()
	e, ok := d.Catalog.Current("lab/vpc")
	if !ok {
		b.Fatal("no such template")
	}
	for n := range largeInstances {
		now, id := time.Date(2026, 5, 1, 12, 0, n, 0, time.UTC), []byte("aaaaaaaaaa")
		for i, rest := len(id)-1, n; rest > 0; i, rest = i-1, rest/len(addr.InstanceLetters) {
			id[i] = addr.InstanceLetters[rest%len(addr.InstanceLetters)]
		}
		rec := lifecycle.Record{
			ID: string(id), Template: e.Template.Name, Snapshot: e.Digest, Source: e.Source, Phase: lifecycle.Ready,
			Owner:     template.Owner{Kind: template.OwnerUser, Issuer: d.Issuer.URL, ID: fmt.Sprint("person ", n%50)},
			CreatedAt: now, ReadyAt: now, Since: now, TTL: e.Template.TTL.Default, ExpiresAt: now.Add(e.Template.TTL.Default),
		}
		c := lifecycle.Command{Event: lifecycle.Adopt{Record: rec, Template: e.Template}, Actor: lifecycle.Actor{Subject: "boss", Admin: true}, Seed: [32]byte{byte(n), byte(n >> 8)}}
		must.Get(d.Store.Do(b.Context(), c))(b)
	}
}

// heap returns the memory in use, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // frees what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
