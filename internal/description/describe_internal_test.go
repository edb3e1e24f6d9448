// SPDX-License-Identifier: Apache-2.0

package description

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func mustDescribe(t *testing.T, tree fs.FS) artifact.ModuleDescription {
	t.Helper()
	m := must.Get(addr.ParseModule("net/vpc/aws"))(t)
	listed := must.Get(archive.List(t.Context(), tree, archive.Options{}))(t)
	v := must.Get(NewModule(tree, listed))(t)
	return v.Describe(addr.ModuleVersion{Module: m}, "")
}

func TestDescribe(t *testing.T) {
	d := mustDescribe(t, fstest.MapFS{
		"main.tf":                      {Data: []byte("variable \"hidden\" {}\n")},
		"main.tofu":                    {Data: []byte(description)},
		"LICENSE":                      {Data: []byte("Apache License\n Version 2.0, January 2004\n")},
		"README.md":                    {Data: []byte("# VPC\n")},
		"modules/subnet/main.tf.json":  {Data: []byte(`{"variable":{"b":{"type":"string","validation":{"condition":"${var.b != \"\"}","error_message":"say \"b\" ${1}"}}}}`)},
		"examples/simple/main.tf":      {Data: []byte("module \"vpc\" {\n source = \"../..\"\n}\n")},
		"examples/simple/deep/main.tf": {},
		"broken.tf":                    {Data: []byte("variable {\n")},
	})
	b := must.Get(EncodeDescription(d))(t)
	var got bytes.Buffer
	must.Succeed(t, json.Indent(&got, b, "", " "))
	var inputs struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	must.Succeed(t, json.Unmarshal(d.Root.Inputs, &inputs))
	for name, want := range map[string]string{
		"name":  `{"description":"the name","type":"string","x-okara-type":"string"}`,
		"size":  `{"default":3,"type":["number","null"],"x-okara-type":"number","x-okara-validation":[{"condition":"var.size != 0","error_message":"\"at least ${1}\""}]}`,
		"token": `{"type":["string","null"],"writeOnly":true,"x-okara-ephemeral":true,"x-okara-type":"string"}`,
		"any":   `{}`,
		"big":   `{"default":12345678901234567890,"type":["number","null"],"x-okara-type":"number"}`,
		"zones": `{"default":["a"],"items":{"type":"string"},"type":["array","null"],"uniqueItems":true,"x-okara-type":"set(string)"}`,
		"pair":  `{"maxItems":2,"minItems":2,"prefixItems":[{"type":"string"},{"type":"boolean"}],"type":["array","null"],"x-okara-type":"tuple([string, bool])"}`,
		"rules": `{"items":{"properties":{"port":{"type":"number"},"proto":{"default":"tcp","type":["string","null"]},"tags":{"additionalProperties":{"type":"string"},"type":["object","null"]}},"required":["port"],"type":"object"},"type":["array","null"]}`,
	} {
		raw := string(inputs.Properties[name])
		if name == "rules" { // its source text has line breaks
			head, _, _ := strings.Cut(raw, `,"x-okara-type"`)
			raw = head + "}"
		}
		must.Match(t, name, raw, want)
	}
	must.Match(t, "required", inputs.Required, []string{"any", "name", "pair", "rules", "token"})
	must.Match(t, "order", d.Root.InputOrder, []string{"name", "size", "token", "any", "big", "zones", "pair", "rules"})
	want := artifact.DescribedModule{
		Readme:            &artifact.DescribedReadme{Path: "README.md", Text: "# VPC\n"},
		Outputs:           []artifact.DescribedOutput{{Name: "id", Description: "the ID", Sensitive: true}},
		RequiredVersion:   []string{">= 1.8"},
		RequiredProviders: []artifact.DescribedProvider{{Name: "aws", Source: "hashicorp/aws", Versions: []string{"~> 5.0"}, Aliases: []string{"aws.peer"}}},
		Resources:         []artifact.DescribedResource{{Mode: "managed", Type: "aws_vpc", Name: "this"}, {Mode: "data", Type: "aws_region", Name: "here"}},
		ModuleCalls:       []artifact.DescribedCall{{Name: "chosen", Source: "example.com/net/${var.name}/aws", Version: "${local.version}"}, {Name: "subnet", Source: "./modules/subnet"}},
	}
	root := d.Root
	must.Match(t, "inputs of main.tf", root.Terraform.InputOrder, []string{"hidden"})
	root.Inputs, root.InputOrder, root.Terraform = nil, nil, nil
	must.Match(t, "root", root, want)
	if len(d.Submodules) != 1 || d.Submodules[0].Path != "modules/subnet" || len(d.Examples) != 1 || d.Examples[0].Path != "examples/simple" {
		t.Errorf("submodules %+v, examples %+v", d.Submodules, d.Examples)
	}
	must.Equal(t, "validation", string(d.Submodules[0].Inputs), `{"$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false,"properties":{"b":{"type":["string","null"],"x-okara-type":"string","x-okara-validation":[{"condition":"var.b != \"\"","error_message":"\"say \\\"b\\\" ${1}\""}]}},"required":["b"],"type":"object"}`)
	must.Match(t, "license", d.License, &artifact.DescribedLicense{Path: "LICENSE", SPDX: "Apache-2.0"})
	if len(d.Diagnostics) == 0 || d.Diagnostics[0].Path != "broken.tf" || d.Diagnostics[0].Line != 1 {
		t.Errorf("diagnostics %+v", d.Diagnostics)
	}
}

const description = `
terraform {
  required_version = ">= 1.8"
  required_providers {
    aws = {
      source                = "hashicorp/aws"
      version               = "~> 5.0"
      configuration_aliases = [aws.peer]
    }
  }
}
variable "name" {
  type        = string
  description = "the name"
  nullable    = false
}
variable "size" {
  type    = number
  default = 3
  validation {
    condition     = var.size != 0
    error_message = "at least ${1}"
  }
}
variable "token" {
  type      = string
  sensitive = true
  ephemeral = true
}
variable "any" {}
variable "big" {
  type    = number
  default = 12345678901234567890
}
variable "zones" {
  type    = set(string)
  default = ["a"]
}
variable "pair" {
  type = tuple([string, bool])
}
variable "rules" {
  type = list(object({
    port  = number
    proto = optional(string, "tcp")
    tags  = optional(map(string))
  }))
}
output "id" {
  value       = 1
  description = "the ID"
  sensitive   = true
}
resource "aws_vpc" "this" {}
data "aws_region" "here" {}
module "subnet" {
  source = "./modules/subnet"
}
module "chosen" {
  source  = "example.com/net/${var.name}/aws"
  version = local.version
}
`

func TestDescriptionIsBounded(t *testing.T) {
	d := mustDescribe(t, fstest.MapFS{"main.tf": {}, "README.md": {Data: []byte(strings.Repeat("ü", maxReadme))}})
	if r := d.Root.Readme; !r.Truncated || len(r.Text) > maxReadme || len(r.Text) < maxReadme-4 || strings.Contains(r.Text, "\uFFFD") {
		t.Errorf("readme of %d bytes, truncated %v", len(r.Text), r.Truncated)
	}
	tree := fstest.MapFS{"main.tf": {}}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		tree["modules/"+name+"/main.tf"] = &fstest.MapFile{Data: []byte("locals {}")}
		tree["modules/"+name+"/README.md"] = &fstest.MapFile{Data: bytes.Repeat([]byte("x"), maxReadme)}
	}
	b, err := EncodeDescription(mustDescribe(t, tree))
	if err != nil || len(b) > MaxDescription || !bytes.Contains(b, []byte(`"truncated":true`)) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	for i := 3350; i < 4000; i++ {
		tree["modules/a/v"+strings.Repeat("x", i%50)+string(rune('a'+i%26))+".tf"] = &fstest.MapFile{
			Data: []byte("variable \"v" + strings.Repeat("y", i) + "\" {\n}\n")}
	}
	b, err = EncodeDescription(mustDescribe(t, tree))
	if err != nil || len(b) > MaxDescription {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestCanonicalSize(t *testing.T) {
	for _, text := range []string{"", "a<b>&c", `\`, `\\u003c`, `\<`, "\xff\xfe<", "\u2028\x00\x7f\t\b", `"\u003e"`, strings.Repeat(`\<`, 9), "é\ufffd"} {
		raw := must.Get(json.Marshal(map[string]string{"x<": text}))(t)
		v := map[string]any{"b": text, "a": json.RawMessage(raw), "n": json.Number("1e400")}
		if size := must.Get(canonicalSize(v))(t); size != len(must.Get(canonicalJSON(v))(t)) {
			t.Errorf("canonicalSize of %q is %d, the JSON has %d bytes", text, size, len(must.Get(canonicalJSON(v))(t)))
		}
	}
}

// TestOverrideFiles: an override file changes the arguments that it has, and no others: OpenTofu 1.12.6, Terraform 1.11.4 and 1.16.4.
func TestOverrideFiles(t *testing.T) {
	const full = "variable \"a\" {\n type = list(string)\n default = []\n sensitive = true\n nullable = false\n validation {\n  condition = true\n  error_message = \"no\"\n }\n}\noutput \"o\" {\n value = 1\n sensitive = true\n}\n"
	const aws = "terraform {\n required_version = \">= 1.0\"\n required_providers {\n  aws = {\n   source = \"acme/aws\"\n   version = \"1.0\"\n  }\n }\n}\n"
	for _, tt := range []struct{ name, main, override, same string }{
		{"a description", full, "variable \"a\" {\n description = \"d\"\n}", strings.Replace(full, "type", "description = \"d\"\n type", 1)},
		{"a default", full, "variable \"a\" {\n default = [\"x\"]\n}", strings.Replace(full, "[]", `["x"]`, 1)},
		{"a default that JSON rounds", "variable \"a\" {\n default = 1234567890123456789\n}", "variable \"a\" {\n default = 1\n}", "variable \"a\" {\n default = 1\n}"},
		{"a default of a required one", "variable \"a\" {\n type = string\n}", "variable \"a\" {\n default = \"x\"\n}", "variable \"a\" {\n type = string\n default = \"x\"\n}"},
		{"no longer sensitive", full, "variable \"a\" {\n sensitive = false\n nullable = true\n}\noutput \"o\" {\n sensitive = false\n ephemeral = true\n}", strings.NewReplacer(" sensitive = true\n nullable = false\n", "", "sensitive = true", "ephemeral = true").Replace(full)},
		{"the value of an output", full, "output \"o\" {\n value = 2\n}", full},
		{"the version of a call", "module \"m\" {\n source = \"a/b/c\"\n version = \"1.0.0\"\n}", "module \"m\" {\n version = \"2.0.0\"\n}", "module \"m\" {\n source = \"a/b/c\"\n version = \"2.0.0\"\n}"},
		{"an argument of a call", "module \"m\" {\n source = \"a/b/c\"\n version = var.a\n}", "module \"m\" {\n x = 1\n}", "module \"m\" {\n source = \"a/b/c\"\n version = var.a\n}"},
		{"a resource", "resource \"aws_a\" \"a\" {\n provider = x.y\n}", "resource \"aws_a\" \"a\" {\n b = 1\n}", "resource \"aws_a\" \"a\" {\n provider = x.y\n}"},
		{"the provider of a resource", "resource \"aws_a\" \"a\" {}", "resource \"aws_a\" \"a\" {\n provider = x.y\n}", "resource \"aws_a\" \"a\" {\n provider = x.y\n}"},
		{"versions", aws, strings.NewReplacer("acme", "other", "1.0", "2.0").Replace(aws), strings.NewReplacer("acme", "other", "1.0", "2.0").Replace(aws)},
		{"nothing to override", full, "variable \"b\" {\n default = 1\n}", ""},
	} {
		for _, name := range []string{"override.tf", "a_override.tofu", "v1.tf_override.tf"} {
			tree := fstest.MapFS{"main.tf": {Data: []byte(tt.main)}, name: {Data: []byte(tt.override)}}
			v := must.Get(NewModule(tree, must.Get(archive.List(t.Context(), tree, archive.Options{}))(t)))(t)
			if broken, _ := v.Check("."); (broken != nil) != (tt.same == "") && !strings.Contains(tt.main, "var.a") {
				t.Errorf("%s: %v", tt.name, broken)
			}
			if tt.same != "" {
				want := mustDescribe(t, fstest.MapFS{"main.tf": {Data: []byte(tt.same)}})
				want.Address = "//"
				got := v.Describe(addr.ModuleVersion{}, ".")
				got.Root.Terraform = nil // without a_override.tofu
				must.Match(t, tt.name+" in "+name, got, want)
			}
		}
	}
}
