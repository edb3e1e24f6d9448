// SPDX-License-Identifier: Apache-2.0

package description_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
)

func check(t *testing.T, files map[string]string) error {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	listed := must.Get(archive.List(t.Context(), tree, archive.Options{All: true}))(t)
	v := must.Get(description.NewModule(tree, listed))(t)
	return errors.Join(v.Check(""))
}

func TestCheckRefuses(t *testing.T) {
	main := func(text string) map[string]string { return map[string]string{"main.tf": text} }
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"syntax", main("locals {\n  a = [1\n}\n"), "main.tf:3:1: "},
		{"block that does not end", main("variable \"a\" {\n"), "main.tf:1:14: "},
		{"JSON", map[string]string{"main.tf.json": "{\n \"locals\": }"}, "main.tf.json:"},
		{"unknown block", main("\n\nresorce \"a\" \"b\" {}\n"), "main.tf:3:1: Unsupported block type"},
		{"unknown property", map[string]string{"main.tf.json": "{\n \"resorce\": {}\n}"}, "main.tf.json:2:"},
		{"argument at the top", main("a = 1\n"), "main.tf:1:1: Unsupported argument"},
		{"missing label", main("variable {\n}\n"), "main.tf:1:10: Missing name for variable"},
		{"extraneous label", main("output \"a\" \"b\" {\n value = 1\n}\n"), "main.tf:1:12: Extraneous label for output"},
		{"variable twice", map[string]string{"a.tf": "variable \"a\" {}\n", "b.tf": "\n\nvariable \"a\" {}\n"}, `b.tf:3:1: Duplicate variable: "a" is declared at a.tf:1.`},
		{"output twice", main("output \"a\" {\n value = 1\n}\noutput \"a\" {\n value = 2\n}\n"), "main.tf:4:1: Duplicate output"},
		{"resource twice", main("resource \"a\" \"b\" {}\nresource \"a\" \"b\" {}\n"), "main.tf:2:1: Duplicate resource"},
		{"local twice", main("locals {\n a = 1\n}\nlocals {\n a = 2\n}\n"), "main.tf:5:2: Duplicate local value"},
		{"twice in JSON and HCL", map[string]string{"a.tf.json": `{"output": {"a": {"value": 1}}}`, "b.tf": "output \"a\" {\n value = 1\n}\n"}, "b.tf:1:1: Duplicate output"},
		{"undeclared variable", main("output \"a\" {\n  value = \"x-${var.nope}\"\n}\n"), "main.tf:2:16: Reference to undeclared input variable: var.nope"},
		{"undeclared local", main("resource \"a\" \"b\" {\n  c {\n    d = upper(local.nope)\n  }\n}\n"), "main.tf:3:15: Reference to undeclared local value"},
		{"in a validation", main("variable \"a\" {\n  validation {\n    condition     = var.b > 1\n    error_message = \"no\"\n  }\n}\n"), "main.tf:3:21: "},
		{"a reserved name", main("variable \"count\" {}\n"), `main.tf:1:1: Invalid variable name: "count" means`},
		{"no source", main("module \"x\" {\n}\n"), "main.tf:1:1: Module without source"},
		{"count and for_each", main("resource \"a\" \"b\" {\n count = 1\n for_each = {}\n}\n"), "main.tf:3:2: Invalid combination of count and for_each"},
		{"a default of another type", main("variable \"a\" {\n type = list(number)\n default = [\"x\"]\n}\n"), "main.tf:3:12: Invalid default value for variable: It does not have the type of the variable: a number is required."},
		{"an invalid version of the tool", main("terraform {\n required_version = \"1.x\"\n}\n"), `main.tf:2:21: Invalid version constraint: "1.x" is not a version constraint`},
		{"an invalid version of a provider", main("terraform {\n required_providers {\n  a = { version = \">> 1\" }\n }\n}\n"), "main.tf:3:19: Invalid version constraint"},
		{"an invalid version of a module", main("module \"a\" {\n source = \"a/b/c\"\n version = \"latest\"\n}\n"), "main.tf:3:12: Invalid version constraint"},
		{"undeclared module", main("output \"a\" {\n value = module.b.c\n}\n"), "main.tf:2:10: Reference to undeclared module: module.b is not declared"},
		{"undeclared resource", main("resource \"a\" \"b\" {}\noutput \"a\" {\n value = a.c.id\n}\n"), "main.tf:3:10: Reference to undeclared resource: a.c is not declared"},
		{"undeclared data source", main("output \"a\" {\n value = [for x in data.a.c : x.id]\n}\n"), "main.tf:2:20: Reference to undeclared data source: data.a.c is not declared"},
		{"in a called module", map[string]string{"main.tf": "module \"x\" {\n source = \"./x\"\n}\n", "x/main.tofu": "locals {\n a = var.b\n}\n"}, "x/main.tofu:2:6: "},
		{"in a module chosen by a variable", map[string]string{"main.tf": "variable \"k\" {}\nmodule \"x\" {\n source = \"./x-${var.k}\"\n}\n", "x-a/main.tf": "", "x-b/main.tf": "locals {\n a = var.b\n}\n"}, "x-b/main.tf:2:6: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := check(t, tt.files); !errors.Is(err, description.ErrInvalid) || !strings.Contains(err.Error(), "\n"+tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	err := check(t, main(strings.Repeat("x \"y\" {}\n", 30)))
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 10 more") {
		t.Errorf("got %v", err)
	}
}

// TestCheckAccepts what some client accepts: refusing that would be worse.
func TestCheckAccepts(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
	}{
		{"empty", map[string]string{"main.tf": ""}},
		{"comments and BOM-free text", map[string]string{"main.tf": "# a\n// b\n/* c */\n"}},
		{"every block", map[string]string{"main.tf": everyBlock}},
		{"for Terraform", map[string]string{"main.tf": "action \"aws_lambda_invoke\" \"a\" {\n config {\n  function_name = var.x\n }\n}\nvariable \"x\" {}\n"}},
		{"a language", map[string]string{"main.tofu": "language {\n compatible_with {\n  opentofu = \">= 1.12\"\n }\n}\nblock_of_the_future \"a\" {}\n"}},
		{"provider functions", map[string]string{"main.tf": "output \"a\" {\n value = provider::time::rfc3339_parse(\"2024-01-01T00:00:00Z\").year\n}\n"}},
		{"tofu hides tf", map[string]string{"main.tf": "variable \"a\" {}\nsyntax error", "main.tofu": "variable \"a\" {}\n"}},
		{"tofu hides tf in JSON", map[string]string{"main.tf.json": "{", "main.tofu.json": `{"variable": {"a": {}}}`}},
		{"overrides", map[string]string{"main.tf": "variable \"a\" {}\nlocals {\n b = 1\n}\n", "override.tf": "variable \"a\" {\n default = 1\n}\nlocals {\n b = 2\n}\n", "more_override.tofu": "variable \"a\" {\n default = 2\n}\n"}},
		{"hidden files", map[string]string{"main.tf": "", ".main.tf": "what an editor left {"}},
		{"other modules", map[string]string{"main.tf": "", "examples/x/main.tf": "module \"x\" {", "tests/a.tftest.hcl": "run \"x\" {"}},
		{"declared in JSON", map[string]string{"main.tf": "output \"a\" {\n value = [var.a, local.b]\n}\n", "x.tf.json": `{"//": "a comment", "variable": {"a": {}}, "locals": [{"b": 1}, {"c": "${local.b}"}], "resource": {"x": {"y": [{}], "z": {}}}}`}},
		{"data and resource of one name", map[string]string{"main.tf": "data \"a\" \"b\" {}\nresource \"a\" \"b\" {}\nephemeral \"a\" \"b\" {}\n"}},
		{"a provider called local", map[string]string{"main.tf": "provider \"local\" {\n alias = \"x\"\n}\nresource \"local_file\" \"a\" {\n provider = local.x\n filename = \"a\"\n}\nmodule \"m\" {\n source    = \"registry.example.com/a/b/c\"\n providers = { local = local.x }\n}\n"}},
		{"configuration aliases", map[string]string{"main.tf": "terraform {\n required_providers {\n  local = {\n   source                = \"hashicorp/local\"\n   configuration_aliases = [local.x]\n  }\n }\n}\n"}},
		{"attributes called var", map[string]string{"main.tf": "resource \"a\" \"b\" {\n var = 1\n lifecycle {\n  ignore_changes = [var.x, local]\n }\n}\n"}},
		{"loops over var and local", map[string]string{"main.tf": "output \"a\" {\n value = [[for var in [{x = 1}] : var.x], {for local, v in {a = {b = 1}} : local => v.b}, \"%{for var in []}${var.y}%{endfor}\"]\n}\n"}},
		{"iterators called local", map[string]string{"main.tf": "resource \"a\" \"b\" {\n dynamic \"local\" {\n  for_each = [1]\n  content {\n   x = local.value\n  }\n }\n dynamic \"y\" {\n  for_each = [1]\n  iterator = var\n  content {\n   x = var.value\n  }\n }\n}\n"}},
		{"a backend with variables", map[string]string{"main.tf": "variable \"p\" {}\nterraform {\n backend \"s3\" {\n  bucket = var.p\n }\n encryption {\n  key_provider \"pbkdf2\" \"k\" {\n   passphrase = var.p\n  }\n }\n}\n"}},
		{"versions of all kinds", map[string]string{"main.tf": "terraform {\n required_version = \">= 1.10.0-beta1, <2, ~> v1.12 , != 1.11.0\"\n required_providers {\n  a = {\n   version = \"1.0.0+build.1\"\n  }\n  b = \"~> 2\"\n }\n}\n"}},
		{"defaults that convert", map[string]string{"main.tf": "variable \"a\" {\n type = map(string)\n default = { a = 1 }\n}\nvariable \"b\" {\n type = object({ x = number, y = optional(list(string), []) })\n default = { x = \"1\", z = 2 }\n}\nvariable \"c\" {\n type = any\n default = null\n}\nvariable \"d\" {\n type = \"string\"\n default = 1\n}\n", "x.tf.json": `{"variable": {"e": {"type": "list(string)", "default": ["a"]}}}`}},
		{"a source in an override", map[string]string{"main.tf": "module \"a\" {\n}\n", "x_override.tf": "module \"a\" {\n source = \"a/b/c\"\n}\n"}},
		{"resources as they are referred to", map[string]string{"main.tf": "resource \"a_b\" \"c\" {\n count = 2\n}\nephemeral \"e_f\" \"g\" {}\ncheck \"x\" {\n data \"h\" \"i\" {}\n assert {\n  condition = data.h.i.ok && module.m[0].x && a_b.c[0].y != \"\"\n  error_message = \"\"\n }\n}\nmodule \"m\" {\n source = \"a/b/c\"\n x = [a_b.c[*].id, ephemeral.e_f.g.h, setting.value, { a_b = 1 }]\n}\nmoved {\n from = a_b.old\n to = a_b.c\n}\nresource \"k_l\" \"m\" {\n dynamic \"a_b\" {\n  for_each = []\n  content {\n   x = a_b.value\n  }\n }\n}\n"}},
		{"a call of nothing here", map[string]string{"main.tf": "module \"x\" {\n source = \"./gone\"\n}\nmodule \"y\" {\n source = \"../up\"\n}\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := check(t, tt.files); err != nil {
				t.Error(err)
			}
		})
	}
}

const everyBlock = `
terraform {
  required_version = ">= 1.7"
  required_providers {
    time = { source = "hashicorp/time" }
  }
}
variable "names" {
  type = map(object({ n = optional(number, 1), tags = optional(set(string), []) }))
  default   = {}
  nullable  = false
  ephemeral = false
  validation {
    condition     = alltrue([for k, v in var.names : v.n > 0 && length(local.all) >= 0])
    error_message = "n is positive, unlike in ${jsonencode(var.names)}."
  }
}
locals {
  all   = { for k, v in var.names : k => v... if v.n > 1 }
  text  = <<-EOT
    %{for k in keys(var.names)~}
    ${k} $${not} %%{this}
    %{endfor~}
  EOT
  first = try(values(var.names)[0].tags, [])
  splat = values(var.names)[*].n
}
provider "time" {
  alias    = "each"
  for_each = var.names
}
resource "time_sleep" "a" {
  for_each        = local.all
  create_duration = each.value[0].n > 1 ? "1s" : "2s"
  lifecycle {
    create_before_destroy = true
    replace_triggered_by  = [terraform_data.b.id]
    precondition {
      condition     = length(var.names) > 0
      error_message = "some"
    }
  }
}
resource "terraform_data" "b" {
  count = 1
  provisioner "local-exec" {
    command = "echo ${self.id}"
    when    = destroy
  }
}
data "terraform_remote_state" "c" {
  backend = "local"
}
ephemeral "random_password" "d" {
  length = 1
}
module "e" {
  source   = "./e"
  for_each = toset(local.first)
  depends_on = [time_sleep.a]
}
moved {
  from = time_sleep.old
  to   = time_sleep.a
}
removed {
  from = time_sleep.gone
  lifecycle {
    destroy = false
  }
}
import {
  for_each = { x = "y" }
  to       = time_sleep.a[each.key]
  id       = each.value
}
check "f" {
  data "http" "g" {
    url = "https://example.com/${local.text}"
  }
  assert {
    condition     = data.http.g.status_code == 200
    error_message = "down"
  }
}
output "h" {
  value     = sensitive(local.splat)
  sensitive = true
}
`
