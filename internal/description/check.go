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
	"github.com/zclconf/go-cty/cty"
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

// Check finds what `tofu validate` would refuse in a module, with file, line and column, as far
// as this can be detected without providers. broken is what no client can load: syntax errors,
// unknown blocks, duplicate declarations, references to undeclared variables and local values.
// failing is what else fails at every init: reserved names, modules without source, count with
// for_each, defaults of a wrong type, invalid constraints, references to undeclared modules and
// resources. Local modules that it calls are checked too. A problem that cannot be detected from
// the text is not reported. Both errors wrap [ErrInvalid].
func (v *Module) Check(dir string) (broken, failing error) {
	var problems, late hcl.Diagnostics
	for _, at := range v.withCalled(len(v.all), v.Called(dir)...) {
		f := v.folderAt(at)
		problems = append(problems, f.problems...)
		late = append(late, f.failing...)
	}
	return invalidError(problems), invalidError(late)
}

func invalidError(problems hcl.Diagnostics) error {
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
	failing  hcl.Diagnostics
	merges   bool                       // an override file may complete a block
	partly   bool                       // a file was not read, so its declarations are unknown
	declared map[string]map[string]bool // names by the root of a reference: var, local, module, data, ephemeral, a type
	types    map[string]cty.Type        // of variables, by their text; cty.NilType: invalid
}

func (c *configuration) addFailing(at hcl.Range, summary, format string, args ...any) {
	c.failing = append(c.failing, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: &at})
}

// findProblems returns the problems of the files of a directory. A language block may be for a newer
// client than those known here: then unknown blocks do not count, and what may depend on them.
func findProblems(files []parsedFile) (broken, failing hcl.Diagnostics) {
	c := &configuration{types: map[string]cty.Type{}, declared: map[string]map[string]bool{"var": {}, "local": {}, "module": {}, "data": {}, "ephemeral": {}}}
	hasLanguage, isNewer := false, false
	for _, f := range files {
		c.addBroken(f.diags)
		c.addBroken(f.unknown)
		if f.content == nil {
			c.partly = true
			continue
		}
		c.files = append(c.files, f)
		c.merges = c.merges || f.override
		for _, b := range f.content.Blocks.OfType("language") {
			hasLanguage = true
			named, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "edition"}, {Name: "experiments"}}})
			for name, a := range named.Attributes {
				isNewer = isNewer || name == "experiments" || hcl.ExprAsKeyword(a.Expr) != "tofu2024"
			}
		}
	}
	isUnknown := func(d *hcl.Diagnostic) bool { return d.Summary == "Unsupported block type" }
	if isNewer = isNewer || slices.ContainsFunc(c.broken, isUnknown); hasLanguage && isNewer {
		return slices.DeleteFunc(c.broken, isUnknown), nil
	}
	c.recordDeclarations()
	if c.partly || len(c.broken) > 0 {
		return c.broken, nil
	}
	for _, f := range c.files {
		for _, b := range f.content.Blocks {
			c.checkArguments(b, f.Bytes)
			if body, ok := b.Body.(*hclsyntax.Body); ok {
				c.checkReferences(b.Type, body)
			}
		}
	}
	return c.broken, c.failing
}

// addBroken keeps the errors that have a position.
func (c *configuration) addBroken(diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Subject != nil {
			c.broken = append(c.broken, d)
		}
	}
}

// recordDeclarations records the variables and local values, and duplicates among them.
func (c *configuration) recordDeclarations() {
	first := map[string]hcl.Range{}
	once := func(f parsedFile, what, name string, at hcl.Range) {
		key := what + " " + name
		before, ok := first[key]
		switch {
		case ok && !f.override:
			c.broken = append(c.broken, &hcl.Diagnostic{
				Severity: hcl.DiagError, Summary: "Duplicate " + what, Subject: &at,
				Detail: fmt.Sprintf("%q is declared at %s:%d.", name, before.Filename, before.Start.Line),
			})
		case !f.override:
			first[key] = at
		case !ok && !c.partly:
			c.broken = append(c.broken, &hcl.Diagnostic{
				Severity: hcl.DiagError, Summary: "Missing " + what + " to override", Subject: &at,
				Detail: fmt.Sprintf("No other file than an override file declares %q.", name),
			})
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
				c.declareBlock(b)
			case "check":
				inner, _, _ := b.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "data", LabelNames: []string{"type", "name"}}}})
				for _, data := range inner.Blocks {
					c.declareBlock(data)
				}
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

// declareBlock records what expressions may refer to.
func (c *configuration) declareBlock(b *hcl.Block) {
	root, name := b.Type, strings.Join(b.Labels, ".")
	if b.Type == "resource" {
		root, name = b.Labels[0], b.Labels[1]
	}
	if c.declared[root] == nil {
		c.declared[root] = map[string]bool{}
	}
	c.declared[root][name] = true
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
		if b.Type == "dynamic" && c.declared[iteratorOf(b)] != nil {
			continue
		}
		c.walkBody(b.Body)
	}
}

// iteratorOf returns the name of the iterator of a dynamic block.
func iteratorOf(b *hclsyntax.Block) string {
	if a, ok := b.Body.Attributes["iterator"]; ok {
		return hcl.ExprAsKeyword(a.Expr)
	}
	return strings.Join(b.Labels, ".")
}

// checkReference looks up a reference. Of a type of resources that is not declared at all it is
// not known that it is one.
func (c *configuration) checkReference(t hcl.Traversal) {
	root := t.RootName()
	known, ok := c.declared[root]
	steps := 1
	if root == "data" || root == "ephemeral" {
		steps = 2
	}
	if !ok || len(t) <= steps {
		return
	}
	var names []string
	for _, step := range t[1 : steps+1] {
		name, ok := step.(hcl.TraverseAttr)
		if !ok {
			return
		}
		names = append(names, name.Name)
	}
	name := strings.Join(names, ".")
	if known[name] {
		return
	}
	what := map[string]string{"var": "input variable", "local": "local value", "module": "module", "data": "data source", "ephemeral": "ephemeral resource"}[root]
	c.addFailing(t.SourceRange(), "Reference to undeclared "+cmp.Or(what, "resource"), "%s.%s is not declared in this module.", root, name)
	if root == "var" || root == "local" {
		last := len(c.failing) - 1
		c.broken = append(c.broken, c.failing[last])
		c.failing = c.failing[:last]
	}
}
