// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
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
	f.Fuzz(func(t *testing.T, name, text string) {
		if name != "main.tf" && name != "main.tf.json" && name != "main.tofu" {
			return
		}
		tree := fstest.MapFS{name: {Data: []byte(text)}}
		_, _ = depot.PlanModule(t.Context(), tree, depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{})
		_, _ = description.RequiredProviders(tree, ".", "registry.opentofu.org")
	})
}
