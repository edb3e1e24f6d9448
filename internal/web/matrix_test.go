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

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func token(name string) string { return "oks_" + name + "_" + strings.Repeat("x", 24) }

// callers: a reader, a publisher, an admin, and one whose right covers nothing.
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
func (s *site) as(t testing.TB, caller, path string) (status int, body string, size int) {
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

// TestBudget checks the cost of pages: requests to the registry, cached and not, and
// bytes, with full pages; and that a cached page needs no registry.
//
// Shows: pages 11 | requests and bytes of pages, warm and cold, also with 10,000 modules, 10,000
// states and 1,000 instances; times are printed by the benchmarks
// Shows: page-mistakes 6 | megabytes of script | terrareg
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
		"modules/net/vpc/aws/versions": 30, "modules/net/vpc/aws/downloads": 30, "providers/acme/dns": 30, "providers/acme/dns/downloads": 30, "modules/net/vpc/aws/1.10.0/security": 30, "modules/net/vpc/aws/1.10.0/files": 30,
		"modules/net/vpc/aws/1.10.0/files/main.tf": 30, "modules/net/large/aws/1.0.0/inputs": 30, "providers/acme/dns/1.2.3/docs/resources/record": 30,
		"modules/net/vpc/aws/1.10.0/examples/examples/simple": 30,
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

// TestDownloadsPage: only of versions, no lookups or parts.
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
