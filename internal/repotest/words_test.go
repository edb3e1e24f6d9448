// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"unicode"
)

// TestDictionary refuses identifiers with words that are specific to this repository
// where there is an established term.
func TestDictionary(t *testing.T) {
	instead := wordTable(t, refused)
	for s := range sources(t, 0) {
		if s.test {
			continue
		}
		for _, id := range declared(s.File) {
			for _, word := range nameWords(id.Name) {
				if better, bad := instead[word]; bad {
					t.Errorf("%s: %s: %q is not a word of the field; write %s", s.fset.Position(id.Pos()), id.Name, word, better)
				}
			}
		}
	}
}

// TestCommentRoles refuses comments that do not name the role of a person: user, caller,
// administrator, publisher or holder. "nobody" may be the Unix user.
func TestCommentRoles(t *testing.T) {
	for s := range sources(t, parser.ParseComments) {
		for _, group := range s.File.Comments {
			for word := range strings.FieldsFuncSeq(group.Text(), func(r rune) bool { return !unicode.IsLetter(r) }) {
				if word := strings.ToLower(word); word == "somebody" || word == "anybody" || word == "everybody" {
					t.Errorf("%s: %q: name the role, such as user or caller", s.fset.Position(group.Pos()), word)
				}
			}
		}
	}
}

func TestNameWords(t *testing.T) {
	for name, want := range map[string]string{
		"ghostInfo": "ghost info", "maxID": "max id", "newHTTPClient": "new http client", "ReasonGhost": "reason ghost", "a_b": "a b", "x": "x",
	} {
		if got := strings.Join(nameWords(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// wordTable parses lines "KEY: TEXT".
func wordTable(t *testing.T, table string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(table)) {
		key, text, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || all[key] != "" {
			t.Fatalf("line %q: not KEY: TEXT, or there twice", line)
		}
		all[key] = text
	}
	return all
}

// declared lists the identifiers that a file declares.
func declared(file *ast.File) []*ast.Ident {
	var all []*ast.Ident
	ast.Inspect(file, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.FuncDecl:
			all = append(all, d.Name)
		case *ast.TypeSpec:
			all = append(all, d.Name)
		case *ast.ValueSpec:
			all = append(all, d.Names...)
		case *ast.Field:
			all = append(all, d.Names...)
		case *ast.AssignStmt:
			if d.Tok == token.DEFINE {
				all = append(all, identifiers(d.Lhs...)...)
			}
		case *ast.RangeStmt:
			if d.Tok == token.DEFINE {
				all = append(all, identifiers(d.Key, d.Value)...)
			}
		}
		return true
	})
	return all
}

func identifiers(list ...ast.Expr) []*ast.Ident {
	var all []*ast.Ident
	for _, e := range list {
		if id, ok := e.(*ast.Ident); ok {
			all = append(all, id)
		}
	}
	return all
}

// nameWords splits a camelCase name into its words, in lower case.
func nameWords(name string) []string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		first := unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if first || r == '_' {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return r == ' ' || r == '_' })
}
