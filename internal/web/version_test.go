// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"crypto/ecdsa"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestYanked shows a withdrawn version only to callers that may publish.
func TestYanked(t *testing.T) {
	for name, c := range map[string]struct {
		rights []rights.Scope
		sees   bool
	}{"reader": {rights.AnonymousRead(), false}, "publisher": {rights.AnonymousAll(), true}} {
		t.Run(name, func(t *testing.T) {
			s := New(t, c.rights...)
			s.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
			s.module(t, "net/vpc/aws", "1.1.0", map[string]string{"main.tf": ""})
			m := depottest.MustModule(t, "net/vpc/aws", "1.1.0")
			if _, _, err := s.depot.Announce(t.Context(), m.Item(), depot.Announcement{Action: evidence.ActionYank, Version: "1.1.0", Message: "it loses routes"}); err != nil {
				t.Fatal(err)
			}
			status, body := s.get(t, "/ui/modules/net/vpc/aws/1.1.0")
			if c.sees != (status == http.StatusOK) || !strings.Contains(body, "it loses routes") || c.sees != strings.Contains(body, "This version is not served") {
				t.Errorf("the version is %d:\n%s", status, body)
			}
			if _, body := s.get(t, "/ui/modules/net/vpc/aws/versions"); c.sees != strings.Contains(body, "it loses routes") {
				t.Errorf("in the list of versions:\n%s", body)
			}
			if _, body := s.get(t, "/ui/modules/net/vpc/aws"); !strings.Contains(body, "Version 1.0.0") {
				t.Errorf("the latest is withdrawn:\n%s", body)
			}
		})
	}
}

// TestCompareNothing checks the answer for a module without an available version.
func TestCompareNothing(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
	if _, _, err := s.depot.Announce(t.Context(), m.Item(), depot.Announcement{Action: evidence.ActionYank, Version: "1.0.0", Message: "it loses routes"}); err != nil {
		t.Fatal(err)
	}
	if status, body := s.get(t, "/ui/modules/net/vpc/aws/compare"); status != http.StatusNotFound || !strings.Contains(body, "no version of module net/vpc/aws") {
		t.Errorf("%d:\n%s", status, body)
	}
}

// TestRequired: a version's key, or why it is not served.
func TestRequired(t *testing.T) {
	key, public := depottest.NewCosignKey(t)
	require := map[string]trust.Policy{addr.KindModule: {Require: []string{trust.RequireCosign}, Cosign: []*ecdsa.PublicKey{public}}}
	s := newSiteThat(t, require, rights.AnonymousAll()...)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		s.module(t, "net/vpc/aws", version, map[string]string{"main.tf": ""})
	}
	m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
	must.Get(trust.SignCosign(t.Context(), depottest.MustSubject(t, s.depot, m.Item(), m.Version), key))(t)
	id := trust.CosignKeyID(public)
	for path, want := range map[string]string{
		"modules/net/vpc/aws":                "verified, signed by " + strings.ReplaceAll(strings.TrimPrefix(id, "SHA256:")[:12], "+", "&#43;"), // as HTML escapes it
		"modules/net/vpc/aws/1.0.0/security": `<span class="mark good">trusted</span>`,
		"modules/net/vpc/aws/1.0.0/usage":    "--cosign-key KEY.pub",
		"modules/net/vpc/aws/1.1.0":          "does not meet the policy",
		"modules/net/vpc/aws/versions":       "does not meet the policy",
	} {
		if status, body := s.get(t, "/ui/"+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, want %q in\n%s", path, status, want, body)
		}
	}
}

// TestSatisfied: which versions here fit a required provider.
func TestSatisfied(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.provider(t, "1.2.3")
	s.module(t, "net/a/x", "1.0.0", map[string]string{"main.tf": `terraform {
  required_providers {
    dns   = { source = "okara.example.com/acme/dns", version = "~> 1.2" }
    later = { source = "okara.example.com/acme/dns", version = ">= 2.0" }
    other = { source = "acme/other" }
  }
}
resource "terraform_data" "x" {}`})
	_, body := s.get(t, "/ui/modules/net/a/x/1.0.0/dependencies")
	for _, want := range []string{"satisfied by 1.2.3", "not satisfied, newest is 1.2.3", "not here", "part of the tool", `href="./../../../../../providers/acme/dns/1.2.3"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	hidden := New(t, rights.Scope{Action: rights.Read, Kind: addr.KindModule, Glob: "**"})
	hidden.provider(t, "1.2.3")
	hidden.module(t, "net/a/x", "1.0.0", map[string]string{"main.tf": "terraform {\n  required_providers { dns = { source = \"okara.example.com/acme/dns\" } }\n}"})
	if _, body := hidden.get(t, "/ui/modules/net/a/x/1.0.0/dependencies"); !strings.Contains(body, "not here") || strings.Contains(body, "1.2.3\"") {
		t.Errorf("it tells of a provider that nobody may read:\n%s", body)
	}
}

// TestImage sends an image so that nothing in it can act.
//
// Shows: pages 9
func TestImage(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.full(t)
	for file, kind := range map[string]string{"dot.png": "image/png", "net.svg": "image/svg+xml"} {
		resp := must.Get(s.Client().Get(s.URL + "/ui/modules/net/vpc/aws/1.10.0/files/docs/" + file + "?raw=1"))(t)
		defer resp.Body.Close()
		h := resp.Header
		if resp.StatusCode != http.StatusOK || h.Get("Content-Type") != kind || h.Get("Content-Security-Policy") != "default-src 'none'; sandbox" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: status %d, %v", file, resp.StatusCode, h)
		}
	}
}

// TestDownload follows the link to a document about a version.
func TestDownload(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.full(t)
	page := "/ui/modules/net/vpc/aws/1.10.0/security"
	_, body := s.get(t, page)
	_, rest, _ := strings.Cut(body, "SBOM, CycloneDX")
	_, rest, _ = strings.Cut(rest, `href="./../../../../../../`)
	link, _, _ := strings.Cut(rest, `"`)
	if !strings.HasPrefix(link, "archives/") {
		t.Fatalf("no link below the root in\n%s", body)
	}
	resp := must.Get(s.Client().Get(s.URL + "/" + link))(t)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Disposition") != "attachment" {
		t.Errorf("status %d, %v", resp.StatusCode, resp.Header)
	}
}

// TestVersionSummaries: bounded reads a page, none once all is known.
func TestVersionSummaries(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	for i := range 43 { // the list looks at 20 whose time okara has not recorded
		s.described(t, "net/vpc/aws", fmt.Sprintf("1.%d.0", i), time.Duration(i)*24*time.Hour, map[string]string{"main.tf": ""})
	}
	const path = "/ui/modules/net/vpc/aws/versions"
	if _, body := s.get(t, path); !strings.Contains(body, "3 of these versions were not read yet") || strings.Count(body, `class="digest`) != 40 {
		t.Errorf("the first view has\n%s", body)
	}
	_, body := s.get(t, path)
	for text, want := range map[string]int{
		`class="digest sum">sha256:`: 43, "not read yet": 0, "22 Nov 2026</time>": 1, "31 Oct 2026</time>": 1, "time not recorded": 0, `data-th="Size"`: 43, `data-th="Downloads">0<`: 43,
	} {
		if n := strings.Count(body, text); n != want {
			t.Errorf("the second view has %q %d times, want %d\n%s", text, n, want, body)
		}
	}
	s.count.Take()
	s.get(t, path)
	if n := s.count.Take(); len(n) != 0 {
		t.Errorf("a warm page asks %v", n)
	}
}
