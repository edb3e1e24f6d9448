// SPDX-License-Identifier: Apache-2.0

package description_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestRequiredProviders(t *testing.T) {
	tree := fstest.MapFS{
		"main.tf": {Data: []byte(`
terraform {
  required_providers {
    time = { source = "hashicorp/time", version = ">=0.14" }
    dns  = { source = "example.com/acme/dns" }
  }
}
module "local" { source = "./child" }
module "far" { source = "net/vpc/aws" }
data "terraform_remote_state" "x" { backend = "local" }
ephemeral "vault_token" "x" {}
action "aws_lambda_invoke" "x" {
  provider = cloud.west
}
check "x" {
  data "http" "x" { url = "https://example.com" }
}
resource "terraform_data" "x" {}
resource "dns_zone" "x" {
  for_each = toset(["a"])
  provider = dns.by[each.key]
}
data "a_b" "x" {
  provider = "time.west"
}
`)},
		"child/main.tofu": {Data: []byte(`
terraform {
  required_providers {
    time = { source = "hashicorp/time", version = "~> 0.14, != 0.14.1" }
  }
}
resource "random_id" "x" { byte_length = 4 }
`)},
		"unused/main.tf": {Data: []byte(`resource "aws_vpc" "x" {}`)},
	}
	lines := required(t, tree)
	want := []string{
		`example.com/acme/dns "" .`,
		`registry.opentofu.org/hashicorp/cloud "" .`,
		`registry.opentofu.org/hashicorp/http "" .`,
		`registry.opentofu.org/hashicorp/random "" child`,
		`registry.opentofu.org/hashicorp/time "!= 0.14.1, >= 0.14, ~> 0.14" .`,
		`registry.opentofu.org/hashicorp/vault "" .`,
	}
	must.Match(t, "value", lines, want)
}

func required(t *testing.T, tree fstest.MapFS) []string {
	t.Helper()
	got := must.Get(description.RequiredProviders(tree, ".", "registry.opentofu.org"))(t)
	var lines []string
	for _, r := range got.Providers {
		lines = append(lines, fmt.Sprintf("%s %q %s", r.Address, r.Text, r.Where))
	}
	return append(append(lines, got.Notes...), got.Unknown...)
}

// TestRequiredProvidersOfDynamicSources checks which child a source chooses that depends on
// variables, which OpenTofu has since 1.8 and Terraform, for constant ones, since 1.15.
func TestRequiredProvidersOfDynamicSources(t *testing.T) {
	const chosen = `main.tf:1: module "m" uses ./kinds/%s, as determined by the defaults, locals and .tfvars files here: other values may require other providers`
	const unknown = `main.tf:1: module "m": the providers that it needs are unknown, because its source %s depends on more than defaults, locals and .tfvars files`
	provider := func(name string) string {
		return fmt.Sprintf("registry.opentofu.org/hashicorp/%s \"\" kinds/%s", name, name)
	}
	tests := []struct {
		name, source, rest, values string
		want                       []string
	}{
		{"a default", `"./kinds/${var.kind}"`, "variable \"kind\" {\n default = \"dns\"\n}", "", []string{provider("dns"), fmt.Sprintf(chosen, "dns")}},
		{"a file of values", `"./kinds/${var.kind}"`, "variable \"kind\" {\n default = \"dns\"\n}", `kind = "tls"`, []string{provider("tls"), fmt.Sprintf(chosen, "tls")}},
		{"a local value", `local.of["a"]`, "variable \"base\" {\n default = \"./kinds\"\n}\nlocals {\n of = {a = \"${var.base}/tls\"}\n}", "", []string{provider("tls"), fmt.Sprintf(chosen, "tls")}},
		{"from elsewhere", `"example.com/${var.kind}/x/y"`, "variable \"kind\" {\n default = \"dns\"\n}", "", nil},
		{"from elsewhere without a value", `"example.com/${var.kind}/x/y"`, `variable "kind" {}`, "", nil},
		{"no value", `"./kinds/${var.kind}"`, `variable "kind" {}`, "", []string{fmt.Sprintf(unknown, "./kinds/${var.kind}")}},
		{"a function", `lower(var.kind)`, "variable \"kind\" {\n default = \"./KINDS/dns\"\n}", "", []string{fmt.Sprintf(unknown, "${lower(var.kind)}")}},
		{"a local value of another", `local.a`, "locals {\n a = local.b\n b = \"./kinds/dns\"\n}", "", []string{fmt.Sprintf(unknown, "${local.a}")}},
		{"outside", `"../kinds"`, "", "", []string{`main.tf:1: module "m" uses ../kinds, which is outside the folder: the providers that it needs are unknown`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{
				"main.tf":          {Data: []byte("module \"m\" {\n  source = " + tt.source + "\n}\n" + tt.rest)},
				"kinds/dns/x.tf":   {Data: []byte(`resource "dns_a_record_set" "x" {}`)},
				"kinds/tls/x.tofu": {Data: []byte(`resource "tls_private_key" "x" {}`)},
			}
			if tt.values != "" {
				tree["terraform.tfvars"] = &fstest.MapFile{Data: []byte(tt.values)}
			}
			must.Match(t, "value", required(t, tree), tt.want)
		})
	}
}
