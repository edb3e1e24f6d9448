// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestSizes prints what is larger than the guides; it never fails. Over a
// guide is a reason to look, not to split a table or a clear switch.
func TestSizes(t *testing.T) {
	const fileGuide, testGuide, funcGuide, methodGuide = 400, 600, 60, 3
	var lengths []int
	rooms := map[string]*room{}
	for _, name := range tracked(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		src, test := read(t, name), strings.HasSuffix(name, "_test.go")
		guide := fileGuide
		if test {
			guide = testGuide
		}
		if n := bytes.Count(src, []byte("\n")); n > guide {
			t.Logf("%s: %d lines (guide %d)", name, n, guide)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil || test {
			continue
		}
		dir := path.Dir(name)
		if rooms[dir] == nil {
			rooms[dir] = &room{methods: map[string]int{}}
		}
		rooms[dir].add(file)
		ast.Inspect(file, func(n ast.Node) bool {
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
	for _, dir := range slices.Sorted(maps.Keys(rooms)) {
		rooms[dir].print(t, dir)
	}
	if len(lengths) == 0 {
		t.Fatal("no functions found")
	}
	slices.Sort(lengths)
	t.Logf("%d functions: median %d lines, nine of ten within %d", len(lengths), lengths[len(lengths)/2], lengths[len(lengths)*9/10])
}

// room counts what one package holds.
type room struct {
	files    int
	exported int            // names of the package, and methods of its exported types
	methods  map[string]int // by type
}

func (r *room) add(file *ast.File) {
	r.files++
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			on := receiver(d)
			if on != "" {
				r.methods[on]++
			}
			r.export(d.Name.IsExported() && (on == "" || ast.IsExported(on)))
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					r.export(s.Name.IsExported())
				case *ast.ValueSpec:
					for _, name := range s.Names {
						r.export(name.IsExported())
					}
				}
			}
		}
	}
}

func (r *room) export(yes bool) {
	if yes {
		r.exported++
	}
}

// receiver names the type that a method is of, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	expr := d.Recv.List[0].Type
	for {
		switch x := expr.(type) {
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

// print names what is larger than the guides of a package. A command has a file
// of its own, and so has a kind of artifact.
func (r *room) print(t *testing.T, dir string) {
	const fileGuide, nameGuide, methodGuide = 25, 80, 30
	if r.files > fileGuide && dir != "cmd/okara" && dir != "oci/artifact" {
		t.Logf("%s: %d files (guide %d)", dir, r.files, fileGuide)
	}
	if r.exported > nameGuide {
		t.Logf("%s: %d exported names (guide %d)", dir, r.exported, nameGuide)
	}
	for _, name := range slices.Sorted(maps.Keys(r.methods)) {
		if n := r.methods[name]; n > methodGuide {
			t.Logf("%s: %s has %d methods (guide %d)", dir, name, n, methodGuide)
		}
	}
}

// TestCommandsThin fails on a command whose function is long: a command is flags,
// one call and text, and what is longer belongs to a package or beside it.
func TestCommandsThin(t *testing.T) {
	const limit = 25
	commands := 0
	for _, name := range tracked(t) {
		if !strings.HasPrefix(name, "cmd/") || !strings.HasSuffix(name, ".go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, read(t, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
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
