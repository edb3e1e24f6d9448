// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// generated is the file that make generate writes, and make lint compares.
const generated = "operator/api/v1alpha1/zz_generated.deepcopy.go"

const licence = "// SPDX-License-Identifier: Apache-2.0\n"

// TestSource checks what each Go file must, and must not, contain, and words of pages.
func TestSource(t *testing.T) {
	for s := range sources(t, parser.ParseComments) {
		if s.name == generated {
			continue
		}
		if !bytes.HasPrefix(s.text, []byte(licence)) {
			t.Errorf("%s: the first line must be %q", s.name, strings.TrimSpace(licence))
		}
		check{t: t, fset: s.fset, test: s.test}.file(s.File)
	}
	pages := 0
	for _, name := range tracked(t) {
		if ok, _ := path.Match("templates/*.html", path.Join(path.Base(path.Dir(name)), path.Base(name))); !ok {
			continue
		}
		pages++
		if word := refusedWords.FindString(string(read(t, name))); word != "" {
			t.Errorf("%s: %q: see Texts in CONTRIBUTING.md", name, word)
		}
	}
	if pages == 0 {
		t.Error("no templates of pages found")
	}
}

// freeMuxes lists files with a multiplexer of no kit: metrics, health, test servers.
var freeMuxes = []string{"internal/server/listen.go", "operator/internal/portalserve/", "operator/internal/rig/", "instances/portaltest/", "internal/webtest/issuer.go", "internal/e2e/"}

// refusedWords are in no text of the program: they sound translated, or count one thing as many.
var refusedWords = regexp.MustCompile(`\b(looked at|taken for|there is no such|is there already|sealed (for|with|by)|in (the )?clear|` +
	`exclude each other|belongs? together|contradicts?|says how|no single|anew|is none of|all the same|can give you)\b|: want [A-Z]| beside |` +
	`["\x60]%d (versions|modules|providers|findings|repositories|changes|entries) `)

type check struct {
	t    *testing.T
	fset *token.FileSet
	test bool
}

func (c check) errorf(n ast.Node, format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("%s: "+format, append([]any{c.fset.Position(n.Pos())}, args...)...)
}

func (c check) file(f *ast.File) {
	for _, spec := range f.Imports {
		if spec.Name != nil && spec.Path.Value == `"time"` {
			c.errorf(spec, "time has no other name: rules look for its functions")
		}
	}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
			c.errorf(d, "no init functions: work at start hides in imports and cannot be passed options")
		}
	}
	if c.test {
		return
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			c.call(n)
		case *ast.BasicLit:
			if word := refusedWords.FindString(n.Value); word != "" {
				c.errorf(n, "%q: see Texts in CONTRIBUTING.md", word)
			}
		}
		return true
	})
}

func (c check) call(call *ast.CallExpr) {
	if belowTool(call) {
		c.errorf(call, "names in the folder of the tool of a run are the tool's after its first instruction: use the methods of sandbox.Workdir")
	}
	switch callee(call) {
	case "panic":
		if !aborts(call) && !strings.Contains(c.fset.Position(call.Pos()).Filename, "internal/must/") { // only tests import it
			c.errorf(call, "no panics outside tests: return an error")
		}
	case "errors.New", "fmt.Errorf":
		c.message(call)
	case "http.NewServeMux":
		if name := c.fset.Position(call.Pos()).Filename; !slices.ContainsFunc(freeMuxes, func(at string) bool { return strings.Contains(name, at) }) {
			c.errorf(call, "service.Kit.Mux makes multiplexers, so that each route is known and attacked by TestAttackRoutes")
		}
	case "os.MkdirTemp", "os.CreateTemp":
		c.temporary(call)
	case "hclsyntax.ParseConfig", "hclsyntax.ParseExpression", "hclsyntax.ParseTemplate", "hclwrite.ParseConfig":
		if name := c.fset.Position(call.Pos()).Filename; !strings.Contains(name, "internal/syntax/") && !strings.Contains(name, "internal/e2e/perf/") { // which parses its own
			c.errorf(call, "internal/syntax parses, with bounds: without them a file can end the process")
		}
	}
}

// belowTool reports whether a system call gets a path that a run's tool can replace.
func belowTool(call *ast.CallExpr) bool {
	pkg, _, ok := strings.Cut(callee(call), ".")
	if !ok || !slices.Contains([]string{"os", "filepath", "files", "archive", "unix", "syscall"}, pkg) {
		return false
	}
	found := false
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				x, _ := s.X.(*ast.Ident)
				part := x != nil && x.Name == "sandbox" && slices.Contains([]string{"Tool", "Given", "Temp", "Mount"}, s.Sel.Name)
				found = found || part || s.Sel.Name == "Inside"
			}
			return !found
		})
	}
	return found
}

// TestBelowTool checks which calls the rule refuses.
//
// Shows: platform-attacks 8
func TestBelowTool(t *testing.T) {
	for text, want := range map[string]bool{
		`os.ReadFile(string(c.dir.Inside("tool", "plan")))`: true,
		`filepath.Join(o.Scratch, "work", sandbox.Tool)`:    true,
		`files.Replace(string(dir.Inside())+"/x", nil, 0)`:  true,
		`filepath.Base(name)`:                               false,
		`path.Join(sandbox.Tool, name)`:                     false,
		`c.dir.Read(path.Join(sandbox.Tool, name), 1)`:      false,
	} {
		e := must.Get(parser.ParseExpr(text))(t)
		if got := belowTool(e.(*ast.CallExpr)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// temporary refuses calls whose files a kill would leave for good, but beside what they replace.
func (c check) temporary(call *ast.CallExpr) {
	name := c.fset.Position(call.Pos()).Filename
	if strings.Contains(name, "internal/files/") || strings.Contains(name, "internal/e2e/") {
		return
	}
	lit, literal := call.Args[0].(*ast.BasicLit)
	if callee(call) == "os.MkdirTemp" || literal && lit.Value == `""` {
		c.errorf(call, "internal/files makes temporary files and directories, of which a kill leaves nothing")
	}
}

// aborts recognises panic(http.ErrAbortHandler).
func aborts(call *ast.CallExpr) bool {
	sel, ok := call.Args[0].(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "ErrAbortHandler"
}

// message checks the style of an error message.
func (c check) message(call *ast.CallExpr) {
	if len(call.Args) == 0 {
		return
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return
	}
	if strings.HasPrefix(text, "failed to") || strings.HasPrefix(text, "unable to") || strings.HasPrefix(text, "error ") {
		c.errorf(call, "error text %q: say what was done with what, an error says by itself that it failed", text)
	}
	if strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "...") {
		c.errorf(call, "error text %q ends with a period", text)
	}
}

// callee returns the function of a call as it is written: "panic", "errors.New".
func callee(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// TestNoMachinePaths keeps absolute paths of development machines out of the tree.
func TestNoMachinePaths(t *testing.T) {
	self := filepath.ToSlash("internal/repotest/source_test.go")
	here := must.Get(filepath.Abs("../.."))(t)
	for _, name := range tracked(t) {
		if name == self || name == "LICENSE" {
			continue
		}
		src := read(t, name)
		for _, bad := range []string{here + "/", "/root/", "C:\\Users\\"} {
			if before, _, ok := bytes.Cut(src, []byte(bad)); ok {
				t.Errorf("%s:%d: %q is a path of one machine", name, 1+bytes.Count(before, []byte("\n")), bad)
			}
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join("../..", name)))(t)
}
