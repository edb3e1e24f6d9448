// SPDX-License-Identifier: Apache-2.0

package tofutest

// Tool is one of the two clients. The fields are facts observed with OpenTofu
// 1.12.6 and Terraform 1.11.4.
type Tool struct {
	Name      string
	UserAgent string // for metadata

	// ArchiveAgent is the user agent for module archives. Terraform uses the default of
	// Go's HTTP library there.
	ArchiveAgent string

	// ReadsLocation says that a 200 response to a module download must be JSON, and that
	// its "location" takes precedence over the header. Terraform ignores the body.
	ReadsLocation bool

	// HeadsProvider says that a HEAD precedes the GET of a provider archive. For module
	// archives both tools do that.
	HeadsProvider bool

	// SkipsUnsigned is the host whose providers need no signing key.
	SkipsUnsigned string

	// ChecksPackages says that the "packages" field of a provider package is checked
	// against the target.
	ChecksPackages bool
}

// OpenTofu returns the facts about tofu.
func OpenTofu() Tool {
	return Tool{
		Name: "tofu", UserAgent: "OpenTofu/1.12.6", ArchiveAgent: "OpenTofu/1.12.6",
		ReadsLocation: true, SkipsUnsigned: "registry.opentofu.org", ChecksPackages: true,
	}
}

// Terraform returns the facts about terraform.
func Terraform() Tool {
	return Tool{
		Name: "terraform", UserAgent: "Terraform/1.11.4 (+https://www.terraform.io)", ArchiveAgent: "Go-http-client/1.1",
		HeadsProvider: true,
	}
}

// Tools returns both tools.
func Tools() []Tool { return []Tool{OpenTofu(), Terraform()} }

// Facts that are the same for both tools.
const (
	maxRedirects = 3       // of discovery
	maxDiscovery = 1 << 20 // bytes
	maxMetadata  = 16 << 20
)

// Language is what the tools learned since 1.8, each as a change of a configuration.
var Language = []struct{ Argument, Without, With string }{
	{"`ephemeral` of an input", `variable "a" {}`, "variable \"a\" {\n  ephemeral = true\n}"},
	{"`const` of an input", "variable \"a\" {\n  default = 1\n}", "variable \"a\" {\n  default = 1\n  const = true\n}"},
	{"`deprecated` of an input", `variable "a" {}`, "variable \"a\" {\n  deprecated = \"use b\"\n}"},
	{"`deprecated` of an output", "output \"a\" {\n  value = 1\n}", "output \"a\" {\n  value = 1\n  deprecated = \"use b\"\n}"},
	{"`type` of an output", "output \"a\" {\n  value = 1\n}", "output \"a\" {\n  value = 1\n  type = number\n}"},
	{"`language`", "", "language {\n  compatible_with {\n    opentofu = \">= 1.12\"\n  }\n}"},
	{"`source` by a variable", "module \"m\" {\n  source = \"./m\"\n}", "variable \"a\" {\n  default = \"./m\"\n}\nmodule \"m\" {\n  source = var.a\n}"},
	{"`source` by a `const` one", "module \"m\" {\n  source = \"./m\"\n}", "variable \"a\" {\n  default = \"./m\"\n  const = true\n}\nmodule \"m\" {\n  source = var.a\n}"},
	{"`enabled` of a resource", `resource "terraform_data" "a" {}`, "resource \"terraform_data\" \"a\" {\n  lifecycle {\n    enabled = false\n  }\n}"},
	{"`prevent_destroy` by a variable", "variable \"a\" {\n  default = false\n}\nresource \"terraform_data\" \"a\" {}", "variable \"a\" {\n  default = false\n}\nresource \"terraform_data\" \"a\" {\n  lifecycle {\n    prevent_destroy = var.a\n  }\n}"},
	{"`provider` with an index", "provider \"dns\" {\n  alias = \"a\"\n}\ndata \"dns_a\" \"a\" {\n  provider = dns.a\n}", "provider \"dns\" {\n  alias = \"a\"\n  for_each = toset([\"x\"])\n}\ndata \"dns_a\" \"a\" {\n  provider = dns.a[\"x\"]\n}"},
	{"`destroy` of a resource", `resource "terraform_data" "a" {}`, "resource \"terraform_data\" \"a\" {\n  lifecycle {\n    destroy = false\n  }\n}"},
	{"`ephemeral` block", `data "dns_a" "a" {}`, "data \"dns_a\" \"a\" {}\nephemeral \"dns_a\" \"a\" {}"},
	{"`action` block", `data "dns_a" "a" {}`, "data \"dns_a\" \"a\" {}\naction \"dns_a\" \"a\" {\n  config {}\n}"},
	{"`ephemeral` block of another provider", "", `ephemeral "dns_a" "a" {}`},
	{"`action` block of another provider", "", "action \"dns_a\" \"a\" {\n  config {}\n}"},
	{"`action_trigger` of a resource", `action "dns_a" "a" {}` + "\n" + `resource "terraform_data" "a" {}`, "action \"dns_a\" \"a\" {}\nresource \"terraform_data\" \"a\" {\n  lifecycle {\n    action_trigger {\n      events = [before_create]\n      actions = [action.dns_a.a]\n    }\n  }\n}"},
	{"`ignore_nested_deprecations` of a module", "module \"m\" {\n  source = \"./m\"\n}", "module \"m\" {\n  source = \"./m\"\n  ignore_nested_deprecations = true\n}"},
	{"`data` in a `check`", "", "check \"a\" {\n  data \"dns_a\" \"a\" {}\n  assert {\n    condition = data.dns_a.a.x != \"\"\n    error_message = \"it is down\"\n  }\n}"},
	{"`for_each` of a provider", "provider \"dns\" {\n  alias = \"a\"\n}", "provider \"dns\" {\n  alias = \"a\"\n  for_each = toset([\"x\"])\n}"},
	{"`identity` of an `import`", `resource "dns_a" "a" {}`, "resource \"dns_a\" \"a\" {}\nimport {\n  to = dns_a.a\n  identity = { id = \"x\" }\n}"},
	{"`edition` of `language`", "", "language {\n  edition = tofu2024\n}"},
	{"`encryption`", "", "terraform {\n  encryption {}\n}"},
	{"`state_store`", "terraform {\n  required_providers {\n    dns = {\n      source = \"x/dns\"\n    }\n  }\n}", "terraform {\n  required_providers {\n    dns = {\n      source = \"x/dns\"\n    }\n  }\n  state_store \"dns_a\" {\n    provider \"dns\" {}\n  }\n}"},
}
