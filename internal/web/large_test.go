// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// Bounds of a page in bytes, gzipped.
const (
	pageBytes   = 30 << 10
	readmeBytes = 60 << 10
)

// TestLarge checks the cost of pages with 10,000 modules: no request to the registry once
// they are cached, few bytes, and 64 MiB of memory for the pages of 1,000 of them.
//
// Shows: pages 11
func TestLarge(t *testing.T) {
	s := newLarge(t)
	bare := heap()
	if _, err := s.protocols.Catalog().Published(t.Context()); err != nil { // a page waits only two seconds
		t.Fatal(err)
	}
	bounds := map[string]int{"search?q=thing": pageBytes, "search?q=thingg9999": pageBytes, "search?sort=newest&page=100": pageBytes, "modules/team0": pageBytes}
	for name, path := range warmPages() {
		if bounds[path] = pageBytes; name == "module" {
			bounds[path] = readmeBytes
		}
	}
	for path := range bounds {
		s.as(t, "", "/ui/"+path)
	}
	s.count.Take()
	for path, most := range bounds {
		status, body, size := s.as(t, "", "/ui/"+path)
		t.Logf("%q: %d bytes", path, size)
		if n := s.count.Take(); status != http.StatusOK || size > most || len(n) != 0 {
			t.Errorf("%q: status %d, %d bytes, at most %d, asks %v", path, status, size, most, n)
		}
		if path == "" && (!strings.Contains(body, fmt.Sprintf("%d</span>", largeModules)) || !strings.Contains(body, fmt.Sprintf("%d</span>", largeProviders))) {
			t.Errorf("the catalog is not whole:\n%s", body)
		}
	}
	for n := range visited {
		s.as(t, "", fmt.Sprintf("/ui/modules/team%d/thing%d/aws", n%100, n))
	}
	if held := int64(heap()) - int64(bare); held > largeMemory {
		t.Errorf("the pages hold %d bytes, more than %d", held, largeMemory)
	}
	runtime.KeepAlive(s)
}

// TestLargeInstances does the same for a caller that sees all of 1,000 instances, and for
// one that sees 20 of them.
//
// Shows: pages 11
func TestLargeInstances(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	many(t, d)
	d.Tokens["person"] = d.Issuer.Token(t, "person 7", "use")
	before := d.Store.Commits()
	for who, path := range map[string]string{"person": "instances", "admin": "admin/instances"} {
		reply := d.Visit(t, who, path, nil)
		if reply.Status != http.StatusOK || !strings.Contains(reply.Body, `href="`) || zipped(t, reply.Body) > pageBytes {
			t.Errorf("%s: status %d, %d bytes", path, reply.Status, zipped(t, reply.Body))
		}
	}
	if n := d.Store.Commits() - before; n > 0 {
		t.Errorf("%d commits", n)
	}
}

// TestLargeStates does that with 10,000 states, for readers of all and of one workspace each.
//
// Shows: pages 11
func TestLargeStates(t *testing.T) {
	s := newStateSite(t)
	s.manyStates(t)
	for _, path := range []string{"states", "states?page=100"} {
		s.ask(t, admin, http.MethodGet, path, nil)
		if n := s.count.Total(); n > 2+2*100 {
			t.Errorf("cold, %s asks %d times", path, n)
		}
		s.count.Take()
		resp, body := s.ask(t, admin, http.MethodGet, path, nil)
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, fmt.Sprint(largeStates, " states that you may read")) || strings.Count(body, "<tr>") != 101 || strings.Contains(body, "in time") {
			t.Errorf("%s: status %d\n%s", path, resp.StatusCode, body)
		}
		if n := s.count.Take(); len(n) != 0 || zipped(t, body) > pageBytes {
			t.Errorf("warm, %s asks %v, %d bytes", path, n, zipped(t, body))
		}
	}
	for range 2 {
		resp, body := s.ask(t, partly, http.MethodGet, "states", nil)
		n := s.count.Total()
		s.count.Take()
		if resp.StatusCode != http.StatusOK || n == 0 || n > 2*200 || !strings.Contains(body, "Reload this page") {
			t.Errorf("status %d, %d requests\n%s", resp.StatusCode, n, body)
		}
	}
}

// largeStates is the maximum number of states.
const largeStates = 10_000

// manyStates makes the registry list that many states, which all answer as the first one.
func (s *stateSite) manyStates(t testing.TB) {
	t.Helper()
	s.put(t, "team00000", "default", shopState(1, "a"))
	names := make([]string, largeStates-2) // with those in the settings
	for i := range names {
		names[i] = fmt.Sprintf(`"acme/state/team%05d"`, i)
	}
	team := regexp.MustCompile(`/team\d{5}/`)
	s.count.Base = &ocitest.Fault{
		Times: -1, Match: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/_catalog") },
		Do: ocitest.Respond("application/json", `{"repositories":[`+strings.Join(names, ",")+`]}`),
		Base: &ocitest.Fault{Times: -1, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Path = team.ReplaceAllString(r.URL.Path, "/team00000/")
			return next.RoundTrip(r)
		}},
	}
}

// TestLargeAudit does the same with 10,000 changes.
//
// Shows: pages 11
func TestLargeAudit(t *testing.T) {
	s := newStateSite(t)
	for i := range 10_000 {
		s.records.Info("change", "action", "publish", "kind", "module", "address", fmt.Sprintf("team%d/thing%d/aws", i%100, i), "version", "1.0.0",
			"decision", "allowed", "mode", "oidc", "subject", fmt.Sprint("person", i%50), "issuer", "https://issuer.example.com", "client_ip", "192.0.2.7", "rule", "publish:module:**")
	}
	if err := s.auditLog.Read(t.Context()); err != nil { // a page waits only a short time for that
		t.Fatal(err)
	}
	s.count.Take()
	for _, path := range []string{"audit", "audit?page=50", "audit?actor=person7", "audit?what=decisions"} {
		resp, body := s.ask(t, admin, http.MethodGet, path, nil)
		if resp.StatusCode != http.StatusOK || zipped(t, body) > pageBytes {
			t.Errorf("%s: status %d, %d bytes", path, resp.StatusCode, zipped(t, body))
		}
	}
	if n := s.count.Take(); len(n) != 0 {
		t.Errorf("warm pages ask %v", n)
	}
}

// zipped returns the compressed size of a text.
func zipped(t *testing.T, text string) int {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.Get(w.Write([]byte(text)))(t)
	must.Succeed(t, w.Close())
	return b.Len()
}
