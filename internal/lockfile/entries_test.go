// SPDX-License-Identifier: Apache-2.0

package lockfile_test

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/importer"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestDepotEntries(t *testing.T) {
	parse := func(version string) *lockfile.File {
		return must.Get(lockfile.Parse("x", []byte("provider \"registry.opentofu.org/hashicorp/time\" {\n version = \""+version+"\"\n}\n")))(t)
	}
	got := importer.Render(lockfile.DepotEntries([]*lockfile.File{parse("0.13.0"), parse("0.14.2"), parse("0.13.0")}), 0)
	want := `provider "registry.opentofu.org/hashicorp/time" {
  versions = "0.14.2"
  pin = ["0.13.0"]
}
`
	must.Match(t, "value", got, want)
}
