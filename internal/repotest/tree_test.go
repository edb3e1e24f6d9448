// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// top lists what the top folder may contain; a new entry needs a reason.
var top = []string{
	"cmd", "oci", "statebackend", "registry", "credentials", "instances", "internal", "testdata", "docs", "operator", "provider", "charts", "deploy", "examples",
	"go.mod", "go.sum", "Makefile", "LICENSE", "README.md", "CHANGELOG.md", "findings", "CONTRIBUTING.md", "SECURITY.md", "action.yml",
	".gitignore", ".ci", ".github", ".goreleaser.yaml", "Formula", "install.sh", // where other tools expect them
	".devcontainer", ".editorconfig", ".pre-commit-config.yaml", "CODE_OF_CONDUCT.md", "GOVERNANCE.md",
}

func TestTopFolder(t *testing.T) {
	for _, name := range tracked(t) {
		if first, _, _ := strings.Cut(name, "/"); !slices.Contains(top, first) {
			t.Errorf("%s: the top folder holds nothing but %s", name, strings.Join(top, ", "))
		}
	}
}

// TestNames requires names valid on every file system, as those with an address are not.
func TestNames(t *testing.T) {
	for _, name := range tracked(t) {
		if strings.ContainsAny(name, `:<>"|?*\`) {
			t.Errorf("%s: Windows has no such names", name)
		}
	}
}

// TestChangelog requires that each entry is short and written for users.
func TestChangelog(t *testing.T) {
	for _, name := range tracked(t) {
		if !strings.HasPrefix(name, "docs/changelog/unreleased/") {
			continue
		}
		text := strings.TrimSpace(string(read(t, name)))
		if !strings.HasPrefix(text, "okara") && !strings.HasPrefix(text, "`okara") {
			t.Errorf("%s: an entry says what okara now does, from its first word", name)
		}
		if len(text) > 600 {
			t.Errorf("%s: %d characters; an entry is one or two sentences", name, len(text))
		}
	}
}

// TestVersion requires that the number of the version is everywhere the one of internal/buildinfo.
func TestVersion(t *testing.T) {
	number := strings.TrimSpace(string(read(t, "internal/buildinfo/VERSION")))
	for name, line := range map[string]string{
		"charts/okara/Chart.yaml":     "\nversion: " + number + "\nappVersion: " + number + "\n",
		"Formula/okara.rb":            `tag: "v` + number + "\"\n",
		"CHANGELOG.md":                "\n## " + number + " ",
		"deploy/compose/compose.yaml": "/images/okara:" + number + "\n",
	} {
		if !strings.Contains(string(read(t, name)), line) {
			t.Errorf("%s does not say %q", name, line)
		}
	}
}

// tracked lists what git has or would add, or outside git what is not built. Walking also tells go
// test what a cached result depends on.
func tracked(t *testing.T) []string {
	t.Helper()
	names := walked(t)
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		return names
	}
	known := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		known[name] = true
	}
	return slices.DeleteFunc(names, func(name string) bool { return !known[name] })
}

// source is a Go file of the repository.
type source struct {
	*ast.File
	name string
	test bool
	fset *token.FileSet
	text []byte
}

// sources parses the Go files of the repository, except test data.
func sources(t *testing.T, mode parser.Mode) iter.Seq[source] {
	return func(yield func(source) bool) {
		t.Helper()
		for _, name := range tracked(t) {
			if path.Ext(name) != ".go" || slices.Contains(strings.Split(name, "/"), "testdata") {
				continue
			}
			s := source{name: name, test: strings.HasSuffix(name, "_test.go"), fset: token.NewFileSet(), text: read(t, name)}
			var err error
			if s.File, err = parser.ParseFile(s.fset, name, s.text, mode|parser.SkipObjectResolution); err != nil {
				t.Fatal(err)
			}
			if !yield(s) {
				return
			}
		}
	}
}

func walked(t *testing.T) []string {
	t.Helper()
	var names []string
	must.Succeed(t, fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == ".git" || name == ".cache" || name == "bin") {
			return fs.SkipDir
		}
		if !d.IsDir() {
			names = append(names, name)
		}
		return nil
	}))
	return names
}

// stopped finds testscript's own command that ends a script as passed.
var stopped = regexp.MustCompile(`(?m)^\s*(\[.*\]\s*)?stop\b`)

// TestScriptsEnd: a script runs to its end: nothing after a stop would be checked.
func TestScriptsEnd(t *testing.T) {
	for _, name := range tracked(t) {
		if strings.HasSuffix(name, ".txtar") && stopped.Match(read(t, name)) {
			t.Errorf("%s: \"stop\" ends a script as passed", name)
		}
	}
}
