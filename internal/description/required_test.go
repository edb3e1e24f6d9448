// SPDX-License-Identifier: Apache-2.0

package description_test

import (
	"fmt"
	"strings"
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
		`registry.opentofu.org/hashicorp/time ">= 0.14.0, ~> 0.14, != 0.14.1" .`,
		`registry.opentofu.org/hashicorp/vault "" .`,
	}
	must.Match(t, "value", lines, want)
}

func required(t *testing.T, tree fstest.MapFS) []string {
	t.Helper()
	return requiredBy(t, tree, "registry.opentofu.org")
}

func requiredBy(t *testing.T, tree fstest.MapFS, host string) []string {
	t.Helper()
	got := must.Get(description.RequiredProviders(tree, ".", host))(t)
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
	const unknown = `main.tf:1: module "m": the providers that it needs are unknown, because its source %s depends on more than defaults, locals, .tfvars files and a few functions`
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
		{"a function", `lower(var.kind)`, "variable \"kind\" {\n default = \"./KINDS/dns\"\n}", "", []string{provider("dns"), fmt.Sprintf(chosen, "dns")}},
		{"another function", `abspath(var.kind)`, "variable \"kind\" {\n default = \"./kinds/dns\"\n}", "", []string{fmt.Sprintf(unknown, "${abspath(var.kind)}")}},
		{"a local value of another", `local.a`, "locals {\n a = local.b\n b = \"./kinds/dns\"\n}", "", []string{provider("dns"), fmt.Sprintf(chosen, "dns")}},
		{"a local value of itself", `local.a`, "locals {\n a = local.b\n b = local.a\n}", "", []string{fmt.Sprintf(unknown, "${local.a}")}},
		{"an attribute", `"./kinds/${var.cfg.kind}"`, "variable \"cfg\" {\n default = {kind = \"dns\"}\n}", "", []string{provider("dns"), fmt.Sprintf(chosen, "dns")}},
		{"an index", `"./kinds/${local.kinds[var.env]}"`, "variable \"env\" {\n default = \"prod\"\n}\nlocals {\n kinds = {prod = \"tls\"}\n}", "", []string{provider("tls"), fmt.Sprintf(chosen, "tls")}},
		{"a default of an attribute", `"./kinds/${merge({kind = "dns"}, var.cfg).kind}"`, "variable \"cfg\" {\n type = object({ kind = optional(string, \"tls\") })\n default = {}\n}", "", []string{provider("tls"), fmt.Sprintf(chosen, "tls")}},
		{"a value of another type", `"./kinds/${local.kinds[tostring(var.tls)]}"`, "variable \"tls\" {\n type = bool\n}\nlocals {\n kinds = {true = \"tls\"}\n}", `tls = "true"`, []string{provider("tls"), fmt.Sprintf(chosen, "tls")}},
		{"a value that does not fit", `"./kinds/${var.kind}"`, "variable \"kind\" {\n type = number\n default = \"tls\"\n}", "", []string{fmt.Sprintf(unknown, "./kinds/${var.kind}")}},
		{"a value that is too long", `"./kinds/${local.b}"`, "locals {\n a = \"" + strings.Repeat("x", 4000) + "\"\n b = \"${local.a}${local.a}\"\n}", "", []string{fmt.Sprintf(unknown, "./kinds/${local.b}")}},
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

// TestRequiredProvidersOf holds what else init of OpenTofu 1.12.6, and of Terraform 1.11.4 and 1.16.4, locks.
func TestRequiredProvidersOf(t *testing.T) {
	const dynamic = "variable \"kind\" {\n const = true\n default = \"tls\"\n}\nmodule \"m\" {\n source = \"./${var.kind}\"\n}\n"
	for _, tt := range []struct {
		name      string
		files     map[string]string
		tofu      string // last words of addresses
		terraform string
	}{
		{"an import without a resource", map[string]string{"main.tf": "import {\n to = random_pet.p[each.key]\n for_each = {}\n id = \"x\"\n}"}, "random", "random"},
		{"an import of a provider", map[string]string{"main.tf.json": `{"import": [{"to": "random_pet.p", "id": "x", "provider": "dns.a"}]}`}, "dns", "dns"},
		{"an import into a module", map[string]string{"main.tf": "import {\n to = module.c[\"a\"].time_static.z\n id = \"x\"\n}"}, "time", ""},
		{"an import into a module with a key", map[string]string{"main.tf": "import {\n for_each = {}\n to = module.x[each.key].random_pet.p\n id = \"x\"\n}"}, "random", ""},
		{"an import in a module", map[string]string{"main.tf": "module \"m\" {\n source = \"./m\"\n version = null\n}", "m/main.tf": "import {\n to = random_pet.p\n id = \"x\"\n}"}, "", "random"},
		{"a type as source", map[string]string{"main.tf": "terraform {\n required_providers {\n r = {\n source = \"random\"\n }\n }\n}"}, "random", "random"},
		{"an import of a resource", map[string]string{"main.tf": "resource \"google_a\" \"a\" {\n provider = beta\n}\nimport {\n to = google_a.a\n id = \"x\"\n}"}, "beta google", "beta"},
		{"modules of tests", map[string]string{"main.tf": "", "a.tftest.hcl": "run \"a\" {\n module {\n  source = \"./a\"\n }\n}", "tests/b.tofutest.hcl": "run \"b\" {\n module {\n  source = \"./b\"\n }\n}", "a/main.tf": `data "tls_a" "a" {}`, "b/main.tf": `data "dns_a" "a" {}`}, "dns tls", "tls"},
		{"a test of OpenTofu beside one of Terraform", map[string]string{"main.tf": "", "a.tftest.json": `{"run": {"a": {"module": {"source": "./a"}}}}`, "a.tofutest.json": `{}`, "a/main.tf": `data "tls_a" "a" {}`}, "", "tls"},
		{"providers of tests", map[string]string{"main.tf": "", "tests/a.tftest.hcl": "provider \"random\" {}\nmock_provider \"tls\" {}"}, "random", ""},
		{"a default that an override changes", map[string]string{"main.tf": dynamic, "a_override.tf": "variable \"kind\" {\n default = \"dns\"\n}", "tls/a.tf": `data "tls_a" "a" {}`, "dns/a.tf": `data "dns_a" "a" {}`}, "dns", "dns"},
		{"both tools", map[string]string{"main.tf": `data "tls_a" "a" {}`, "main.tofu": `data "dns_a" "a" {}`, "only.tofu": `data "time_a" "a" {}`}, "dns time", "tls"},
		{"folders with a dot", map[string]string{"main.tf": "module \"m\" {\n source = \"./.mods/h\"\n}", ".mods/h/main.tf": `data "dns_a" "a" {}`}, "dns", "dns"},
		{"values for a child", map[string]string{"main.tf": "module \"a\" {\n source = \"./c\"\n kind = \"tls\"\n}\nmodule \"b\" {\n source = \"./c\"\n kind = lower(\"DNS\")\n}", "c/main.tf": strings.Replace(dynamic, "./", "../", 1), "tls/a.tf": `data "tls_a" "a" {}`, "dns/a.tf": `data "dns_a" "a" {}`}, "dns tls", "dns tls"},
	} {
		tree := fstest.MapFS{}
		for name, text := range tt.files {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
		for host, want := range map[string]string{"registry.opentofu.org": tt.tofu, "registry.terraform.io": tt.terraform} {
			var got []string
			for _, line := range requiredBy(t, tree, host) {
				if first, ok := strings.CutPrefix(strings.Fields(line)[0], host+"/hashicorp/"); ok {
					got = append(got, first)
				}
			}
			must.Equal(t, tt.name+" with "+host, strings.Join(got, " "), want)
		}
	}
}
