// SPDX-License-Identifier: Apache-2.0

package description

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/seed-141914ff/okara/internal/syntax"
)

// maxSource bounds the bytes of a source that is computed, and of each variable in it.
const maxSource = 512

// isDynamic reports whether a source that may be a local folder depends on variables or local
// values (OpenTofu 1.8, Terraform 1.15). It is described as a template: ./kinds/${var.kind}.
func isDynamic(source string) bool {
	constant, _, dynamic := strings.Cut(source, "${")
	return dynamic && (constant == "" || constant[0] == '.')
}

// readCall writes the expressions in a call as templates. The parser returns their text as it
// is, with quotes.
func (f *folder) readCall(b *hcl.Block) {
	call := f.module.ModuleCalls[b.Labels[0]]
	if call == nil { // an override of none
		return
	}
	for name, to := range map[string]*string{"source": &call.Source, "version": &call.Version} {
		if a, ok := attributesOf(b)[name]; !ok || len(a.Expr.Variables()) == 0 {
			continue
		}
		inner, quoted := strings.CutPrefix(*to, `"`)
		if *to = strings.TrimSuffix(inner, `"`); !quoted {
			*to = "${" + inner + "}"
		}
	}
}

// calledFolders returns the directories of a package that a call may load, or the one that
// it lacks. It returns nil for modules from elsewhere.
func (v *Module) calledFolders(dir, source string) []string {
	if !strings.HasPrefix(source, "./") && !strings.HasPrefix(source, "../") {
		return nil
	}
	constant, _, dynamic := strings.Cut(source, "${")
	if !dynamic {
		return []string{path.Join(dir, source)}
	}
	above, start := path.Split(constant)
	above = path.Join(dir, above)
	var found []string
	for at := range v.dirs {
		if at != dir && strings.HasPrefix(at, strings.TrimPrefix(above+"/", "./")+start) {
			found = append(found, at)
		}
	}
	if len(found) == 0 || !fs.ValidPath(above) {
		return []string{above}
	}
	slices.Sort(found)
	return found
}

// computeSource returns the source that `tofu init` chooses in the root module if nothing but
// defaults, local values and .tfvars files says what the variables are.
func (v *Module) computeSource(source string) (string, bool) {
	expression, diags := syntax.ParseTemplate(source, "source")
	if diags.HasErrors() || len(source) > maxSource {
		return "", false
	}
	return evaluateText(expression, v.rootValues())
}

// rootValues returns what is known of the root module: variables that are text, and local values
// that depend on nothing else. Their number and their sizes bound the cost of using them.
func (v *Module) rootValues() *hcl.EvalContext {
	variables, locals := map[string]cty.Value{}, map[string]cty.Value{}
	use := func(name string, e hcl.Expression) {
		if text, ok := evaluateText(e, nil); ok && len(text) <= maxSource {
			variables[name] = cty.StringVal(text)
		} else {
			delete(variables, name)
		}
	}
	var declared []*hcl.Attribute
	for _, name := range v.dirs["."] {
		p, _ := v.parse(name)
		if p.content == nil {
			continue
		}
		for _, b := range p.content.Blocks {
			if initial, ok := attributesOf(b)["default"]; ok && b.Type == "variable" {
				use(b.Labels[0], initial.Expr)
			}
			if b.Type == "locals" {
				attributes, _ := b.Body.JustAttributes()
				declared = slices.AppendSeq(declared, maps.Values(attributes))
			}
		}
	}
	native, _ := fs.Glob(v.tree, "*.auto.tfvars")
	inJSON, _ := fs.Glob(v.tree, "*.auto.tfvars.json")
	given := append([]string{"terraform.tfvars", "terraform.tfvars.json"}, slices.Sorted(slices.Values(append(native, inJSON...)))...)
	for _, name := range given {
		if file, _, err := v.parseSource(name); err == nil && file != nil {
			attributes, _ := file.Body.JustAttributes()
			for _, a := range attributes {
				use(a.Name, a.Expr)
			}
		}
	}
	known := &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(variables)}}
	for _, a := range declared {
		if value, ok := evaluateExpression(a.Expr, known); ok {
			locals[a.Name] = value
		}
	}
	return &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(variables), "local": cty.ObjectVal(locals)}}
}

// evaluateExpression computes a value whose expression is short.
func evaluateExpression(e hcl.Expression, known *hcl.EvalContext) (cty.Value, bool) {
	native, ok := e.(hclsyntax.Expression)
	at := e.Range()
	if ok && syntax.CheckValue(native) != nil || !ok && len(e.Variables()) > 0 || at.End.Byte-at.Start.Byte > maxCondition {
		return cty.NilVal, false
	}
	value, diags := e.Value(known)
	return value, !diags.HasErrors()
}

func evaluateText(e hcl.Expression, known *hcl.EvalContext) (string, bool) {
	value, ok := evaluateExpression(e, known)
	if !ok {
		return "", false
	}
	value, err := convert.Convert(value, cty.String)
	if err != nil || !value.IsKnown() || value.IsNull() || value.IsMarked() {
		return "", false
	}
	return value.AsString(), true
}
