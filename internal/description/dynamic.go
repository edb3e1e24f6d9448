// SPDX-License-Identifier: Apache-2.0

package description

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"

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

// scope is where the values are from that a source may depend on: in the root module defaults, local
// values and .tfvars files, in a module that it calls the arguments of the call.
type scope struct {
	view  *Module
	dir   string
	in    *scope                    // of the caller; nil: the root module
	call  string                    // its name there
	of    map[string]hcl.Expression // read at the first use: "default.NAME", "given.NAME", "local.NAME", "module.CALL.ARGUMENT"
	known map[string]cty.Value      // cty.NilVal: it cannot be computed
}

// readFiles reads the folder again, override files last, as its syntax trees were dropped.
func (s *scope) readFiles() {
	if s.of != nil {
		return
	}
	s.of, s.known = s.view.values[s.dir], map[string]cty.Value{}
	if s.of != nil { // called a second time
		return
	}
	s.of = map[string]hcl.Expression{}
	s.view.values[s.dir] = s.of
	keep := func(prefix string, all hcl.Attributes) {
		for name, a := range all {
			s.of[prefix+name] = a.Expr
		}
	}
	for _, name := range s.view.folderAt(s.dir).files {
		p, _ := s.view.parse(name)
		if p.content == nil {
			continue
		}
		for _, b := range p.content.Blocks {
			attributes, _ := b.Body.JustAttributes()
			switch b.Type {
			case "variable":
				for _, name := range []string{"default", "type"} {
					if a := attributes[name]; a != nil {
						s.of[name+"."+b.Labels[0]] = a.Expr
					}
				}
			case "locals":
				keep("local.", attributes)
			case "module":
				keep("module."+b.Labels[0]+".", attributes)
			}
		}
	}
	if s.in != nil {
		return
	}
	native, _ := fs.Glob(s.view.tree, "*.auto.tfvars")
	inJSON, _ := fs.Glob(s.view.tree, "*.auto.tfvars.json")
	given := append([]string{"terraform.tfvars", "terraform.tfvars.json"}, slices.Sorted(slices.Values(append(native, inJSON...)))...)
	for _, name := range given {
		if file, _, err := s.view.parseSource(name); err == nil && file != nil {
			attributes, _ := file.Body.JustAttributes()
			keep("given.", attributes)
		}
	}
}

// computeText computes a source, as a template; false: it depends on more than is known.
func (s *scope) computeText(source string) (string, bool) {
	expression, diags := syntax.ParseTemplate(source, "source")
	if diags.HasErrors() || len(source) > maxSource {
		return "", false
	}
	value := s.computeValue(expression)
	if value == cty.NilVal {
		return "", false
	}
	value, err := convert.Convert(value, cty.String)
	if err != nil || value.IsNull() {
		return "", false
	}
	return value.AsString(), true
}

// computeValue returns a value whose expression is short, as its result is; cty.NilVal: it cannot.
func (s *scope) computeValue(e hcl.Expression) cty.Value {
	if e == nil {
		return cty.NilVal
	}
	values := map[string]map[string]cty.Value{"var": {}, "local": {}}
	for _, t := range e.Variables() {
		if len(t) < 2 || values[t.RootName()] == nil {
			return cty.NilVal
		}
		step, _ := t[1].(hcl.TraverseAttr)
		value := s.valueOf(t.RootName(), step.Name)
		if value == cty.NilVal {
			return cty.NilVal
		}
		values[t.RootName()][step.Name] = value
	}
	context := &hcl.EvalContext{Functions: shortFunctions(), Variables: map[string]cty.Value{"var": cty.ObjectVal(values["var"]), "local": cty.ObjectVal(values["local"])}}
	value, ok := evaluateExpression(e, context)
	if !ok || !value.IsWhollyKnown() || value.ContainsMarked() {
		return cty.NilVal
	}
	if b, err := ctyjson.Marshal(value, value.Type()); err != nil || len(b) > maxCondition {
		return cty.NilVal
	}
	return value
}

// valueOf returns a variable or a local value, each computed once; one that depends on itself is unknown.
func (s *scope) valueOf(root, name string) cty.Value {
	s.readFiles()
	key := root + "." + name
	if value, ok := s.known[key]; ok {
		return value
	}
	s.known[key] = cty.NilVal
	if len(s.known) > maxCondition {
		return cty.NilVal
	}
	from, e := s, s.of[key]
	if root == "var" && s.in != nil {
		s.in.readFiles()
		from, e = s.in, s.in.of["module."+s.call+"."+name]
	} else if root == "var" {
		e = s.of["given."+name]
	}
	if e == nil && root == "var" {
		from, e = s, s.of["default."+name]
	}
	value := from.computeValue(e)
	if kind := s.of["type."+name]; root == "var" && kind != nil && value != cty.NilVal {
		value = asType(value, kind)
	}
	s.known[key] = value
	return value
}

// asType returns a value as a variable of a type has it; cty.NilVal: it cannot be one.
func asType(value cty.Value, kind hcl.Expression) cty.Value {
	want, defaults, diags := typeexpr.TypeConstraintWithDefaults(kind)
	if at := kind.Range(); diags.HasErrors() || at.End.Byte-at.Start.Byte > maxCondition { // its defaults are repeated
		return cty.NilVal
	}
	if defaults != nil && !value.IsNull() {
		value = defaults.Apply(value)
	}
	value, err := convert.Convert(value, want)
	if err != nil {
		return cty.NilVal
	}
	return value
}

// shortFunctions are those whose result is no longer than what they are given.
func shortFunctions() map[string]function.Function {
	return map[string]function.Function{
		"coalesce": stdlib.CoalesceFunc, "element": stdlib.ElementFunc, "lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc, "merge": stdlib.MergeFunc,
		"title": stdlib.TitleFunc, "tostring": stdlib.MakeToFunc(cty.String), "trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc,
		"trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,
	}
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
