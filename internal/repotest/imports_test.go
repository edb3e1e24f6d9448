// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"go/parser"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/seed-141914ff/okara"

// testOnly lists packages that may be imported only by _test.go files, by each other and
// by the test modules.
var testOnly = []string{"internal/ocitest", "internal/tofutest", "internal/depottest", "instances/portaltest", "instances/internal/runtest", "internal/webtest", "internal/mutant", "internal/repotest", "internal/conformance", "internal/e2e", "internal/e2e/dist", "internal/e2e/perf", "operator/internal/rig", "operator/internal/pages", "operator/internal/chart", "operator/internal/demo"}

// row is an entry of a table: a name, packages, and a reason.
type row struct {
	name, reason string
	pkgs         []string
}

// rows parses a table.
func rows(t *testing.T, table string) []row {
	t.Helper()
	var list []row
	for line := range strings.Lines(strings.TrimSpace(table)) {
		line = strings.TrimRight(line, "\n")
		if p, ok := strings.CutPrefix(line, "\t"); ok {
			last := &list[len(list)-1]
			last.pkgs = append(last.pkgs, p)
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%q: a row is a name, a colon and a reason", line)
		}
		list = append(list, row{name: name, reason: reason})
	}
	return list
}

type pkg struct {
	name        string // the folder
	files       []string
	documented  bool
	imports     []string
	testImports []string
}

// add records a file and its imports. A test package's files count as code.
func (p *pkg) add(s source) {
	imports := &p.imports
	if s.test && !slices.Contains(testOnly, p.name) {
		imports = &p.testImports
	}
	if !s.test {
		p.files = append(p.files, path.Base(s.name))
		p.documented = p.documented || s.Doc != nil
	}
	for _, spec := range s.Imports {
		if imported := strings.Trim(spec.Path.Value, "\"`"); !slices.Contains(*imports, imported) {
			*imports = append(*imports, imported)
		}
	}
}

func (p *pkg) allImports() []string { return slices.Concat(p.imports, p.testImports) }

// our lists the packages of this repository among imports.
func our(imports []string) []string {
	var list []string
	for _, imported := range imports {
		if name, ok := strings.CutPrefix(imported, module+"/"); ok {
			list = append(list, name)
		}
	}
	return list
}

func TestImports(t *testing.T) {
	table, libs := rows(t, allowed), rows(t, libraries)
	for _, p := range packages(t) {
		i := slices.IndexFunc(table, func(r row) bool { return r.name == p.name })
		if i < 0 {
			t.Errorf("%s: a new package needs a row in the table of imports", p.name)
			continue
		}
		may := table[i].expand(table)
		for _, imported := range our(p.imports) {
			if imported != p.name && !slices.Contains(may, imported) {
				t.Errorf("%s must not import %s: %s", p.name, imported, table[i].reason)
			}
		}
		for _, imported := range p.imports {
			checkLibrary(t, libs, p.name, imported)
		}
		for _, right := range table[i].pkgs {
			if right != "*" && right[0] != '!' && !slices.Contains(our(p.imports), right) {
				t.Errorf("%s does not import %s: take that line away", p.name, right)
			}
		}
	}
}

// expand resolves the packages in a row of the import table to a list of names.
func (r row) expand(table []row) []string {
	var list []string
	for _, p := range r.pkgs {
		if not, ok := strings.CutPrefix(p, "!"); ok {
			list = slices.DeleteFunc(list, func(p string) bool { return p == not })
		} else if p != "*" {
			list = append(list, p)
		} else {
			for _, all := range table {
				if all.name != r.name && !slices.Contains(testOnly, all.name) {
					list = append(list, all.name)
				}
			}
		}
	}
	return list
}

// checkLibrary checks one import against the table of libraries. Test packages may import
// any library, since no user gets them.
func checkLibrary(t *testing.T, libs []row, name, imported string) {
	t.Helper()
	if slices.Contains(testOnly, name) || standard(imported) || within(imported, module) {
		return
	}
	r, ok := library(libs, imported)
	if !ok {
		t.Errorf("%s imports %s: a new library needs a row in the table of libraries", name, imported)
	} else if !slices.Contains(r.pkgs, name) && !slices.Contains(r.pkgs, "*") {
		t.Errorf("%s must not import %s, which belongs to %s: %s", name, imported, strings.Join(append(r.pkgs, "tests"), ", "), r.reason)
	}
}

// standard reports whether a path is in Go's standard library.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// library finds the row for an import.
func library(libs []row, imported string) (found row, ok bool) {
	for _, r := range libs {
		if within(imported, r.name) && len(r.name) > len(found.name) {
			found, ok = r, true
		}
	}
	return found, ok
}

func within(name, prefix string) bool { return name == prefix || strings.HasPrefix(name, prefix+"/") }

// TestPlatformApart requires that the core, including its tests, does not depend on the
// platform of instances. The exceptions are in a table, of which each row must be needed.
func TestPlatformApart(t *testing.T) {
	known := map[string][]string{}
	for _, r := range rows(t, mounts) {
		known[r.name] = r.pkgs
	}
	for _, p := range packages(t) {
		if within(p.name, "instances") || within(p.name, "operator") || slices.Contains(testOnly, p.name) {
			continue
		}
		found := our(p.allImports())
		for _, imported := range found {
			if within(imported, "instances") && !slices.Contains(known[p.name], imported) {
				t.Errorf("%s must not import %s: the core knows nothing of the platform, which comes in by server.Extension", p.name, imported)
			}
		}
		for _, right := range known[p.name] {
			if !slices.Contains(found, right) {
				t.Errorf("%s does not import %s: take that line away", p.name, right)
			}
		}
		delete(known, p.name)
	}
	for name := range known {
		t.Errorf("%s: there is no such package, or it needs no row", name)
	}
}

// TestImportTable requires that the packages in the table of imports exist, and that it
// has no cycle: Go refuses a cycle only once it has been written.
func TestImportTable(t *testing.T) {
	table := rows(t, allowed)
	var exist []string
	for _, p := range packages(t) {
		exist = append(exist, p.name)
	}
	next := map[string][]string{}
	for _, r := range table {
		if _, ok := next[r.name]; ok {
			t.Errorf("%s has two rows", r.name)
		}
		next[r.name] = r.expand(table)
		for _, p := range append(r.pkgs, r.name) {
			if p = strings.TrimPrefix(p, "!"); p != "*" && !slices.Contains(exist, p) {
				t.Errorf("%s: there is no package %s", r.name, p)
			}
		}
	}
	done := map[string]bool{}
	var visit func(way []string)
	visit = func(way []string) {
		name := way[len(way)-1]
		if i := slices.Index(way, name); i < len(way)-1 {
			t.Fatalf("the table of imports has a cycle: %s", strings.Join(way[i:], ", "))
		}
		if done[name] {
			return
		}
		for _, p := range next[name] {
			visit(append(way, p))
		}
		done[name] = true
	}
	for _, r := range table {
		visit([]string{r.name})
	}
}

// TestLibraryTable requires that each row of the table of libraries is used: a library
// that nothing imports has to be removed, and a package that no longer uses a library
// must not keep the right to import it.
func TestLibraryTable(t *testing.T) {
	libs := rows(t, libraries)
	by := map[string][]string{} // by row
	for _, p := range packages(t) {
		for _, imported := range p.allImports() {
			if r, ok := library(libs, imported); ok {
				by[r.name] = append(by[r.name], p.name)
			}
		}
	}
	for _, r := range libs {
		for _, p := range r.pkgs {
			if p != "*" && !slices.Contains(by[r.name], p) {
				t.Errorf("%s: %s does not import it: take that line away", r.name, p)
			}
		}
		// A refusal is needed as long as the library that contains it is in the table.
		_, part := library(libs, path.Dir(r.name))
		if len(by[r.name]) == 0 && (len(r.pkgs) > 0 || !part) {
			t.Errorf("%s: nothing imports it: take the row away", r.name)
		}
	}
}

// TestPackageComments requires a comment for each package.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if !p.documented && len(p.files) > 0 {
			t.Errorf("%s has no package comment", p.name)
		}
		if len(p.files) > 0 && !slices.Contains(p.files, "doc.go") {
			t.Errorf("%s has no doc.go: a package's design is found there", p.name)
		}
	}
}

// packages lists the packages of all modules of the repository. It reads every file,
// for whatever system or build tag: go list would see those of one build only.
func packages(t *testing.T) []*pkg {
	t.Helper()
	var list []*pkg
	for s := range sources(t, parser.ImportsOnly|parser.ParseComments) {
		dir := path.Dir(s.name)
		i := slices.IndexFunc(list, func(p *pkg) bool { return p.name == dir })
		if i < 0 {
			i, list = len(list), append(list, &pkg{name: dir})
		}
		list[i].add(s)
	}
	return list
}
