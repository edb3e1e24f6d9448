// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// TestCut: a hundred rows a table, with links to more; tabs count all.
func TestCut(t *testing.T) {
	s := New(t, rights.AnonymousAll()...)
	const n = 130
	var code, calls strings.Builder
	code.WriteString("terraform {\n  required_providers {\n")
	for i := range n {
		fmt.Fprintf(&code, "    p%03d = { source = \"acme/p%03d\" }\n", i, i)
		fmt.Fprintf(&calls, "resource \"type_%03d\" \"this\" {}\noutput \"out_%03d\" { value = 1 }\nmodule \"call_%03d\" { source = \"./x\" }\n", i, i, i)
	}
	code.WriteString("  }\n}\n" + calls.String())
	for i := range n {
		fmt.Fprintf(&code, "data \"host\" \"of_%03d\" {}\n", i)
	}
	files := map[string]string{"main.tf": code.String(), "x/main.tf": "", "modules/part/main.tf": calls.String(), "modules/part/x/main.tf": ""}
	for i := range n {
		files[fmt.Sprintf("docs/note_%03d.md", i)] = "Note.\n"
	}
	s.module(t, "net/wide/aws", "1.0.0", map[string]string{"main.tf": ""})
	s.module(t, "net/wide/aws", "2.0.0", files)
	const page = "/ui/modules/net/wide/aws/2.0.0/"
	for _, c := range []struct{ path, has, not string }{
		{"outputs", "out_099", "out_100"},
		{"outputs", `href="?outputs=2"`, ""},
		{"outputs", `Outputs <span class="count">130</span>`, ""},
		{"outputs?outputs=2", "out_129", "out_099"},
		{"resources", "type_099", "type_100"},
		{"resources?resources=2", "type_129", "type_099"},
		{"resources?resources=2", `<td class="num" data-th="Count">130</td>`, "of_100"}, // names are cut too
		{"resources?resources=2", "and 30 more", ""},
		{"dependencies", "<code>p098</code>", "<code>p099</code>"}, // the first one is implied
		{"dependencies?providers=2", "<code>p129</code>", "<code>p098</code>"},
		{"dependencies?calls=2", "call_129", "call_099"},
		{"files/docs", "note_099.md", "note_100.md"},
		{"files/docs?page=2", "note_129.md", "note_099.md"},
		{"submodules/modules/part", "out_099", "out_100"},
		{"submodules/modules/part?outputs=2", "out_129", "out_099"},
		{"submodules/modules/part?resources=2", "type_129", "type_099"},
		{"../compare?from=1.0.0&to=2.0.0", "524 differences", "type_000"}, // also the major version and the submodule
		{"../compare?from=1.0.0&to=2.0.0&page=2", `href="?from=1.0.0&amp;page=3&amp;to=2.0.0"`, "out_099"},
	} {
		t.Run(c.path, func(t *testing.T) {
			status, body := s.get(t, page+c.path)
			if status != http.StatusOK || !strings.Contains(body, c.has) || c.not != "" && strings.Contains(body, c.not) {
				t.Errorf("status %d; %q is in it: %v, %q: %v\n%.20000s", status, c.has, strings.Contains(body, c.has), c.not, strings.Contains(body, c.not), body)
			}
		})
	}
}

// TestEditions lists editions below the version that they belong to, whatever
// pre-releases of it there are.
//
// Shows: page-mistakes 11
func TestEditions(t *testing.T) {
	s := New(t, rights.AnonymousAll()...)
	for _, version := range []string{"1.0.0", "1.0.0-rc.1", "1.1.0"} {
		s.module(t, "net/vpc/aws", version, map[string]string{"main.tf": ""})
	}
	r := must.Get(s.client.Repo("acme/modules/net/vpc/aws"))(t)
	m := must.Get(r.Fetch(t.Context(), "1.0.0"))(t)
	must.Succeed(t, r.PutTag(t.Context(), "1.0.0-e"+m.Digest.Encoded()[:12], m))
	_, body := s.get(t, "/ui/modules/net/vpc/aws/versions")
	at := -1
	for _, want := range []string{"/1.1.0\"", "/1.0.0\"", "/1.0.0-e", "/1.0.0-rc.1\""} {
		i := strings.Index(body, `aws`+want)
		if i <= at {
			t.Errorf("%s is not where it should be:\n%s", want, body)
		}
		at = i
	}
	if !strings.Contains(body, `<th scope="row" class="edition">`) {
		t.Errorf("no edition:\n%s", body)
	}
}

// TestMissingRight checks that the page of a refusal names the missing right.
func TestMissingRight(t *testing.T) {
	s := newSiteOf(t, nil, access.Policy{Tokens: callers()})
	status, body, _ := s.as(t, "reader", "/ui/modules/shut/vault/aws")
	if status != http.StatusForbidden || !strings.Contains(body, "<code>read:module:shut/vault/aws</code>") {
		t.Errorf("status %d\n%s", status, body)
	}
}

// TestLaunchedFrom lists the templates on a module's page.
func TestLaunchedFrom(t *testing.T) {
	w := newWhole(t)
	w.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	w.module(t, "net/labels/aws", "1.0.0", map[string]string{"main.tf": ""})
	w.start(t)
	v := w.login(t, admin)
	if a := v.get(t, "/ui/modules/net/vpc/aws/1.0.0/dependencies"); !strings.Contains(a.body, `templates/open/alphatemplate"`) || !strings.Contains(a.body, `templates/shut/gammatemplate"`) {
		t.Errorf("status %d\n%s", a.status, a.body)
	}
	if a := v.get(t, "/ui/modules/net/labels/aws/1.0.0/dependencies"); a.status != http.StatusOK || strings.Contains(a.body, "alphatemplate") {
		t.Errorf("another module: status %d\n%s", a.status, a.body)
	}
}
