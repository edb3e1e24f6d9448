// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// token returns the static token of a caller.
func token(name string) string { return "oks_" + name + "_" + strings.Repeat("x", 24) }

// callers returns the callers other than anonymous: a reader of one namespace, a
// publisher of another, an admin, and a caller whose right covers no item.
func callers() []statictoken.Token {
	var all []statictoken.Token
	for name, scope := range map[string]rights.Scope{
		"reader":    {Action: rights.Read, Kind: addr.KindModule, Glob: "open/**"},
		"publisher": {Action: rights.Publish, Kind: addr.KindModule, Glob: "shut/**"},
		"admin":     {Action: rights.Admin, Kind: rights.AnyKind, Glob: rights.Everything},
		"other":     {Action: rights.Read, Kind: addr.KindProvider, Glob: "elsewhere/**"},
	} {
		all = append(all, statictoken.Token{ID: name, Hash: sha256.Sum256([]byte(token(name))), Scopes: []rights.Scope{scope}})
	}
	return all
}

// as requests a page as a caller, "" for anonymous, and returns its gzipped size too.
func (s *site) as(t *testing.T, caller, path string) (status int, body string, size int) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil))(t)
	req.Header.Set("Accept-Encoding", "gzip")
	if caller != "" {
		req.Header.Set("Authorization", "Bearer "+token(caller))
	}
	resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	size = len(b)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(strings.NewReader(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode, string(b), size
}

// TestMatrix requests each page of the catalog as each kind of caller, and checks the
// status, and that no name that the caller may not read is in it, suggestions and counts
// included.
//
// Shows: pages 4
// Shows: page-mistakes 12 | numbers and names of objects that the caller may not see | several
func TestMatrix(t *testing.T) {
	s := newSiteOf(t, nil, access.Policy{Tokens: callers()})
	s.module(t, "open/vpc/aws", "1.0.0", map[string]string{"main.tf": `resource "aws_vpc" "x" {}`})
	s.module(t, "open/vpn/aws", "1.0.0", map[string]string{"main.tf": `output "x" { value = 1 }`})
	s.module(t, "shut/vault/aws", "1.0.0", map[string]string{"main.tf": `resource "aws_vpc" "x" {}`})
	s.provider(t, "1.2.3") // acme/dns
	names := map[string]string{"open": "open/vp", "shut": "shut/vault", "acme": "acme/dns"}
	sees := map[string][]string{"reader": {"open"}, "publisher": {"shut"}, "admin": {"open", "shut", "acme"}}
	items := map[string]string{"open": "modules/open/vpc/aws", "shut": "modules/shut/vault/aws", "acme": "providers/acme/dns"}
	has := func(list []string, what string) bool {
		return strings.Contains(" "+strings.Join(list, " ")+" ", " "+what+" ")
	}
	for _, caller := range []string{"", "reader", "publisher", "admin", "other"} {
		hides := func(path string, want int) string {
			t.Helper()
			status, body, _ := s.as(t, caller, "/ui/"+path)
			if status != want {
				t.Errorf("%q asks for %s: %d, want %d", caller, path, status, want)
			}
			for of, name := range names {
				if !has(sees[caller], of) && strings.Contains(body, name) && !strings.Contains(path, name) && !strings.Contains(path, "q=") {
					t.Errorf("%q asks for %s, and is told of %s", caller, path, name)
				}
				if !has(sees[caller], of) && strings.Contains(body, `href="./`+items[of]) {
					t.Errorf("%q asks for %s, and is led to %s", caller, path, name)
				}
			}
			return body
		}
		lists := http.StatusOK
		if caller == "" {
			lists = http.StatusSeeOther
		}
		for _, path := range []string{"", "search", "search?sort=downloads", "search?sort=newest&kind=module", "search?kind=provider"} {
			hides(path, lists)
		}
		for _, q := range []string{"aws_vpc", "vpc", "vault", "valt", "vlt", "dsn", "dns", "aws", "open/vpc/aws", "shut", "acme/dns"} {
			hides("search?q="+q, lists)
		}
		if lists == http.StatusOK {
			body := hides("search?q=aws&kind=module", lists)
			if want := map[string]string{"reader": "2 found", "publisher": "1 found", "admin": "3 found", "other": "Nothing found"}[caller]; !strings.Contains(body, want) {
				t.Errorf("%q is not told that %s", caller, want)
			}
		}
		for of, item := range items {
			want := http.StatusOK
			switch {
			case has(sees[caller], of):
			case caller == "":
				want = http.StatusSeeOther
			default:
				want = http.StatusForbidden
			}
			for _, page := range []string{"", "/1.0.0", "/versions", "/downloads"} {
				if page != "/1.0.0" || of != "acme" {
					hides(item+page, want)
				}
			}
			missing := strings.NewReplacer("vpc", "none", "vault", "none", "dns", "none").Replace(item) // looks the same
			if want == http.StatusOK {
				want = http.StatusNotFound
			}
			hides(missing, want)
		}
		for _, namespace := range []string{"open", "shut", "none"} {
			want := http.StatusNotFound
			switch {
			case caller == "":
				want = http.StatusSeeOther
			case has(sees[caller], namespace):
				want = http.StatusOK
			}
			hides("modules/"+namespace, want)
		}
		hides("modules/open/vpc/aws/1.0.0/none", map[bool]int{true: 404, false: map[bool]int{true: 303, false: 403}[caller == ""]}[has(sees[caller], "open")])
	}
}

// TestBudget checks the cost of pages: requests to the registry, cached and not, and
// bytes, with full pages; and that a cached page needs no registry.
//
// Shows: pages 11 | requests and bytes of pages, warm and cold, also with 10,000 modules, 10,000
// states and 1,000 instances; times are printed by the benchmarks
// Shows: pages 12 | the registry is down: cached pages still work, others report it
func TestBudget(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.full(t)
	const modules = 300 // pages are cut at 100 rows
	catalog := must.Get(s.client.Repo(s.layout.CatalogRepo()))(t)
	for i := range modules {
		m := addr.Module{Namespace: fmt.Sprint("team", i%150), Name: fmt.Sprint("thing-with-a-long-name-", i), System: "aws"}
		must.Succeed(t, artifact.AddCatalogEntry(t.Context(), catalog, artifact.CatalogEntry{Kind: addr.KindModule, Address: m.String(), Repository: s.layout.Module(m)}))
	}
	warm := map[string]int{ // KB, gzipped
		"": 30, "search": 30, "search?q=thing": 30, "search?q=thang-with-a-long-name-77": 30, "modules/net": 30, "modules/net/vpc/aws": 60, "modules/net/vpc/aws/1.10.0/inputs": 60,
		"modules/net/vpc/aws/versions": 30, "modules/net/vpc/aws/downloads": 30, "providers/acme/dns": 30, "providers/acme/dns/downloads": 30,
	}
	if _, err := s.protocols.Catalog().Published(t.Context()); err != nil { // a page waits only two seconds
		t.Fatal(err)
	}
	s.as(t, "", "/ui/")
	s.count.Take()
	// This version has no signature under a tag: the list of referrers shows one, and
	// reports.
	if s.as(t, "", "/ui/modules/net/labels/null"); s.count.Total() > 6 {
		t.Errorf("a cold page of a module asks %v", s.count.Take())
	}
	for path := range warm {
		s.as(t, "", "/ui/"+path)
	}
	for _, down := range []bool{false, true} {
		s.outage.Store(down)
		s.count.Take()
		for path, most := range warm {
			status, _, size := s.as(t, "", "/ui/"+path)
			if status != http.StatusOK || size > most<<10 {
				t.Errorf("%s, registry down: %v: status %d, %d bytes", path, down, status, size)
			}
		}
		if n := s.count.Take(); len(n) != 0 {
			t.Errorf("warm pages ask %v", n)
		}
	}
	status, body, _ := s.as(t, "", "/ui/modules/net/vpc/aws/1.0.0") // not cached
	if status != http.StatusBadGateway && status != http.StatusGatewayTimeout || !strings.Contains(body, "<h1>") {
		t.Errorf("a cold page while the registry is down: %d\n%s", status, body)
	}
}

// TestDownloadsPage shows downloads: only of versions that exist, and neither lookups nor
// partial downloads.
func TestDownloadsPage(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.full(t)
	for _, what := range []downloads.Counted{
		{Kind: "module", Address: "net/vpc/aws", Version: "1.10.0", Tool: "opentofu"}, {Kind: "module", Address: "net/vpc/aws", Version: "1.10.0", Tool: "<b>evil"},
		{Kind: "module", Address: "net/vpc/aws", Version: "7.7.7"}, {Kind: "module", Address: "net/labels/null", Version: "1.0.0"},
	} {
		s.protocols.Downloads().Add(what)
	}
	_, body := s.get(t, "/ui/modules/net/vpc/aws/downloads")
	for text, want := range map[string]bool{
		"3 in 30 days, 3 in 400 days": true, "/1.10.0\">1.10.0</a></th>": true, "OpenTofu": true, "other": true, "7.7.7": false, "evil": false, "<rect ": true,
		time.Now().UTC().Format("2 Jan 2006") + "</time></th><td class=\"num\">3</td>": true,
	} {
		if strings.Contains(body, text) != want {
			t.Errorf("%q is there: %v", text, !want)
		}
	}
	if _, body = s.get(t, "/ui/search?q=vpc"); !strings.Contains(body, "net/vpc/aws") {
		t.Error("it is not found")
	}
}
