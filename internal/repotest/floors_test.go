// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFloors requires that no package imports one of a higher floor of the architecture
// page. A package that the page does not name is as high as the highest that it imports.
func TestFloors(t *testing.T) {
	floors := map[string]int{}
	for line := range strings.Lines(string(read(t, "docs/architecture.md"))) {
		cells := strings.Split(line, "|")
		n, err := strconv.Atoi(strings.TrimSpace(cells[min(1, len(cells)-1)]))
		if err != nil {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			floors[m[1]] = n
		}
	}
	if len(floors) < 50 {
		t.Fatalf("the page gives %d packages a floor", len(floors))
	}
	list := packages(t)
	var floor func(name string) int
	floor = func(name string) int {
		if n, ok := floors[name]; ok {
			return n
		}
		floors[name] = 0
		if i := slices.IndexFunc(list, func(p *pkg) bool { return p.name == name }); i >= 0 {
			for _, imported := range our(list[i].imports) {
				floors[name] = max(floors[name], floor(imported))
			}
		}
		return floors[name]
	}
	for _, p := range list {
		for _, imported := range our(p.imports) {
			if floor(imported) > floor(p.name) {
				t.Errorf("%s of floor %d must not import %s of floor %d", p.name, floor(p.name), imported, floor(imported))
			}
		}
	}
}

// pure lists packages that depend on their arguments alone, and what they may import.
var pure = map[string][]string{
	"instances/internal/prices":      nil,
	"instances/internal/schema":      nil,
	"instances/internal/timetable":   nil,
	"instances/lifecycle":            nil,
	"instances/template":             nil,
	"internal/addr":                  nil,
	"internal/rights":                nil,
	"internal/search":                nil,
	"operator/internal/kindspec":     {"oci/artifact"}, // the kinds of artifacts
	"statebackend/internal/protocol": {"oci"},          // which errors of a registry pass
}

// TestPure refuses clocks, randomness, input and output in [pure] packages.
func TestPure(t *testing.T) {
	found := map[string]bool{}
	for s := range sources(t, 0) {
		name := path.Dir(s.name)
		may, ok := pure[name]
		if !ok || s.test {
			continue
		}
		found[name] = true
		for _, used := range impure(s.File) {
			if !slices.Contains(may, used) {
				t.Errorf("%s must not use %s: the package is pure", s.name, used)
			}
		}
	}
	if len(found) != len(pure) {
		t.Errorf("of %d pure packages, there are %d", len(pure), len(found))
	}
}

// impure lists what a file uses that a pure package must not.
func impure(file *ast.File) []string {
	imports := []string{"os", "io/ioutil", "log", "math/rand", "crypto/rand", "syscall", "net/http", "oci", "internal/files"}
	calls := []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick", "text.Wait"}
	var used []string
	for _, spec := range file.Imports {
		imported := strings.TrimPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
		if imported == "net" || slices.ContainsFunc(imports, func(p string) bool { return within(imported, p) }) {
			used = append(used, imported)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(calls, types.ExprString(s)) {
			used = append(used, types.ExprString(s))
		}
		return true
	})
	return used
}
