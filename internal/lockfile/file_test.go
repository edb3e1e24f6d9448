// SPDX-License-Identifier: Apache-2.0

package lockfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/must"
)

const lockSource = `# This file is maintained automatically by "tofu init".
# Manual edits may be lost in future updates.

# kept
provider "registry.opentofu.org/hashicorp/time" {
  version     = "0.14.2"
  constraints = "~> 0.14" # kept too
  hashes = [
    "zh:bb",
  ]
}

provider "registry.opentofu.org/zeta/last" {
  version = "1.0.0"
}
`

func TestFileWith(t *testing.T) {
	l := must.Get(lockfile.Parse("x.lock.hcl", []byte(lockSource)))(t)
	time, ok := l.Find(mustProvider(t, "registry.opentofu.org/hashicorp/time"))
	if !ok || time.Version.String() != "0.14.2" || time.Constraints != "~> 0.14" {
		t.Fatalf("got %+v", time)
	}
	last, _ := l.Find(mustProvider(t, "registry.opentofu.org/zeta/last"))
	time.Hashes = append(time.Hashes, "h1:aa=", "zh:bb")
	last.Hashes = []string{"zh:cc"}
	added := lockfile.Provider{
		Address: mustProvider(t, "registry.opentofu.org/hashicorp/zip"), Label: "registry.opentofu.org/hashicorp/zip",
		Version: time.Version, Hashes: []string{"zh:dd", "h1:ee="},
	}
	got := string(l.With([]lockfile.Provider{last, time, added}))
	want := strings.NewReplacer(
		"    \"zh:bb\",\n", "    \"h1:aa=\",\n    \"zh:bb\",\n",
		"  version = \"1.0.0\"\n", "  version = \"1.0.0\"\n  hashes = [\n    \"zh:cc\",\n  ]\n",
		"provider \"registry.opentofu.org/zeta/last\"", `provider "registry.opentofu.org/hashicorp/zip" {
  version = "0.14.2"
  hashes = [
    "h1:ee=",
    "zh:dd",
  ]
}

provider "registry.opentofu.org/zeta/last"`).Replace(lockSource)
	must.Match(t, "value", got, want)
	again := must.Get(lockfile.Parse("x", []byte(got)))(t)
	if diff := cmp.Diff(got, string(again.With(again.Providers))); diff != "" {
		t.Errorf("a complete file changed: %s", diff)
	}
}

func TestFileNew(t *testing.T) {
	l := must.Get(lockfile.Parse("x", nil))(t)
	p := lockfile.Provider{
		Address: mustProvider(t, "example.com/a/b"), Label: "example.com/a/b", Constraints: ">= 1.0.0", Hashes: []string{"zh:aa"},
	}
	p.Version, _ = addr.ParseVersion("1.2.3")
	want := `# This file is maintained automatically by "tofu init".
# Manual edits may be lost in future updates.

provider "example.com/a/b" {
  version     = "1.2.3"
  constraints = ">= 1.0.0"
  hashes = [
    "zh:aa",
  ]
}
`
	must.Match(t, "value", string(l.With([]lockfile.Provider{p})), want)
}

func TestParseRefuses(t *testing.T) {
	for name, src := range map[string]string{
		"syntax":     `provider "a/b/c" {`,
		"no version": `provider "example.com/b/c" {}`,
		"version":    `provider "example.com/b/c" { version = "1.0" }`,
		"address":    `provider "b" { version = "1.0.0" }`,
		"hashes":     "provider \"example.com/b/c\" {\n version = \"1.0.0\"\n hashes = [1]\n}",
	} {
		t.Run(name, func(t *testing.T) {
			if l, err := lockfile.Parse("x.hcl", []byte(src)); err == nil {
				t.Fatalf("got %+v, want an error", l)
			} else if !strings.Contains(err.Error(), "x.hcl:1") {
				t.Errorf("error %q names no file and line", err)
			}
		})
	}
}

func mustProvider(t *testing.T, s string) addr.Provider {
	t.Helper()
	return must.Get(addr.ParseProvider(s))(t)
}
