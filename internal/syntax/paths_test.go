// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// TestPaths checks that paths in a file are relative to the directory of the
// file.
//
// Shows: mistakes 41
func TestPaths(t *testing.T) {
	type block struct {
		File  string   `hcl:"file,optional" path:"file"`
		Other string   `hcl:"other,optional"`
		Run   []string `hcl:"run,optional" path:"program"`
	}
	type whole struct {
		Log    string            `hcl:"log,optional" path:"file"`
		Files  map[string]string `hcl:"files,optional" path:"file"`
		Origin string            `hcl:"origin,optional" path:"place"`
		One    *block            `hcl:"one,block"`
		None   *block            `hcl:"none,block"`
		Many   []block           `hcl:"many,block"`
	}
	absolute := filepath.Join(t.TempDir(), "abs")
	src := `
log    = "-"
files  = { A = "a/b", C = "../c", D = ` + "\"" + filepath.ToSlash(absolute) + "\"" + ` }
origin = "./mirror"
one {
  other = "not/a/path"
  run   = ["tofu", "./tofu", "bin/tofu"]
}
many {
  file = "x"
}
`
	here := must.Get(os.Getwd())(t)
	dir := filepath.Join(here, "etc", "okara")
	for name, decode := range map[string]func(name string, to any) error{
		"one":   func(name string, to any) error { return syntax.Wrong(syntax.Decode([]byte(src), name, to)) },
		"parts": func(name string, to any) error { return syntax.Wrong(syntax.DecodeParts([]byte(src), name, to)) },
	} {
		var got whole
		must.Succeed(t, decode(filepath.Join("etc", "okara", "okara.hcl"), &got))
		want := whole{
			Log: "-", Files: map[string]string{"A": filepath.Join(dir, "a", "b"), "C": filepath.Join(here, "etc", "c"), "D": absolute}, Origin: filepath.Join(dir, "mirror"),
			One:  &block{Other: "not/a/path", Run: []string{"tofu", filepath.Join(dir, "tofu"), filepath.Join(dir, "bin", "tofu")}},
			Many: []block{{File: filepath.Join(dir, "x")}},
		}
		must.Match(t, name, got, want)
	}
}
