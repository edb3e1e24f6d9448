// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"bytes"
	"go/ast"
	"go/types"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSizes prints the files, functions and interfaces that are larger than the guides;
// it never fails. Exceeding a guide is a reason to look, not to split a table or a clear
// switch.
func TestSizes(t *testing.T) {
	const fileGuide, testGuide, funcGuide, methodGuide = 400, 600, 60, 3
	var lengths []int
	for s := range sources(t, 0) {
		guide := fileGuide
		if s.test {
			guide = testGuide
		}
		if n := bytes.Count(s.text, []byte("\n")); n > guide {
			t.Logf("%s: %d lines (guide %d)", s.name, n, guide)
		}
		if s.test {
			continue
		}
		fset := s.fset
		ast.Inspect(s.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				lines := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
				lengths = append(lengths, lines)
				if lines > funcGuide {
					t.Logf("%s: %s has %d lines (guide %d)", fset.Position(n.Pos()), n.Name.Name, lines, funcGuide)
				}
			case *ast.InterfaceType:
				if k := n.Methods.NumFields(); k > methodGuide {
					t.Logf("%s: interface of %d methods (guide %d)", fset.Position(n.Pos()), k, methodGuide)
				}
			}
			return true
		})
	}
	if len(lengths) == 0 {
		t.Fatal("no functions found")
	}
	slices.Sort(lengths)
	t.Logf("%d functions: median %d lines, nine of ten within %d", len(lengths), lengths[len(lengths)/2], lengths[len(lengths)*9/10])
}

// generated is the file that make generate writes, and make lint compares.
const generated = "operator/api/v1alpha1/zz_generated.deepcopy.go"

// TestLimits fails for a package that is too large.
func TestLimits(t *testing.T) {
	rooms := map[string]*room{}
	for s := range sources(t, 0) {
		if s.name == generated {
			continue
		}
		dir := path.Dir(s.name)
		if rooms[dir] == nil {
			rooms[dir] = &room{methods: map[string][]string{}, interfaces: map[string]int{}, aliases: map[string]string{}}
		}
		if s.test {
			rooms[dir].sleeps += sleeps(s.File)
		} else {
			rooms[dir].add(s.File)
		}
	}
	left := exceptions(t)
	for _, dir := range slices.Sorted(maps.Keys(rooms)) {
		rooms[dir].check(t, dir, left)
	}
	for _, what := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("%s: its exception is not needed any more", what)
	}
}

// room counts the contents of one package.
type room struct {
	files      int
	exported   int                 // names of the package, and methods of its exported types
	methods    map[string][]string // by the type of the receiver, as it is written there
	interfaces map[string]int      // methods
	aliases    map[string]string   // to types of the package
	sleeps     int
}

func (r *room) add(file *ast.File) {
	r.files++
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				r.export(d.Name.Name)
			} else {
				on := base(d.Recv.List[0].Type)
				r.methods[on] = append(r.methods[on], d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					r.declare(s)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						r.export(name.Name)
					}
				}
			}
		}
	}
}

func (r *room) declare(s *ast.TypeSpec) {
	r.export(s.Name.Name)
	if to := base(s.Type); s.Assign.IsValid() && to != "" {
		r.aliases[s.Name.Name] = to
	}
	if i, ok := s.Type.(*ast.InterfaceType); ok {
		r.interfaces[s.Name.Name] = i.Methods.NumFields()
	}
}

func (r *room) export(name string) {
	if ast.IsExported(name) {
		r.exported++
	}
}

// byType counts methods, and exports those of exported types. Those whose receiver is an
// alias belong to its type.
func (r *room) byType() map[string]int {
	count := maps.Clone(r.interfaces)
	for on, names := range r.methods {
		for r.aliases[on] != "" {
			on = r.aliases[on]
		}
		count[on] += len(names)
		for _, name := range names {
			if ast.IsExported(on) {
				r.export(name)
			}
		}
	}
	return count
}

// base returns the name of a type of the package, without pointers and type arguments, or
// "".
func base(expr ast.Expr) string {
	for {
		switch x := expr.(type) {
		case *ast.ParenExpr:
			expr = x.X
		case *ast.StarExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// sleeps counts the calls of time.Sleep that take real time.
func sleeps(file *ast.File) int {
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

// The limits of a package: no more files than fileLimit, no more exported names than
// nameLimit, no type with more methods than methodLimit, and no test that sleeps. The rows
// of [larger] override them.
const fileLimit, nameLimit, methodLimit = 25, 80, 30

// check compares a package with the limits, and removes its rows from left.
func (r *room) check(t *testing.T, dir string, left map[string]int) {
	t.Helper()
	bound(t, left, dir+" files", r.files, fileLimit)
	methods := r.byType()
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		bound(t, left, dir+"."+name, methods[name], methodLimit)
	}
	bound(t, left, dir+" names", r.exported, nameLimit)
	bound(t, left, dir+" sleeps", r.sleeps, 0)
}

// bound fails if a count is over its limit, and is not that of its exception.
func bound(t *testing.T, left map[string]int, what string, n, limit int) {
	t.Helper()
	if n <= limit {
		return
	}
	exception, ok := left[what]
	delete(left, what)
	switch {
	case !ok:
		t.Errorf("%s: %d, at most %d", what, n, limit)
	case n > exception:
		t.Errorf("%s: %d, and its exception allows %d", what, n, exception)
	case n < exception:
		t.Errorf("%s: lower its exception to %d", what, n)
	}
}

// exceptions parses the rows for packages that are over a limit: what is counted, the
// maximum, and the reason.
func exceptions(t *testing.T) map[string]int {
	t.Helper()
	rows := map[string]int{}
	for line := range strings.Lines(larger) {
		line, _, _ = strings.Cut(line, ":")
		at := strings.LastIndex(line, " ")
		if at < 0 {
			continue
		}
		n, err := strconv.Atoi(line[at+1:])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rows[line[:at]] = n
	}
	return rows
}

// TestCommandsThin fails for a command with a long function. A command consists of flags,
// one call and text; longer code belongs into a package or a separate function.
func TestCommandsThin(t *testing.T) {
	const limit = 25
	commands := 0
	for s := range sources(t, 0) {
		if !within(s.name, "cmd") && !within(s.name, "instances/commands") {
			continue
		}
		fset := s.fset
		ast.Inspect(s.File, func(n ast.Node) bool {
			field, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			if key, ok := field.Key.(*ast.Ident); ok && key.Name == "RunE" {
				commands++
				if lines := fset.Position(field.End()).Line - fset.Position(field.Pos()).Line + 1; lines > limit {
					t.Errorf("%s: RunE has %d lines, at most %d", fset.Position(field.Pos()), lines, limit)
				}
			}
			return true
		})
	}
	if commands == 0 {
		t.Fatal("no command found")
	}
}
