// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	gopackages "golang.org/x/tools/go/packages"

	"github.com/seed-141914ff/okara/internal/must"
)

// countsFile holds the limits of TestCounts, a line "COUNT: NUMBER" each.
const countsFile = "../../.ci/counts"

// TestCounts fails if a count is above its limit in .ci/counts, which may only fall: OKARA_UPDATE
// lowers them. make lint runs it: it type-checks all modules.
func TestCounts(t *testing.T) {
	if os.Getenv("OKARA_COUNTS") == "" {
		t.Skip("make lint sets OKARA_COUNTS")
	}
	c := counts{numbers: map[string]int{}, names: map[string]int{}}
	for _, dir := range []string{".", "operator", "provider"} {
		c.addModule(t, dir)
	}
	for _, sharing := range c.names {
		if sharing >= 5 {
			c.numbers["functions of the root whose name five or more share"] += sharing
		}
	}
	for s := range sources(t, 0) {
		if s.test || slices.ContainsFunc([]string{"internal/e2e", "internal/conformance"}, func(dir string) bool { return within(s.name, dir) }) {
			c.numbers["lines of tests"] += bytes.Count(s.text, []byte("\n"))
		}
		if s.test {
			c.numbers["sleeps of tests"] += countSleeps(s.File)
		}
	}
	for _, name := range c.listed {
		t.Log(name)
	}
	c.compare(t)
}

type counts struct {
	numbers map[string]int
	names   map[string]int // unexported functions and methods of the root module
	listed  []string       // types that are large or views
}

// addModule counts a module without tests, generated files and nested test modules.
func (c *counts) addModule(t *testing.T, dir string) {
	t.Helper()
	mode := gopackages.NeedName | gopackages.NeedFiles | gopackages.NeedSyntax | gopackages.NeedTypes | gopackages.NeedTypesInfo | gopackages.NeedImports | gopackages.NeedModule | gopackages.NeedExportFile
	list := must.Get(gopackages.Load(&gopackages.Config{Dir: filepath.Join("../..", dir), Mode: mode, Env: append(os.Environ(), "GOWORK=off")}, "./..."))(t)
	module := path.Base(list[0].Module.Path)
	for _, p := range list {
		if len(p.Errors) > 0 {
			t.Fatal(p.Errors[0])
		}
		for _, f := range p.Syntax {
			if !ast.IsGenerated(f) {
				c.numbers["lines of product"] += p.Fset.File(f.Pos()).LineCount()
				c.addFunctions(module, f)
			}
		}
		c.addTypes(module, p)
	}
}

func (c *counts) addFunctions(module string, f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || ast.IsExported(fn.Name.Name) || slices.Contains([]string{"main", "init", "_"}, fn.Name.Name) {
			continue
		}
		if module == "okara" {
			c.names[fn.Name.Name]++
		}
		if strings.IndexFunc(fn.Name.Name[1:], unicode.IsUpper) < 0 {
			c.numbers["functions of one word of "+module]++
		}
	}
}

// addTypes counts types with more than 30 methods, those of embedded types included, and
// views: types that only embed a pointer to another type of their package.
func (c *counts) addTypes(module string, p *gopackages.Package) {
	for _, name := range p.Types.Scope().Names() {
		n, ok := p.Types.Scope().Lookup(name).(*types.TypeName)
		if !ok || n.IsAlias() || types.IsInterface(n.Type()) {
			continue
		}
		set := types.NewMethodSet(types.NewPointer(n.Type()))
		methods := 0
		for m := range set.Methods() {
			if from := m.Obj().Pkg(); from != nil && strings.HasPrefix(from.Path(), p.Module.Path) {
				methods++
			}
		}
		if methods > 30 {
			c.numbers["large types of "+module]++
			c.listed = append(c.listed, fmt.Sprintf("%d methods: %s.%s", methods, p.PkgPath, name))
		}
		if isView(n.Type(), p.Types) {
			c.numbers["views of "+module]++
			c.listed = append(c.listed, fmt.Sprintf("view: %s.%s", p.PkgPath, name))
		}
	}
}

func isView(of types.Type, in *types.Package) bool {
	s, ok := of.Underlying().(*types.Struct)
	if !ok || s.NumFields() != 1 || !s.Field(0).Embedded() {
		return false
	}
	pointer, ok := s.Field(0).Type().(*types.Pointer)
	if !ok {
		return false
	}
	named, ok := pointer.Elem().(*types.Named)
	return ok && named.Obj().Pkg() == in
}

// countSleeps counts the calls of time.Sleep that take real time.
func countSleeps(file *ast.File) int {
	if slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"testing/synctest"` }) {
		return 0
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		if s, ok := node.(*ast.SelectorExpr); ok && types.ExprString(s) == "time.Sleep" {
			n++
		}
		return true
	})
	return n
}

// compare fails for each count above its limit.
func (c *counts) compare(t *testing.T) {
	t.Helper()
	limits := map[string]int{}
	text, err := os.ReadFile(countsFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if limits[name], err = strconv.Atoi(number); err != nil {
			t.Fatalf("%q: want COUNT: NUMBER", line)
		}
		c.numbers[name] += 0 // none is a count, too
	}
	var lowered strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.numbers)) {
		limit, ok := limits[name]
		n := c.numbers[name]
		if !ok || n > limit {
			t.Errorf("%s: %d, at most %d", name, n, limit)
		} else {
			t.Logf("%s: %d", name, n)
		}
		fmt.Fprintf(&lowered, "%s: %d\n", name, n)
	}
	if os.Getenv("OKARA_UPDATE") != "" && !t.Failed() {
		must.Succeed(t, os.WriteFile(countsFile, []byte(lowered.String()), 0o644))
	}
}
