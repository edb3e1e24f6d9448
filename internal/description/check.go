// SPDX-License-Identifier: Apache-2.0

package description

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// ErrInvalid means that clients cannot load a configuration.
var ErrInvalid = errors.New("the configuration is not valid")

// maxProblems bounds the number of problems in one error.
const maxProblems = 20

// fileSchema returns the top-level blocks of OpenTofu and of Terraform, so that
// blocks that only one of them supports are accepted.
func fileSchema() *hcl.BodySchema {
	name := []string{"name"}
	typed := []string{"type", "name"}
	return &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "language"}, {Type: "terraform"}, {Type: "locals"}, {Type: "moved"}, {Type: "import"}, {Type: "removed"},
		{Type: "provider", LabelNames: name}, {Type: "variable", LabelNames: name}, {Type: "output", LabelNames: name},
		{Type: "module", LabelNames: name}, {Type: "check", LabelNames: name}, {Type: "resource", LabelNames: typed},
		{Type: "data", LabelNames: typed}, {Type: "ephemeral", LabelNames: typed}, {Type: "action", LabelNames: typed},
	}}
}

// Check refuses a module that `tofu validate` would refuse, with file, line and
// column, as far as this can be detected without providers: syntax errors,
// unknown blocks, duplicate declarations, and references to undeclared
// variables and local values. Local modules that it calls are checked too. A
// problem that cannot be detected from the text is not reported. The error
// wraps [ErrInvalid].
func (v *Module) Check(dir string) error {
	var problems hcl.Diagnostics
	seen := map[string]bool{}
	queue := v.Called(dir)
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if seen[at] {
			continue
		}
		seen[at] = true
		if f, ok := v.folders[at]; ok {
			problems = append(problems, f.problems...)
		}
		m, _ := v.load(at)
		for _, call := range m.ModuleCalls {
			queue = append(queue, v.calledFolders(at, call.Source)...)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b *hcl.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Subject.Filename, b.Subject.Filename), cmp.Compare(a.Subject.Start.Line, b.Subject.Start.Line), cmp.Compare(a.Subject.Start.Column, b.Subject.Start.Column))
	})
	var text strings.Builder
	for i, p := range problems {
		if i == maxProblems {
			fmt.Fprintf(&text, "\nand %d more", len(problems)-i)
			break
		}
		fmt.Fprintf(&text, "\n%s:%d:%d: %s", p.Subject.Filename, p.Subject.Start.Line, p.Subject.Start.Column, p.Summary)
		if p.Detail != "" {
			text.WriteString(": " + strings.Join(strings.Fields(p.Detail), " "))
		}
	}
	return fmt.Errorf("%w:%s", ErrInvalid, &text)
}

// configuration is the parsed files of one directory.
type configuration struct {
	files    []parsedFile
	broken   hcl.Diagnostics
	declared map[string]map[string]bool
}

// findProblems returns the problems of the files of a directory. If one names its language
// version, it may be for a newer client than those known here, so only syntax
// errors count.
func findProblems(files []parsedFile) hcl.Diagnostics {
	c := &configuration{declared: map[string]map[string]bool{"var": {}, "local": {}}}
	partly, language := false, false // partly: a file was not read, so its declarations are unknown
	for _, f := range files {
		c.addBroken(f.diags)
		c.addBroken(f.unknown)
		if f.content == nil {
			partly = true
			continue
		}
		c.files = append(c.files, f)
		language = language || len(f.content.Blocks.OfType("language")) > 0
	}
	if language {
		return slices.DeleteFunc(c.broken, func(d *hcl.Diagnostic) bool { return d.Summary == "Unsupported block type" })
	}
	c.recordDeclarations()
	if partly || len(c.broken) > 0 {
		return c.broken
	}
	for _, f := range c.files {
		for _, b := range f.content.Blocks {
			if body, ok := b.Body.(*hclsyntax.Body); ok {
				c.checkReferences(b.Type, body)
			}
		}
	}
	return c.broken
}

// addBroken keeps the errors that have a position.
func (c *configuration) addBroken(diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Subject != nil {
			c.broken = append(c.broken, d)
		}
	}
}

// recordDeclarations records the variables and local values, and duplicates among
// them.
func (c *configuration) recordDeclarations() {
	first := map[string]hcl.Range{}
	once := func(f parsedFile, what, name string, at hcl.Range) {
		key := what + " " + name
		if before, ok := first[key]; ok && !f.override {
			c.broken = append(c.broken, &hcl.Diagnostic{
				Severity: hcl.DiagError, Summary: "Duplicate " + what, Subject: &at,
				Detail: fmt.Sprintf("%q is declared at %s:%d.", name, before.Filename, before.Start.Line),
			})
		} else if !f.override {
			first[key] = at
		}
	}
	for _, f := range c.files {
		for _, b := range f.content.Blocks {
			switch b.Type {
			case "variable":
				c.declared["var"][b.Labels[0]] = true
				once(f, b.Type, b.Labels[0], b.DefRange)
			case "output", "module", "resource", "data", "ephemeral":
				once(f, b.Type, strings.Join(b.Labels, "."), b.DefRange)
			case "locals":
				attributes, _ := b.Body.JustAttributes()
				for _, name := range slices.Sorted(maps.Keys(attributes)) {
					c.declared["local"][name] = true
					once(f, "local value", name, attributes[name].NameRange)
				}
			}
		}
	}
}

// checkReferences looks for undeclared variables and local values in the blocks of a
// type where the names can only mean those.
func (c *configuration) checkReferences(kind string, body *hclsyntax.Body) {
	switch kind {
	case "locals", "output", "module", "resource", "data", "ephemeral", "provider", "check":
		c.walkBody(body)
	case "variable": // its own arguments are no expressions
		for _, b := range body.Blocks {
			c.walkBody(b.Body)
		}
	}
}

func (c *configuration) walkBody(body *hclsyntax.Body) {
	for _, a := range body.Attributes {
		switch a.Name {
		case "provider", "providers", "ignore_changes", "iterator":
			continue // the names mean something else there: a provider may be called local, an attribute var
		}
		for _, t := range a.Expr.Variables() {
			c.checkReference(t)
		}
	}
	for _, b := range body.Blocks {
		if b.Type == "dynamic" && namesIterator(b) {
			continue
		}
		c.walkBody(b.Body)
	}
}

// namesIterator reports whether a dynamic block names its iterator var or local.
func namesIterator(b *hclsyntax.Block) bool {
	name := strings.Join(b.Labels, ".")
	if a, ok := b.Body.Attributes["iterator"]; ok {
		name = hcl.ExprAsKeyword(a.Expr)
	}
	return name == "var" || name == "local"
}

func (c *configuration) checkReference(t hcl.Traversal) {
	known, ok := c.declared[t.RootName()]
	if !ok || len(t) < 2 {
		return
	}
	name, ok := t[1].(hcl.TraverseAttr)
	if !ok || known[name.Name] {
		return
	}
	what := map[string]string{"var": "input variable", "local": "local value"}[t.RootName()]
	at := t.SourceRange()
	c.broken = append(c.broken, &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "Reference to undeclared " + what, Subject: &at,
		Detail: fmt.Sprintf("%s.%s is not declared in this module.", t.RootName(), name.Name),
	})
}
