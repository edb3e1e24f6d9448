// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// TestPages checks the texts of each page.
//
// Shows: page-mistakes 11 | versions sorted as text, a pre-release shown as the newest | several
// Shows: page-mistakes 13 | docs of a provider that is only in OCI are missing | survey of OpenTofu
// Shows: opendepot 19 | a user interface | pages of modules and providers, without scripts, with a
// strict content security policy
func TestPages(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.full(t)
	s.forgetTimes(t, "net/bare/aws")
	for _, c := range []struct {
		path, has, not string
		status         int
	}{
		{"", `href="./modules/net"`, "", 200},
		{"search?q=vpc", `href="./modules/net/vpc/aws"`, "labels", 200},
		{"search?q=aws&kind=provider", "Nothing found", "", 200},
		{"search?q=vpx", "Did you mean", "", 200},
		{"search?q=%3Cscript%3E", "&lt;script&gt;", "<script>", 200},
		{"search?q=" + strings.Repeat("a", 201), "a query has at most 8 words", "", 400},
		{"search?q=a+b+c+d+e+f+g+h+i", "a query has at most 8 words", "", 400},
		{"modules/net", "4 modules", "", 200},
		{"modules/none", "there is no module in none", "", 404},
		{"modules/net/vpc/aws", "Version 1.10.0", "Version 2.0.0", 200}, // order is neither that of texts, nor is a pre-release the latest
		{"modules/net/vpc/aws/2.0.0-rc.1", "pre-release", "", 200},
		{"modules/net/vpc/aws/1.10.0/inputs", "&lt;b&gt;10.0.0.0/16&lt;/b&gt;", "<b>", 200},
		{"modules/net/vpc/aws/1.10.0/outputs", "sensitive", "", 200},
		{"modules/net/vpc/aws/1.10.0/outputs", `Of the <strong>network</strong>, as <a href="https://example.com/vpc" rel="nofollow noopener ugc">others</a>`, "", 200},
		{"modules/net/vpc/aws/1.10.0/resources", "aws_region", "", 200},
		{"modules/net/vpc/aws/1.10.0/dependencies", `href="./../../../../../modules/net/labels/null"`, "", 200},
		{"modules/net/vpc/aws/1.10.0/usage", "?digest=sha256:", "", 200},
		{"modules/net/vpc/aws/1.10.0/none", "no page", "", 404},
		{"modules/net/vpc/aws/1.10.0", `href="./../../../../modules/net/vpc/aws/1.10.0/files/docs/notes.md"`, "onerror", 200},
		{"modules/net/vpc/aws", `src="./../../../modules/net/vpc/aws/1.10.0/files/docs/dot.png?raw=1"`, `src="docs`, 200},
		{"modules/net/vpc/aws", `href="#md-use-it"`, "", 200},
		{"modules/net/vpc/aws", "scan 155 critical, 155 high", "", 200},
		{"modules/net/vpc/aws", "signed, not checked", "verified", 200},
		{"modules/net/vpc/aws/1.10.0/security", "&lt;b&gt;of&lt;/b&gt;", "<b>", 200},
		{"modules/net/vpc/aws/1.10.0/security", `/files/main.tf#L1"`, "gone/main.tf\"", 200},
		{"modules/net/vpc/aws/1.10.0/security", "120 more are in the report only", "", 200},
		{"modules/net/vpc/aws/1.10.0/security", "SBOM, CycloneDX", "", 200},
		{"modules/net/vpc/aws/1.10.0/security?level=low", "2.0", "9.8", 200},
		{"modules/net/vpc/aws/1.10.0/security?level=worst", "no level", "", 404},
		{"modules/net/vpc/aws/1.10.0/files", "9 files", "", 200},
		{"modules/net/vpc/aws/1.10.0/files/docs", "notes.md", "main.tf", 200},
		{"modules/net/vpc/aws/1.10.0/files/docs/notes.md", "Notes.", "", 200},
		{"modules/net/vpc/aws/1.10.0/files/main.tf", `id="L1"`, "style=", 200},
		{"modules/net/vpc/aws/1.10.0/files/docs/net.svg", "?raw=1", "<script>alert", 200},
		{"modules/net/vpc/aws/1.10.0/files/none", "no file", "", 404},
		{"modules/net/vpc/aws/1.10.0/files/main.tf?raw=1", "no image", "", 404},
		{"modules/net/bare/aws", "There is no README", "", 200},
		{"modules/net/bare/aws/1.0.0", "time not recorded", "<time", 200},
		{"modules/net/large/aws/1.0.0", "<time", "time not recorded", 200},
		{"modules/net/bare/aws/1.0.0/security", "okara sign", "", 200},
		{"modules/net/bare/aws/1.0.0/submodules/modules/a", "It has no inputs", "", 200},
		{"modules/net/large/aws/1.0.0/inputs", "1 to 100 are shown", "input_299", 200},
		{"modules/net/large/aws/1.0.0/inputs", `href="?page=2"`, "", 200},
		{"modules/net/large/aws/1.0.0/inputs?page=3", "input_299", "input_000", 200},
		{"modules/net/large/aws/1.0.0/inputs?q=PART+299", "input_299", "input_298", 200},
		{"modules/net/large/aws/1.0.0/inputs?q=none", "No input matches this", "input_", 200},
		{"modules/net/vpc/aws/versions", `data-th="Digest"><code class="digest sum">sha256:`, "not read yet", 200},
		{"modules/net/vpc/aws/1.10.0/submodules/modules/subnet", "zone", "", 200},
		{"modules/net/vpc/aws/1.10.0/examples/examples/simple", "A directory of", "", 200},
		{"modules/net/vpc/aws/1.10.0/submodules/none", "no directory", "", 404},
		{"modules/net/vpc/aws/versions", "pre-release", "", 200},
		{"modules/net/vpc/aws/compare?from=1.0.0&to=1.10.0", "password", "breaking", 200},
		{"modules/net/vpc/aws/compare?from=1.10.0&to=1.0.0", "breaking", "", 200},
		{"modules/net/vpc/aws/compare?from=x&to=1.0.0", "version", "", 404},
		{"modules/net/vpc/aws/9.9.9", "there is no module net/vpc/aws, or not this version of it", "", 404},
		{"modules/NET/vpc/aws", "1.10.0", "", 200},
		{"modules/net/vpc/AWS", "upper-case", "", 404},
		{"providers/acme/dns", "linux_amd64", "", 200},
		{"providers/acme/dns/1.2.3/keys", "signed this version", "", 200},
		{"providers/acme/dns", `href="./../../../archives/`, "", 200},
		{"providers/acme/dns", "SHA256SUMS.sig", "", 200},
		{"providers/acme/dns/1.2.3/security", "consistent", "", 200},
		{"providers/acme/dns/1.2.3/docs", `href="./../../../../providers/acme/dns/1.2.3/docs/resources/record"`, "page_title", 200},
		{"providers/acme/dns/1.2.3/docs/resources/record", "Resources: Zones", "cdktf", 200},
		{"providers/acme/dns/1.2.3/docs/resources/record", `href="./../../../../../../providers/acme/dns/1.2.3/docs/data-sources/host"`, "<!--", 200},
		{"providers/acme/dns/1.2.3/docs/resources/zone", "A zone.", "<script>alert", 200},
		{"providers/acme/dns/1.2.3/docs/r/alias", "Of the old form", "", 200},
		{"providers/acme/dns/1.2.3/docs/guides/upgrade", "Upgrade to 2.0 &lt;b&gt;", "", 200},
		{"providers/acme/dns/1.2.3/docs/none", "no page", "", 404},
		{"providers/acme/dns/1.2.3/usage", "required_providers", "", 200},
		{"providers/acme/dns/versions", "latest", "", 200},
		{"providers/acme/none", "there is no provider acme/none", "", 404},
		{"modules/net/vpc/aws/downloads", "No downloads in the last 90 days", "", 200},
		{"providers/acme/dns/downloads", "No downloads in the last 90 days", "", 200},
		{"search?kind=x", "kind is one of", "", 400},
		{"search?page=101", "page is a number", "", 400},
		{"search?q=vpc&deprecated=no&sort=newest", `href="./modules/net/vpc/aws"`, "", 200},
		{"mirror/registry.example.com/acme/dns", "there is no provider", "", 404},
		{"me", "anonymous", "", 200},
		{"nowhere", "there is no such page", "", 404},
		{"assets/0/app.css", "there is no such file", "", 404},
	} {
		t.Run(c.path, func(t *testing.T) {
			status, body := s.get(t, "/ui/"+c.path)
			if status != c.status || !strings.Contains(body, c.has) || c.not != "" && strings.Contains(body, c.not) {
				t.Errorf("status %d, want %d; %q is in it: %v, %q: %v\n%.20000s", status, c.status, c.has, strings.Contains(body, c.has), c.not, strings.Contains(body, c.not), body)
			}
		})
	}
}

// TestRights gives every caller the rights to one namespace, and looks for the other one.
//
// Shows: pages 4
func TestRights(t *testing.T) {
	s := New(t, rights.Scope{Action: rights.Read, Kind: addr.KindModule, Glob: "open/**"})
	s.module(t, "open/vpc/aws", "1.0.0", map[string]string{"main.tf": `module "x" { source = "okara.example.com/shut/vault/aws" }`})
	s.module(t, "shut/vault/aws", "1.0.0", map[string]string{"main.tf": ``})
	for _, path := range []string{"", "search", "search?q=vault", "search?q=valt", "modules/open", "modules/open/vpc/aws/1.0.0/dependencies"} {
		status, body := s.get(t, "/ui/"+path)
		if status != http.StatusOK || strings.Contains(strings.ReplaceAll(body, "okara.example.com/shut/vault/aws", ""), "shut") {
			t.Errorf("%s: status %d names what nobody may read:\n%s", path, status, body)
		}
	}
	for _, path := range []string{"modules/shut/vault/aws", "modules/shut/none/aws", "modules/shut/vault/aws/1.0.0/inputs", "modules/shut/vault/aws/versions", "modules/shut/vault/aws/compare", "providers/acme/dns"} {
		if status, _ := s.get(t, "/ui/"+path); status != http.StatusUnauthorized {
			t.Errorf("%s: status %d, whether it is there or not", path, status)
		}
	}
	if status, _ := s.get(t, "/ui/modules/shut"); status != http.StatusNotFound {
		t.Errorf("the namespace is %d", status)
	}
}

// TestWarm counts the requests to the registry for a cached page: none.
//
// Shows: pages 11
func TestWarm(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.full(t)
	for _, path := range []string{"", "search?q=vpc", "modules/net", "modules/net/vpc/aws", "modules/net/vpc/aws/1.10.0/inputs", "modules/net/vpc/aws/versions", "providers/acme/dns"} {
		s.get(t, "/ui/"+path)
		s.count.Take()
		if s.get(t, "/ui/"+path); len(s.count.Take()) != 0 {
			t.Errorf("%s asks the registry again", path)
		}
	}
}

// TestWeight bounds the compressed size of the fullest form of a page.
//
// Shows: pages 11
// Shows: page-mistakes 6 | megabytes of script | terrareg
func TestWeight(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.full(t)
	for path, most := range map[string]int{
		"": 30, "search": 30, "modules/net": 30, "modules/net/vpc/aws": 60, "modules/net/vpc/aws/1.10.0/security": 30, "modules/net/vpc/aws/1.10.0/files": 30,
		"modules/net/vpc/aws/1.10.0/files/main.tf": 30, "modules/net/large/aws/1.0.0/inputs": 30, "modules/net/vpc/aws/versions": 30,
		"providers/acme/dns": 30, "providers/acme/dns/1.2.3/docs/resources/record": 30,
	} {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/ui/"+path, nil))(t)
		req.Header.Set("Accept-Encoding", "gzip")
		resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || n > int64(most)<<10 {
			t.Errorf("%s: status %d, %d bytes of at most %d KiB, %v", path, resp.StatusCode, n, most, err)
		}
	}
}

// TestNothingWritten requests each page, and checks that every request to the registry
// only reads.
func TestNothingWritten(t *testing.T) {
	s := New(t, rights.AnonymousAll()...)
	s.full(t)
	s.count.Take()
	for _, path := range []string{"", "search", "modules/net/vpc/aws", "providers/acme/dns", "me"} {
		s.get(t, "/ui/"+path)
	}
	for request := range s.count.Take() {
		if method, _, _ := strings.Cut(request, " "); method != http.MethodGet && method != http.MethodHead {
			t.Errorf("a page did %s", request)
		}
	}
}

// TestTheme changes the one setting that a page can change without a login.
//
// Shows: page-mistakes 10
func TestTheme(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	for _, c := range []struct {
		name, form, origin, contentType string
		status                          int
		location                        string
	}{
		{"dark", "theme=dark&return=/ui/modules/net", "", "application/x-www-form-urlencoded", 303, "./modules/net"},
		{"with a query", "theme=dark&return=/ui/search?q%3Dvpc", "", "application/x-www-form-urlencoded", 303, "./search?q=vpc"},
		{"another site", "theme=dark", "https://evil.example.com", "application/x-www-form-urlencoded", 403, ""},
		{"another host to return to", "theme=dark&return=//evil.example.com/", "", "application/x-www-form-urlencoded", 303, "./"},
		{"scheme to return to", "theme=dark&return=javascript:alert(1)", "", "application/x-www-form-urlencoded", 303, "./"},
		{"above", "theme=dark&return=/ui/../v2/", "", "application/x-www-form-urlencoded", 303, "./"},
		{"backslash", `theme=dark&return=/ui/\evil`, "", "application/x-www-form-urlencoded", 303, "./"},
		{"no form", "{}", "", "application/json", 415, ""},
		{"large", "theme=" + strings.Repeat("a", 17000), "", "application/x-www-form-urlencoded", 413, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/ui/theme", strings.NewReader(c.form)))(t)
			req.Header.Set("Content-Type", c.contentType)
			if c.origin != "" {
				req.Header.Set("Origin", c.origin)
			}
			resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
			defer resp.Body.Close()
			if resp.StatusCode != c.status || resp.Header.Get("Location") != c.location {
				t.Errorf("status %d, location %q", resp.StatusCode, resp.Header.Get("Location"))
			}
		})
	}
}
