// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/must"
)

// newTree creates empty files, or with the text after "=".
func newTree(files ...string) fstest.MapFS {
	tree := fstest.MapFS{}
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

func TestIgnore(t *testing.T) {
	tests := []struct {
		name  string
		tree  fstest.MapFS
		files []string
		drops []archive.Dropped
	}{
		{"defaults",
			newTree("main.tf", ".terraform/x", "sub/.terraform/x", "terraform.tfstate", "a.tfstate.backup", "crash.log", "crash.1.log", ".DS_Store", ".terraform.lock.hcl"),
			[]string{".terraform.lock.hcl", "main.tf"},
			[]archive.Dropped{
				{".DS_Store", "excluded by default: .DS_Store"}, {".terraform/", "excluded by default: .terraform/"},
				{"a.tfstate.backup", "excluded by default: *.tfstate.*"}, {"crash.1.log", "excluded by default: crash.*.log"},
				{"crash.log", "excluded by default: crash.log"}, {"sub/.terraform/", "excluded by default: .terraform/"},
				{"terraform.tfstate", "excluded by default: *.tfstate"},
			}},
		{"always",
			newTree("main.tf", ".git/config", ".github/w.yml", "sub/.gitattributes", ".tfignore=!.git*\n!.tfignore"),
			[]string{"main.tf"},
			[]archive.Dropped{
				{".git/", "never included: .git*"}, {".github/", "never included: .git*"},
				{".tfignore", "never included: ignore file"}, {"sub/.gitattributes", "never included: .git*"},
			}},
		{"include a default again", newTree(".tfignore=!*.tfstate", "fixture.tfstate"),
			[]string{"fixture.tfstate"}, []archive.Dropped{{".tfignore", "never included: ignore file"}}},
		{"tfignore after terraformignore", newTree(".terraformignore=!a.txt", ".tfignore=*.txt", "a.txt", "m.tf"),
			[]string{"m.tf"}, []archive.Dropped{
				{".terraformignore", "never included: ignore file"}, {".tfignore", "never included: ignore file"}, {"a.txt", ".tfignore:1: *.txt"}}},
		{"deeper wins", newTree(".terraformignore=*.txt", "d/.terraformignore=# keep\n!a.txt", "d/a.txt", "a.txt"),
			[]string{"d/a.txt"}, []archive.Dropped{
				{".terraformignore", "never included: ignore file"}, {"a.txt", ".terraformignore:1: *.txt"}, {"d/.terraformignore", "never included: ignore file"}}},
		{"nothing below an excluded directory", newTree(".tfignore=docs/\n!docs/a.txt", "docs/a.txt", "m.tf"),
			[]string{"m.tf"}, []archive.Dropped{{".tfignore", "never included: ignore file"}, {"docs/", ".tfignore:1: docs/"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := mustList(t, tt.tree, archive.Options{})
			must.Match(t, "files", paths(got), tt.files)
			must.Match(t, "dropped", got.Dropped, tt.drops)
		})
	}
}

// TestIgnoreIsGitignore compares the same rules with git.
//
// Shows: aws-registry 3 | nested `.tfignore` | `.tfignore` and `.terraformignore` at any depth,
// with gitignore's rules; git itself is asked
func TestIgnoreIsGitignore(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not on PATH")
	}
	files := []string{
		"a.txt", "b.txt", "doc/a.txt", "doc/sub/a.txt", "doc/sub/deep/a.txt", "x/doc/a.txt", "a/b/c", "a/x/b/c", "a/b/x/b/c", "a/x/y/b/c",
		"foo", "bar/foo/z", "foobar", "#hash", "!bang", "sp ace", "trail ", "ab", "a]b", "a-b", "azb", "a9b", "[ab", "q?", "q*", "UPPER.TXT", `dir.d/file`,
	}
	rules := []string{
		"*.txt", "/*.txt", "doc", "doc/", "/doc/", "doc/a.txt", "doc/*", "doc/**", "**/doc", "**/a.txt", "a/**/b/c", "a/**/b", "a/*/c", "x/**/a.txt",
		"foo*", "*foo", "f?o", "/foo", "foo/", "#hash", `\#hash`, `\!bang`, "sp ace", "trail ", `trail\ `, "a[bz]b", "a[!b]b", "a[^9]b", "a[a-z]b",
		"a[0-9]b", "a[[:digit:]]b", "a[]-]b", "[ab", `\[ab`, `q\?`, `q\*`, "q?", `foo\`, "", "   ", "/", "//", "**", "*", "*.txt\n!a.txt", "doc/*\n!doc/sub",
		"doc/**\n!doc/sub/\n!doc/sub/a.txt", "*\n!*/\n!*.txt", "/*\n!/doc", "a**b", "**b", "a/**", "!a.txt", "*.TXT", "dir.d", "doc/sub/**/a.txt", "/**/a.txt", "doc\n!doc",
	}
	for _, text := range rules {
		t.Run(text, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range files {
				mustWrite(t, filepath.Join(dir, f), "")
			}
			mustWrite(t, filepath.Join(dir, ".tfignore"), text)
			tree := mustList(t, mustRoot(t, dir), archive.Options{})
			cmd := exec.CommandContext(t.Context(), git, "-c", "core.quotePath=false", "ls-files", "-z", "--others", "--exclude-per-directory=.tfignore")
			cmd.Dir = dir
			cmd.Env = []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir}
			if out, err := exec.CommandContext(t.Context(), git, "init", "-q", dir).CombinedOutput(); err != nil {
				t.Fatalf("git init: %v: %s", err, out)
			}
			out := must.Get(cmd.Output())(t)
			var want []string
			for name := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
				if len(name) > 0 && string(name) != ".tfignore" {
					want = append(want, string(name))
				}
			}
			if diff := cmp.Diff(paths(tree), want); diff != "" {
				t.Errorf("(-got +git)\n%s", diff)
			}
		})
	}
}

func mustWrite(t *testing.T, file, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o644))
}
