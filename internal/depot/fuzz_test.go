// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/moduledoc"
)

// FuzzConfiguration describes a module with any file.
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
		_, _ = moduledoc.RequiredProviders(tree, "registry.opentofu.org")
	})
}

// FuzzFiles reads any text as a depot file, a lock file and manifests of
// OpenDepot.
func FuzzFiles(f *testing.F) {
	f.Add("module \"a/b/c\" {\n source = \"git::https://x.test/y.git\"\n versions = \"~> 1.0\"\n}\n")
	f.Add(`{"registry": "x.test/p", "module": {"a/b/c": {"source": "git::https://x.test/y.git"}}}`)
	f.Add("provider \"registry.opentofu.org/a/b\" {\n version = \"1.0.0\"\n hashes = [\"zh:00\"]\n}\n")
	f.Add("apiVersion: opendepot.defdev.io/v1alpha1\nkind: Depot\nspec:\n  moduleConfigs: [{name: a, provider: b}]\n")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = depot.ParseSet("depot.hcl", []byte(text))
		_, _ = depot.ParseSet("depot.json", []byte(text))
		_, _ = lockfile.Parse(".terraform.lock.hcl", []byte(text))
		_, _, _ = depot.ImportOpenDepot([]byte(text))
	})
}
