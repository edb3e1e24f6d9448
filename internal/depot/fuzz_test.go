// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/description"
)

// FuzzConfiguration describes a module with an arbitrary file.
func FuzzConfiguration(f *testing.F) {
	f.Add("main.tf", "variable \"x\" {\n type = map(object({ a = optional(string, \"b\") }))\n default = { c = {} }\n}\n")
	f.Add("main.tf", "terraform {\n required_providers {\n a = { source = \"b/c\", version = \"1.0\" }\n }\n}\nmodule \"m\" {\n source = \"./m\"\n}\n")
	f.Add("main.tf.json", `{"variable": {"x": {"type": "list(string)", "default": ["${a}"]}}}`)
	const base = "variable \"x\" {\n type = string\n default = \"m\"\n}\nmodule \"m\" {\n source = \"./${var.x}\"\n}\n"
	f.Add("override.tf", "variable \"x\" {\n default = local.a[0].b\n}\nlocals {\n a = [{ b = lower(var.x) }]\n}\nimport {\n to = module.m.a_b.c\n}\n")
	f.Add("a.tftest.hcl", "run \"a\" {\n module {\n source = \"./m$${x}\"\n }\n}\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		if !slices.Contains([]string{"main.tf", "main.tf.json", "main.tofu", "override.tf", "a.tftest.hcl"}, name) {
			return
		}
		tree := fstest.MapFS{"main.tf": {Data: []byte(base)}, "m/a.tf": {Data: []byte(base)}}
		tree[name] = &fstest.MapFile{Data: []byte(text)}
		_, _ = depot.PlanModule(t.Context(), tree, depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{})
		_, _ = description.RequiredProviders(tree, ".", "registry.opentofu.org")
	})
}
