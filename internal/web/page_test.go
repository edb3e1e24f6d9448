// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// TestPages checks the texts of each page.
//
// Shows: page-mistakes 4 | an example without README is an error, submodules are not found |
// opentofu/registry-ui#188, #273
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
		{"search?q=" + strings.Repeat("a", 201), "a query must have at most 8 words", "", 400},
		{"search?q=a+b+c+d+e+f+g+h+i", "a query must have at most 8 words", "", 400},
		{"modules/net", "4 modules", "", 200},
		{"modules/none", "no module in none", "", 404},
		{"modules/net/vpc/aws", "Version 1.10.0", "Version 2.0.0", 200}, // order is neither that of texts, nor is a pre-release the latest
		{"modules/net/vpc/aws/2.0.0-rc.1", "pre-release", "", 200},
		{"modules/net/vpc/aws/1.10.0/inputs", "&lt;b&gt;10.0.0.0/16&lt;/b&gt;", "<b>", 200},
		{"modules/net/vpc/aws/1.10.0/outputs", "sensitive", "", 200},
		{"modules/net/vpc/aws/1.10.0/outputs", `Of the <strong>network</strong>, as <a href="https://example.com/vpc" rel="nofollow noopener ugc">others</a>`, "", 200},
		{"modules/net/vpc/aws/1.10.0/resources", "aws_region", "", 200},
		{"modules/net/vpc/aws/1.10.0/dependencies", `href="./../../../../../modules/net/labels/null"`, "", 200},
		{"modules/net/vpc/aws/1.10.0/dependencies", `<text x="641" dx="10"`, "", 200},
		{"modules/net/vpc/aws/badge.svg", ">v1.10.0</text>", "2.0.0", 200},
		{"modules/net/vpc/aws", `<meta property="og:title" content="net/vpc/aws">`, "", 200},
		{"modules/net/vpc/aws", `property="og:description" content="`, "", 200},
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
		{"modules/net/vpc/aws/1.10.0/security?level=worst", "unknown level", "", 404},
		{"modules/net/vpc/aws/1.10.0/files", "9 files", "", 200},
		{"modules/net/vpc/aws/1.10.0/files/docs", "notes.md", "main.tf", 200},
		{"modules/net/vpc/aws/1.10.0/files/docs/notes.md", "Notes.", "", 200},
		{"modules/net/vpc/aws/1.10.0/files/main.tf", `id="L1"`, "style=", 200},
		{"modules/net/vpc/aws/1.10.0/files/docs/net.svg", "?raw=1", "<script>alert", 200},
		{"modules/net/vpc/aws/1.10.0/files/none", "no file", "", 404},
		{"modules/net/vpc/aws/1.10.0/files/main.tf?raw=1", "no image", "", 404},
		{"modules/net/bare/aws", "There is no README", "", 200},
		{"modules/net/bare/aws/1.0.0", `modules/net/bare/aws/1.0.0/submodules/modules/a"`, "", 200},
		{"modules/net/bare/aws/1.0.0", `modules/net/bare/aws/1.0.0/examples/examples/b"`, "", 200},
		{"modules/net/bare/aws/1.0.0/examples/examples/b", "A directory of", "", 200},
		{"modules/net/bare/aws/1.0.0", "time not recorded", "<time", 200},
		{"modules/net/large/aws/1.0.0", "<time", "time not recorded", 200},
		{"modules/net/bare/aws/1.0.0/security", "okara sign", "", 200},
		{"modules/net/bare/aws/1.0.0/submodules/modules/a", "It has no inputs", "", 200},
		{"modules/net/large/aws/1.0.0/inputs", `<tr id="input_input_299"><th scope="row"><a href="#input_input_299">`, "?page=2", 200},
		{"modules/net/large/aws/1.0.0/inputs?q=PART+299", "input_299", "input_298", 200},
		{"modules/net/large/aws/1.0.0/inputs?q=none", "No input matches this", "input_", 200},
		{"modules/net/vpc/aws/versions", `data-th="Digest"><code class="digest sum">sha256:`, "not read yet", 200},
		{"modules/net/vpc/aws/1.10.0/submodules/modules/subnet", "zone", "", 200},
		{"modules/net/vpc/aws/1.10.0/submodules/modules/subnet", "okara.example.com/net/vpc/aws//modules/subnet", "", 200},
		{"modules/net/vpc/aws/1.10.0/examples/examples/simple", "&#34;okara.example.com/net/vpc/aws&#34;<", "../..&#34;", 200},
		{"modules/net/vpc/aws/1.10.0/submodules/none", "no directory", "", 404},
		{"modules/net/vpc/aws/versions", "pre-release", "", 200},
		{"modules/net/vpc/aws/compare?from=1.0.0&to=1.10.0", "password", "Breaks callers", 200},
		{"modules/net/vpc/aws/compare?from=1.10.0&to=1.0.0", "Breaks callers", "", 200},
		{"modules/net/vpc/aws/compare?from=x&to=1.0.0", "version", "", 404},
		{"modules/net/vpc/aws/1.0.0", `modules/net/vpc/aws/compare?from=1.0.0&amp;to=1.10.0">What changed</a>`, "", 200},
		{"modules/net/vpc/aws/1.10.0", "<title>net/vpc/aws · okara", "is newer", 200},
		{"modules/net/vpc/aws/1.10.0/outputs", "<title>Outputs of net/vpc/aws 1.10.0 · okara", "", 200},
		{"modules/net/vpc/aws/1.10.0/dependencies", `modules/net/vpc/aws/1.10.0/submodules/modules/subnet">./modules/subnet`, "", 200},
		{"providers/acme/dns/1.2.3/docs/resources/record", "<title>dns_record · acme/dns 1.2.3 · okara", "required_providers {", 200},
		{"providers/acme/dns/1.2.3/docs/resources/host", "<title>dns_host · acme/dns 1.2.3 · okara", "", 200},
		{"modules/net/vpc/aws/9.9.9", "module net/vpc/aws, or this version of it, not found", "", 404},
		{"modules/NET/vpc/aws", "1.10.0", "", 200},
		{"modules/net/vpc/AWS", "upper-case", "", 404},
		{"providers/acme/dns", "required_providers", "linux_amd64", 200},
		{"providers/acme/dns/1.2.3/platforms", "linux_amd64", "", 200},
		{"providers/acme/dns/1.2.3/keys", "signed this version", "", 200},
		{"providers/acme/dns/1.2.3/platforms", `href="./../../../../../archives/`, "", 200},
		{"providers/acme/dns/1.2.3/platforms", "SHA256SUMS.sig", "", 200},
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
		{"providers/acme/none", "provider acme/none, or this version of it, not found", "", 404},
		{"modules/net/vpc/aws/downloads", "No downloads in the last 90 days", "", 200},
		{"providers/acme/dns/downloads", "No downloads in the last 90 days", "", 200},
		{"search?kind=x", "kind must be one of", "", 400},
		{"search?page=101", "page is a number", "", 400},
		{"search?q=vpc&deprecated=no&sort=newest", `href="./modules/net/vpc/aws"`, "", 200},
		{"mirror/registry.example.com/acme/dns", "dns, or this version of it, not found", "", 404},
		{"me", "anonymous", "", 200},
		{"nowhere", "page not found", "", 404},
		{"assets/0/app.css", "file not found", "", 404},
	} {
		t.Run(c.path, func(t *testing.T) {
			status, body := s.get(t, "/ui/"+c.path)
			if status != c.status || !strings.Contains(body, c.has) || c.not != "" && strings.Contains(body, c.not) {
				t.Errorf("status %d, want %d; %q is in it: %v, %q: %v\n%.20000s", status, c.status, c.has, strings.Contains(body, c.has), c.not, strings.Contains(body, c.not), body)
			}
		})
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
