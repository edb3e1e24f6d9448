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

// pure lists the packages whose results depend on nothing but their arguments, with what
// they may import nevertheless.
const pure = `
instances/internal/prices: what a plan costs
instances/internal/schema: what values may be
instances/internal/timetable: when something is stopped and started
instances/lifecycle: the machine of instances
instances/template: what may be launched
internal/addr: names
internal/rights: rules
internal/search: finding entries
operator/internal/kindspec: a definition becomes a kind; it knows the kinds of artifacts
	oci/artifact
statebackend/internal/protocol: the lock; it knows which errors of a registry pass
	oci
`

// TestPure refuses clocks, randomness, input and output in [pure] packages.
func TestPure(t *testing.T) {
	table := rows(t, pure)
	found := map[string]bool{}
	for s := range sources(t, 0) {
		i := slices.IndexFunc(table, func(r row) bool { return r.name == path.Dir(s.name) })
		if i < 0 || s.test {
			continue
		}
		found[table[i].name] = true
		for _, used := range impure(s.File) {
			if !slices.Contains(table[i].pkgs, used) {
				t.Errorf("%s must not use %s: %s is pure: %s", s.name, used, table[i].name, table[i].reason)
			}
		}
	}
	if len(found) != len(table) {
		t.Errorf("of %d pure packages, there are %d", len(table), len(found))
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
