// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/supply"
)

// FuzzFiles parses arbitrary text as a depot file and a lock file.
func FuzzFiles(f *testing.F) {
	f.Add("module \"a/b/c\" {\n source = \"git::https://x.test/y.git\"\n versions = \"~> 1.0\"\n}\n")
	f.Add(`{"registry": "x.test/p", "module": {"a/b/c": {"source": "git::https://x.test/y.git"}}}`)
	f.Add("provider \"registry.opentofu.org/a/b\" {\n version = \"1.0.0\"\n hashes = [\"zh:00\"]\n}\n")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = supply.ParseSet("depot.hcl", []byte(text))
		_, _ = supply.ParseSet("depot.json", []byte(text))
		_, _ = lockfile.Parse(".terraform.lock.hcl", []byte(text))
	})
}
