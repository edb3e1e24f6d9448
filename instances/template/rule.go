// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/seed-141914ff/okara/internal/syntax"
)

// The validation blocks of a module are checked before a run where their values are known and their
// functions cannot amplify them; the tool checks the rest.

// maxRuleSteps bounds the loops of a condition, by size and number of its values.
const maxRuleSteps = 200_000

// ruleName is the name with which conditions refer to variables.
const ruleName = "var"

// rule is a validation block of a variable that is a parameter.
type rule struct {
	of        string // the parameter
	condition hclsyntax.Expression
	message   hclsyntax.Expression
	loops     int
	size      int
}

// ruleInput is an input that a condition may use.
type ruleInput struct {
	kind     cty.Type
	defaults *typeexpr.Defaults
	value    json.RawMessage // nil: that of the parameter
}

// readRules reads the rules of the parameters; what cannot be computed is left out.
func (b *schemaBuilder) readRules() {
	b.s.inputs = map[string]ruleInput{}
	for name, property := range b.properties {
		_, isParameter := b.s.parameters[name]
		_, isSet := b.inputs[name]
		in, ok := newRuleInput(property)
		if !ok {
			continue
		}
		if value, ok := property["default"]; ok && !isParameter {
			in.value, _ = encodeJSON(value) // decoded before, so it can be encoded
		}
		if isParameter || !isSet && in.value != nil && (b.template.Schedule == nil || b.template.Schedule.Variable != name) {
			b.s.inputs[name] = in
		}
	}
	for _, p := range b.template.Parameters {
		for _, written := range listOf(b.properties[p.Name]["x-okara-validation"]) {
			texts, _ := written.(map[string]any)
			condition, _ := texts["condition"].(string)
			message, _ := texts["error_message"].(string)
			if r, ok := b.s.readRule(condition, message); ok {
				r.of = p.Name
				b.s.rules = append(b.s.rules, r)
			}
		}
	}
}

// newRuleInput reads the type of an input; false: it cannot be read.
func newRuleInput(property map[string]any) (in ruleInput, ok bool) {
	in.kind = cty.DynamicPseudoType
	written, ok := property["x-okara-type"].(string)
	if !ok {
		return in, true
	}
	expr, diags := syntax.ParseExpression(written, "type")
	if diags.HasErrors() {
		return in, false
	}
	in.kind, in.defaults, diags = typeexpr.TypeConstraintWithDefaults(expr)
	return in, !diags.HasErrors()
}

func (s *Schema) readRule(condition, message string) (r rule, ok bool) {
	if len(condition)+len(message) > 2*maxExpression {
		return r, false
	}
	var diags, more hcl.Diagnostics
	r.condition, diags = syntax.ParseExpression(condition+"\n", "condition")
	r.message, more = syntax.ParseExpression(message+"\n", "error_message")
	if diags.HasErrors() || more.HasErrors() || syntax.CheckValue(r.condition) != nil || syntax.CheckValue(r.message) != nil {
		return r, false
	}
	r.size = len(condition)
	functions := ruleFunctions()
	known := true
	_ = hclsyntax.VisitAll(r.condition, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.ForExpr:
			r.loops++
		case *hclsyntax.FunctionCallExpr:
			_, has := functions[n.Name]
			known = known && has
		}
		return nil
	})
	for _, t := range r.condition.Variables() {
		_, has := s.inputs[secondName(t)]
		known = known && has && t.RootName() == ruleName
	}
	return r, known
}

func (s *Schema) checkRules(values map[string]json.RawMessage) error {
	var problems []error
	for _, r := range s.rules {
		if hasProblem(problems, r.of) {
			continue
		}
		context, size, secret := s.ruleContext(r.condition, values)
		if context == nil || r.loops > 0 && math.Pow(float64(r.size+size), float64(r.loops)) > maxRuleSteps {
			continue
		}
		result, diags := r.condition.Value(context)
		if diags.HasErrors() || !result.IsWhollyKnown() {
			continue
		}
		holds, err := convert.Convert(result, cty.Bool)
		if err != nil || holds.IsNull() || holds.True() {
			continue
		}
		problems = append(problems, &FieldError{jsonPointer(r.of), s.ruleRefusal(r, values, secret)})
	}
	return errors.Join(problems...)
}

func hasProblem(problems []error, name string) bool {
	return slices.ContainsFunc(problems, func(err error) bool {
		e, ok := errors.AsType[*FieldError](err)
		return ok && e.Path == jsonPointer(name)
	})
}

// ruleRefusal is the error for a refused value, with the module's message unless it may be secret.
func (s *Schema) ruleRefusal(r rule, values map[string]json.RawMessage, secret bool) string {
	context, _, said := s.ruleContext(r.message, values)
	if context == nil || secret || said {
		return "does not meet a validation rule of the module"
	}
	message, diags := r.message.Value(context)
	if diags.HasErrors() || message.Type() != cty.String || message.IsNull() || !message.IsKnown() || len(message.AsString()) > maxResult {
		return "does not meet a validation rule of the module"
	}
	return "is rejected by the module: " + strings.TrimRight(strings.TrimSpace(message.AsString()), ".")
}

// ruleContext returns the values that an expression uses, with their size as JSON, and whether
// one is secret; nil: one is not known.
func (s *Schema) ruleContext(e hclsyntax.Expression, given map[string]json.RawMessage) (context *hcl.EvalContext, size int, secret bool) {
	used := map[string]cty.Value{}
	for _, t := range e.Variables() {
		name := secondName(t)
		in, ok := s.inputs[name]
		raw := in.value
		if raw == nil {
			raw = given[name]
		}
		if t.RootName() != ruleName || !ok || raw == nil || len(raw) > MaxParameters {
			return nil, 0, false
		}
		v, err := in.convertValue(raw)
		if err != nil {
			return nil, 0, false
		}
		if _, twice := used[name]; !twice {
			size += len(raw)
		}
		used[name] = v
		secret = secret || s.sensitive[name]
	}
	return &hcl.EvalContext{Variables: map[string]cty.Value{ruleName: cty.ObjectVal(used)}, Functions: ruleFunctions()}, size, secret
}

// convertValue returns a value in the type of its variable, with the defaults of attributes.
func (in ruleInput) convertValue(raw json.RawMessage) (cty.Value, error) {
	all, err := valuesObject(map[string]json.RawMessage{"v": raw})
	if err != nil {
		return cty.NilVal, err
	}
	v := all.GetAttr("v")
	if in.defaults != nil && !v.IsNull() {
		v = in.defaults.Apply(v)
	}
	return convert.Convert(v, in.kind)
}

// ruleFunctions are the tools' functions whose results are no larger than their arguments.
func ruleFunctions() map[string]function.Function {
	all := map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "can": tryfunc.CanFunc, "ceil": stdlib.CeilFunc, "coalesce": stdlib.CoalesceFunc, "compact": stdlib.CompactFunc,
		"contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "floor": stdlib.FloorFunc,
		"keys": stdlib.KeysFunc, "lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc,
		"regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc, "split": stdlib.SplitFunc, "substr": stdlib.SubstrFunc,
		"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)), "tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"tonumber": stdlib.MakeToFunc(cty.Number), "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), "tostring": stdlib.MakeToFunc(cty.String),
		"trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "try": tryfunc.TryFunc,
		"upper": stdlib.UpperFunc, "values": stdlib.ValuesFunc,
	}
	maps.Copy(all, map[string]function.Function{
		"length": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType}}, Type: function.StaticReturnType(cty.Number),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				if args[0].Type() == cty.String {
					return stdlib.Strlen(args[0])
				}
				if args[0].Type().IsObjectType() || args[0].Type().IsTupleType() {
					return cty.NumberIntVal(int64(args[0].LengthInt())), nil
				}
				return stdlib.Length(args[0])
			},
		}),
		"startswith": prefixFunction(strings.HasPrefix),
		"endswith":   prefixFunction(strings.HasSuffix),
		"alltrue":    truthFunction(false),
		"anytrue":    truthFunction(true),
	})
	return all
}

func prefixFunction(has func(s, part string) bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}, {Name: "part", Type: cty.String}}, Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(has(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// truthFunction is anytrue, or alltrue if any is false.
func truthFunction(any bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}}, Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			has := slices.ContainsFunc(args[0].AsValueSlice(), func(v cty.Value) bool { return (!v.IsNull() && v.True()) == any })
			return cty.BoolVal(has == any), nil
		},
	})
}
