// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestSizes prints what is larger than the guides; it never fails. Over a
// guide is a reason to look, not to split a table or a clear switch.
func TestSizes(t *testing.T) {
	const fileGuide, testGuide, funcGuide, methodGuide = 400, 600, 60, 3
	var lengths []int
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
	if len(lengths) == 0 {
		t.Fatal("no functions found")
	}
	slices.Sort(lengths)
	t.Logf("%d functions: median %d lines, nine of ten within %d", len(lengths), lengths[len(lengths)/2], lengths[len(lengths)*9/10])
}
