// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// hostile is a readme that tries to escape from its page.
const hostile = `# The title

<script>alert(1)</script><img src=docs/dot.png onerror=alert(1)><a href="javascript:alert(1)">press</a>
<svg onload=alert(1)></svg><iframe src="https://evil.example.com"></iframe><style>body{display:none}</style>
<form action="https://evil.example.com"><input name=token><button>Log in</button></form>
<div style="position:fixed" class="top" id="main">over the page</div>

[a file](docs/notes.md) [the part](#use-it) ![drawing](docs/net.svg) <img src="docs/dot.png" width="16" onerror="alert(1)">
[link](javascript:alert(1)) [data](data:text/html;base64,PHNjcmlwdD4=) ![beacon](https://evil.example.com/x.png)

## Use it

<details><summary>More</summary>

| a | b<br>c |
|---|---:|
| 1 | 2 |

</details>

` + "```hcl\nmodule \"x\" {\n  source = \"a/b/c\"\n}\n```\n\n- [x] done\n\n\u202eright to left\n"

// full publishes content for every kind of page.
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
module "subnet" {
  source = "./modules/subnet"
  zone   = "a"
}
output "id" {
  description = "Of the **network**, as [others](https://example.com/vpc) name it."
  value       = aws_vpc.this.id
}
output "password" {
  value     = var.secret
  sensitive = true
}
`,
		"large.tf":  `variable "large" { default = "` + strings.Repeat("word ", 4000) + `" }`,
		"README.md": hostile, "modules/subnet/main.tf": `variable "zone" {}`, "examples/simple/main.tf": `module "x" { source = "../.." }`, "LICENSE": "MIT License\n",
		"docs/notes.md": "Notes.\n", "docs/dot.png": dot,
		"docs/net.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="160" height="40"><script>alert(1)</script><rect width="160" height="40" rx="6" fill="#1f6f5c"/></svg>`,
	})
	s.vouch(t, "net/vpc/aws", "1.10.0")
	s.module(t, "net/large/aws", "1.0.0", map[string]string{"main.tf": manyInputs(300), "README.md": "# Large\n\nThree hundred inputs.\n"})
	s.module(t, "net/bare/aws", "1.0.0", map[string]string{"main.tf": `output "x" { value = 1 }`, "modules/a/main.tf": "", "examples/b/main.tf": ""})
	s.module(t, "net/vpc/aws", "2.0.0-rc.1", map[string]string{"main.tf": `variable "cidr" { type = string }`})
	s.module(t, "net/labels/null", "1.0.0", map[string]string{"main.tf": `output "x" { value = 1 }`})
	s.provider(t, "1.2.3")
}

// dot is a PNG of one pixel.
const dot = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\x90\xcfO\xfa\x0f\x00\x02\x8e\x01\xc1\xa1\x0e\x9f\xe4\x00\x00\x00\x00IEND\xaeB`\x82"

// manyInputs returns a module with n inputs, one with a default of 20 KB.
func manyInputs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "variable \"input_%03d\" {\n  type = map(object({ name = string, size = optional(number, %d) }))\n  description = \"What the part %d is called and how large it is.\"\n", i, i, i)
		if i%7 != 0 {
			b.WriteString("  default = {}\n")
		}
		b.WriteString("}\n")
	}
	b.WriteString("variable \"rules\" {\n  default = \"" + strings.Repeat("10.0.0.0/8,", 20<<10/11) + "\"\n}\n")
	return b.String()
}

// vouch signs a version, and attaches two scans and an SBOM.
func (s *site) vouch(t *testing.T, address, version string) {
	t.Helper()
	m := depottest.MustModule(t, address, version)
	subject := depottest.MustSubject(t, s.depot, m.Item(), m.Version)
	key, _ := depottest.NewCosignKey(t)
	must.Get(trust.SignCosign(t.Context(), subject, key))(t)
	for _, r := range []struct {
		kind, text string
		scan       *evidence.ScanSummary
	}{
		{evidence.ReportSARIF, sarif(3), &evidence.ScanSummary{Tool: "trivy", Time: clock().Add(-30 * 24 * time.Hour), High: 3}},
		{evidence.ReportSARIF, sarif(620), &evidence.ScanSummary{Tool: "trivy", Time: clock().Add(-time.Hour), Critical: 155, High: 155, Medium: 155, Low: 155}},
		{evidence.ReportCycloneDX, `{"bomFormat":"CycloneDX"}`, nil},
	} {
		must.Get(evidence.AttachReport(t.Context(), subject.Repository, subject.Manifest.Descriptor, r.kind, []byte(r.text), r.scan))(t)
	}
}

// sarif returns a report with n findings, a quarter of them of each level.
func sarif(n int) string {
	var rules, results []string
	for i, score := range []string{"9.8", "7.5", "5.0", "2.0"} {
		rules = append(rules, fmt.Sprintf(`{"id":"AVD-AWS-%04d","helpUri":"https://avd.example.com/misconfig/avd-aws-%04d","shortDescription":{"text":"A rule <b>of</b> score %s"},"properties":{"security-severity":%q}}`, i, i, score, score))
	}
	for i := range n {
		file := "main.tf"
		if i%5 == 4 {
			file = "../gone/main.tf"
		}
		results = append(results, fmt.Sprintf(`{"ruleId":"AVD-AWS-%04d","ruleIndex":%d,"message":{"text":"Finding %d\u202e\u0007"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":%q},"region":{"startLine":%d}}}]}`, i%4, i%4, i, file, i%20+1))
	}
	return `{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"trivy","rules":[` + strings.Join(rules, ",") + `]}},"results":[` + strings.Join(results, ",") + `]}]}`
}

// providerDocs returns pages of tfplugindocs, and old ones.
func providerDocs() map[string]string {
	return map[string]string{
		"index.md": "---\npage_title: \"dns Provider\"\nsubcategory: \"\"\ndescription: |-\n  Manages names.\n---\n\n# dns Provider\n\nManages names. See [a record](resources/record.md).\n\n## Example Usage\n\n```terraform\nprovider \"dns\" {\n  server = \"192.0.2.1\"\n}\n```\n",
		"resources/record.md": `---
# generated by https://github.com/hashicorp/terraform-plugin-docs
page_title: "dns_record Resource - dns"
subcategory: "Zones"
description: |-
  One record.
---

# dns_record (Resource)

~> **Note:** A record that is there already is taken over.

One record of a zone. The [zone](zone.md) must exist, and so must its [host](../data-sources/host.md).

## Example Usage

` + "```terraform\nresource \"dns_record\" \"www\" {\n  zone = dns_zone.example.id\n  name = \"www\"\n}\n```" + `

<!-- schema generated by tfplugindocs -->
## Schema

### Required

- ` + "`name`" + ` (String) Within the zone.
- ` + "`zone`" + ` (String)

### Optional

- ` + "`ttl`" + ` (Number) In seconds.

<a id="nestedblock--timeouts"></a>
### Nested Schema for ` + "`timeouts`" + `

Optional:

- ` + "`create`" + ` (String)
`,
		"resources/zone.md":            "---\nsubcategory: \"Zones\"\n---\n\n# dns_zone\n\nA zone. <script>alert(1)</script>\n",
		"r/alias.html.markdown":        "---\nlayout: \"dns\"\npage_title: \"DNS: dns_alias\"\n---\n\n# dns\\_alias\n\nOf the old form.\n",
		"data-sources/host.md":         "# dns_host\n\nA host, ![diagram](../images/host.png).\n",
		"functions/split.md":           "---\npage_title: split\n---\n# split\n\nIts parts.\n",
		"guides/upgrade.md":            "---\npage_title: \"Upgrade to 2.0 <b>\"\n---\n\nRead this first.\n",
		"cdktf/python/resources/it.md": "# not shipped\n",
	}
}
