// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/registry"
)

// networkReadme is a typical README of a module: written by hand, with generated tables.
const networkReadme = `# Network

A network with public and private subnets in each zone, a way out for both, and flow logs. It follows what the platform team agreed on for all accounts.

## Use it

` + "```hcl\nmodule \"network\" {\n  source  = \"okara.example.com/net/network/aws\"\n  version = \"~> 2.3\"\n\n  cidr  = \"10.20.0.0/16\"\n  zones = [\"eu-central-1a\", \"eu-central-1b\"]\n\n  # One for each zone costs more and outlives a zone.\n  nat_gateways = 2\n}\n```" + `

## What it makes

- One VPC with DNS names
- A public and a private subnet in each zone
- Route tables, an internet gateway and ` + "`nat_gateways`" + ` NAT gateways

> Peering is a module of its own: see [peering](https://example.com/peering).

### Limits

| What | Default | Most |
|------|---------|-----:|
| Zones | 2 | 6 |
| Subnets in a zone | 2 | 8 |
| NAT gateways | 1 | 6 |

## Upgrade from 1.x

1. Set ` + "`zones`" + `, which has no default any more.
2. Plan. Nothing should be replaced.

## Requirements

| Name | Version |
|------|---------|
| <a name="requirement_terraform"></a> terraform | >= 1.6 |
| <a name="requirement_aws"></a> aws | ~> 5.0 |
`

// described publishes a version as CI does: with its source and its time.
func (s *site) described(t *testing.T, address, version string, age time.Duration, files map[string]string) {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	must.Get(s.depot.PublishModule(t.Context(), tree, depottest.MustModule(t, address, version), depot.ModuleOptions{Annotations: map[string]string{
		artifact.AnnCreated: clock().Add(-age).Format(time.RFC3339), artifact.AnnSource: "https://git.example.com/platform/" + strings.ReplaceAll(address, "/", "-"),
		artifact.AnnRevision: "7c23c21946e58c911a765b2d22cfdb02f9d00b1a",
	}}))(t)
	s.forgetTimes(t, address)
}

// forgetTimes makes versions an older okara's, without times.
func (s *site) forgetTimes(t *testing.T, address string) {
	t.Helper()
	r := depottest.MustRepo(t, s.client, s.layout.Module(depottest.MustModule(t, address, "1.0.0").Module))
	list := must.Get(r.Snapshot(t.Context()))(t)
	for _, tag := range list.Tags {
		if !strings.HasPrefix(tag, "okara-time-") {
			continue
		}
		must.Succeed(t, r.Untag(t.Context(), tag))
	}
}

// announce writes a status event about versions.
func (s *site) announce(t *testing.T, address string, a depot.Announcement) {
	t.Helper()
	if _, _, err := s.depot.Announce(t.Context(), depottest.MustModule(t, address, "1.0.0").Item(), a); err != nil {
		t.Fatal(err)
	}
}

// mirror mirrors the provider of [depottest.UpstreamDNS], except for one platform.
func (s *site) mirror(t *testing.T) {
	t.Helper()
	key := depottest.NewKey(t, signing.KeyOptions{Name: "Example Registry", Email: "security@registry.example.com", ECC: true})
	release := depottest.NewRelease(t, key, "linux_amd64", "linux_arm64", "darwin_arm64", "windows_amd64")
	release.Has = release.Has[:3]
	must.Get(s.depot.MirrorProvider(t.Context(), release, depottest.UpstreamDNS(), depottest.MustVersion(t, "1.2.3"), depot.MirrorOptions{}))(t)
}

// newGallery is a company after a year, and what is hard to show, for the admin.
func newGallery(t *testing.T) *site {
	t.Helper()
	now := clock()
	policy := access.Policy{Tokens: []statictoken.Token{tokenOf(t, admin, rights.AnonymousAll()), tokenOf(t, wrong, []rights.Scope{{Action: rights.Read, Kind: addr.KindModule, Glob: "elsewhere/**"}})}}
	s := newSiteOf(t, nil, policy, func(o *registry.Options) { o.Now = func() time.Time { return now } })
	s.full(t)
	const day = 24 * time.Hour
	for i, version := range []string{"1.9.0", "1.10.0", "2.0.0-rc.1", "2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.3.1"} {
		s.described(t, "net/network/aws", version, time.Duration(300-40*i)*day, map[string]string{
			"main.tf": networkCode, "README.md": networkReadme, "LICENSE": "Apache License\nVersion 2.0, January 2004\n", "examples/two-zones/main.tf": zonesCode, "examples/two-zones/README.md": "# Two zones\n\nA network in two zones, with one way out for both.\n", "modules/subnets/main.tf": subnetsCode,
		})
	}
	s.announce(t, "net/network/aws", depot.Announcement{Action: evidence.ActionDeprecate, Version: "1.9.0", Message: "It does not know zones. Move to 2.x by the end of March.", Replacement: "2.3.1"})
	s.announce(t, "net/network/aws", depot.Announcement{Action: evidence.ActionYank, Version: "2.2.0", Message: "it loses routes when a zone is added"})
	s.described(t, "net/legacy/aws", "0.9.4", 500*day, map[string]string{"main.tf": `variable "cidr" {}`, "README.md": "# Legacy network\n\nThe network of old accounts.\n"})
	s.announce(t, "net/legacy/aws", depot.Announcement{Action: evidence.ActionDeprecate, Version: evidence.AllVersions, Message: "Nobody looks after this module any more.", Replacement: "net/network/aws"})
	var wide strings.Builder
	for i := range 130 {
		fmt.Fprintf(&wide, "resource \"aws_part_%d\" \"this\" {}\noutput \"part_%03d\" {\n  description = \"The part %d.\"\n  value = 1\n}\n", i, i, i)
	}
	for i := range 40 {
		fmt.Fprintf(&wide, "resource \"aws_route\" \"to_%d\" {}\n", i)
	}
	s.described(t, "net/wide/aws", "1.0.0", 20*day, map[string]string{"main.tf": wide.String(), "README.md": "# Wide\n\nHas many parts.\n"})
	for i := range 34 {
		s.described(t, fmt.Sprintf("team/service-%d/aws", i), "1.0.0", time.Duration(i)*day, map[string]string{"main.tf": `variable "name" {}`, "README.md": fmt.Sprintf("# Service %d\n\nRuns service %d behind a load balancer, with logs and alarms of the team.\n", i, i)})
	}
	for _, address := range []string{"data/postgres/aws", "data/queue/aws", "security/keys/aws", "observability/alarms/datadog", "a-namespace-with-a-very-long-name-that-somebody-chose/a-module-with-a-name-of-many-words-too/kubernetes"} {
		s.described(t, address, "0.1.0", 3*day, map[string]string{"main.tf": "", "README.md": "# " + address + "\n\nWhat the name says.\n"})
	}
	s.upgraded(t)
	s.mirror(t)
	signer, _ := depottest.NewCosignKey(t)
	m := depottest.MustModule(t, "net/network/aws", "2.3.1")
	subject := depottest.MustSubject(t, s.depot, m.Item(), m.Version)
	must.Get(trust.SignCosign(t.Context(), subject, signer))(t)
	summary := &evidence.ScanSummary{Tool: "trivy", Time: clock().Add(-2 * day), High: 1, Medium: 2, Low: 2}
	must.Get(evidence.AttachReport(t.Context(), subject.Repository, subject.Manifest.Descriptor, evidence.ReportSARIF, []byte(networkReport), summary))(t)
	must.Get(evidence.AttachReport(t.Context(), subject.Repository, subject.Manifest.Descriptor, evidence.ReportCycloneDX, []byte(`{"bomFormat":"CycloneDX","specVersion":"1.6"}`), nil))(t)
	for ago := range downloads.Days {
		now = clock().Add(-time.Duration(ago) * day)
		for i := range (ago*7 + 13) % 11 * (1 + (downloads.Days-ago)/20) {
			s.protocols.Downloads().Add(downloads.Counted{Kind: "module", Address: "net/network/aws", Version: []string{"2.3.1", "2.3.0", "1.10.0"}[i%3], Tool: []string{"opentofu", "opentofu", "terraform", "okara"}[i%4]})
		}
	}
	now = clock()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.finder.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	known := must.Get(s.protocols.Catalog().Published(t.Context()))(t)
	all := known.Search(catalog.Filter{})
	for _, it := range all { // as after a publication, which does not wait for the refresh
		s.protocols.Catalog().Changed(it.Repository(s.layout), "")
	}
	for until := time.Now().Add(3 * time.Minute); !s.known(t, len(all)); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the catalog was never read")
		}
	}
	return s
}

// upgraded is a module whose next major version breaks callers, with a README of today.
func (s *site) upgraded(t *testing.T) {
	t.Helper()
	code := func(minimum, zone, more string) string {
		return "terraform {\n  required_version = \">= 1.0\"\n  required_providers { aws = { source = \"hashicorp/aws\", version = \"" + minimum + "\" } }\n}\n" +
			"variable \"availability_zones\" {\n  type = map(object({ identifier = string, description = optional(string, \"" + zone + "\"), subnetworks = list(string) }))\n  default = {}\n}\n" + more
	}
	s.described(t, "net/upgrade/aws", "5.21.0", 24*time.Hour, map[string]string{
		"main.tf": code(">= 5.79", "unspecified", "output \"gone\" {\n  value = 1\n}\nvariable \"cidr\" {}\n"), "modules/endpoints/main.tf": `variable "zone" {}`,
	})
	s.described(t, "net/upgrade/aws", "6.6.0", time.Hour, map[string]string{
		"main.tf":                code(">= 6.28", "anywhere", "variable \"cidr\" {\n  description = \"The range that gateways announce.\"\n  validation {\n    condition     = var.cidr != \"\"\n    error_message = \"It is empty.\"\n  }\n}\nvariable \"tags\" { default = {} }\nmodule \"routes\" { source = \"./modules/routes\" }\n"),
		"modules/routes/main.tf": `resource "aws_route_table_association" "this" {}`, "examples/complete/main.tf": `module "x" { source = "../.." }`, "docs/dot.png": dot,
		"README.md": "# Upgrade of networks\n\n> [!WARNING]\n> Read this first.\n\nIt is fast.[^1] :rocket:\n\n<h3 align=\"center\">In the middle</h3>\n\nSee [its input](#input_cidr), [its code](main.tf#L3), [all of it](examples/complete).\n\n" +
			"```mermaid\ngraph TD; a-->b\n```\n\n![A dot](docs/dot.png)\n\n```hcl\nmodule \"x\" {\n  source = \"net/upgrade/aws\"\n}\n```\n\n| Name | Type |\n|------|------|\n| <a name=\"input_cidr\"></a> [cidr](#input\\_cidr) | `string` |\n\n[^1]: Of all networks.\n",
	})
}

// networkReport is a typical scan report of a network.
const networkReport = `{"version": "2.1.0", "runs": [{
  "tool": {"driver": {"name": "trivy", "rules": [
    {"id": "AWS-0102", "helpUri": "https://avd.example.com/aws-0102", "shortDescription": {"text": "A network ACL lets every port in"}, "properties": {"security-severity": "8.0"}},
    {"id": "AWS-0178", "helpUri": "https://avd.example.com/aws-0178", "shortDescription": {"text": "VPC flow logs are not kept for all traffic"}, "properties": {"security-severity": "5.5"}},
    {"id": "AWS-0164", "helpUri": "https://avd.example.com/aws-0164", "shortDescription": {"text": "Machines in a public subnet get a public address"}, "properties": {"security-severity": "5.5"}},
    {"id": "AWS-0017", "helpUri": "https://avd.example.com/aws-0017", "shortDescription": {"text": "The log group has no key of the customer"}, "properties": {"security-severity": "2.0"}}
  ]}},
  "results": [
    {"ruleId": "AWS-0102", "ruleIndex": 0, "message": {"text": "Every port is open."}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "main.tf"}, "region": {"startLine": 32}}}]},
    {"ruleId": "AWS-0178", "ruleIndex": 1, "message": {"text": "No flow log."}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "main.tf"}, "region": {"startLine": 31}}}]},
    {"ruleId": "AWS-0164", "ruleIndex": 2, "message": {"text": "Public addresses."}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "modules/subnets/main.tf"}, "region": {"startLine": 18}}}]},
    {"ruleId": "AWS-0017", "ruleIndex": 3, "message": {"text": "No key."}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "main.tf"}, "region": {"startLine": 34}}}]},
    {"ruleId": "AWS-0017", "ruleIndex": 3, "message": {"text": "No key."}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "modules/subnets/main.tf"}, "region": {"startLine": 18}}}]}
  ]
}]}`

const zonesCode = `provider "aws" {
  region = "eu-central-1"
}

module "network" {
  source = "../.."

  cidr  = "10.20.0.0/16"
  zones = ["eu-central-1a", "eu-central-1b"]
}

output "id" {
  value = module.network.id
}
`

const subnetsCode = `variable "zone" {
  type        = string
  description = "The zone of the subnets."
}

variable "cidrs" {
  type        = list(string)
  description = "Their ranges, one for each subnet."
}

variable "public" {
  type        = bool
  default     = false
  nullable    = false
  description = "They reach the internet, and it reaches them."
}

resource "aws_subnet" "this" {}

output "ids" {
  description = "Of the subnets, in the order of their ranges."
  value       = aws_subnet.this[*].id
}
`

const networkCode = `
terraform {
  required_version = ">= 1.6"
  required_providers {
    aws = { source = "hashicorp/aws", version = "~> 5.0" }
    dns = { source = "okara.example.com/acme/dns", version = ">= 1.2" }
  }
}

variable "cidr" {
  type        = string
  description = "The range of addresses. It cannot change later."
}

variable "zones" {
  type        = list(string)
  description = "Zones that get subnets, at least two."
}

variable "nat_gateways" {
  type        = number
  default     = 1
  description = "How many ways out the private subnets share."
}

variable "tags" {
  type    = map(string)
  default = {}
}

resource "aws_vpc" "this" { cidr_block = var.cidr }
resource "aws_subnet" "public" { vpc_id = aws_vpc.this.id }
resource "aws_subnet" "private" { vpc_id = aws_vpc.this.id }
data "aws_region" "here" {}

output "id" {
  description = "Of the VPC."
  value       = aws_vpc.this.id
}
`
