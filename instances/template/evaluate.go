// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// evaluator computes expressions.
type evaluator struct {
	context hcl.EvalContext
}

// evaluateExpr computes an expression within maxValue, and [boundFunction] for functions.
func (v *evaluator) evaluateExpr(e hclsyntax.Expression) (cty.Value, error) {
	switch e := e.(type) {
	case *hclsyntax.TemplateWrapExpr:
		return v.evaluateExpr(e.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return v.evaluateExpr(e.Expression)
	case *hclsyntax.ConditionalExpr: // the types of its results may differ
		val, err := v.evaluateExpr(e.Condition)
		if err != nil {
			return cty.NilVal, err
		}
		yes, err := convert.Convert(val, cty.Bool)
		if err != nil || yes.IsNull() {
			return cty.NilVal, errors.New("a condition is neither true nor false")
		}
		if yes.True() {
			return v.evaluateExpr(e.TrueResult)
		}
		return v.evaluateExpr(e.FalseResult)
	}
	total := 0
	_ = hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics { // the function returns none
		switch n := n.(type) {
		case *hclsyntax.LiteralValueExpr:
			total += valueSize(n.Val)
		case *hclsyntax.ScopeTraversalExpr:
			if val, diags := n.Traversal.TraverseAbs(&v.context); !diags.HasErrors() {
				total += valueSize(val)
			}
		}
		return nil
	})
	if total > maxValue {
		return cty.NilVal, fmt.Errorf("values of %d bytes, the limit is %d", total, maxValue)
	}
	val, diags := e.Value(&v.context)
	if diags.HasErrors() {
		return cty.NilVal, firstError(diags)
	}
	if n := valueSize(val); n > maxValue {
		return cty.NilVal, fmt.Errorf("a value of %d bytes, the limit is %d", n, maxValue)
	}
	return val, nil
}

// joinParts joins a template's parts. change, if set, may replace one, knowing the text before.
func (v *evaluator) joinParts(parts []hclsyntax.Expression, change func(before, text string, part hclsyntax.Expression) (string, error)) (string, error) {
	var b strings.Builder
	for _, part := range parts {
		val, err := v.evaluateExpr(part)
		if err != nil {
			return "", err
		}
		text, err := asText(val)
		if err != nil {
			return "", err
		}
		if _, written := part.(*hclsyntax.LiteralValueExpr); !written && change != nil {
			if text, err = change(b.String(), text, part); err != nil {
				return "", err
			}
		}
		if b.Len()+len(text) > maxValue {
			return "", fmt.Errorf("a string of more than %d bytes", maxValue)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func asText(v cty.Value) (string, error) {
	if v.IsNull() {
		return "", errors.New("null cannot be part of a string")
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		return "", errors.New("only strings, numbers and booleans can be part of a string")
	}
	return s.AsString(), nil
}

// valueSize estimates how many bytes a value takes as text.
func valueSize(v cty.Value) int {
	switch {
	case v == cty.NilVal || v.IsNull() || !v.IsKnown():
		return 4
	case v.Type() == cty.String:
		return len(v.AsString())
	case v.Type() == cty.Number:
		exponent := v.AsBigFloat().MantExp(nil) // in powers of two
		return 32 + max(exponent, -exponent)/3
	case v.CanIterateElements():
		n := 2
		for key, element := range v.Elements() {
			n += 4 + valueSize(element)
			if key.Type() == cty.String {
				n += len(key.AsString())
			}
		}
		return n
	}
	return 8
}

func (s Scope) variables(t *Template) (map[string]cty.Value, error) {
	parameters, err := valuesObject(s.Parameters)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	outputs, err := valuesObject(s.Outputs)
	if err != nil {
		return nil, fmt.Errorf("outputs: %w", err)
	}
	return map[string]cty.Value{
		nameID:         cty.StringVal(s.ID),
		nameTemplate:   cty.StringVal(t.Name),
		nameOwner:      textsObject(map[string]string{"kind": s.Owner.Kind, "id": s.Owner.ID, "label": s.Owner.Label}),
		nameParameters: parameters,
		nameClaims:     textsObject(s.Claims),
		nameConfig:     textsObject(s.Config),
		nameOutputs:    outputs,
	}, nil
}

func textsObject(m map[string]string) cty.Value {
	out := map[string]cty.Value{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out[key] = cty.StringVal(m[key])
	}
	return cty.ObjectVal(out)
}

// readExpressions reads inputs and connection, whose strings are templates in both syntaxes.
func (r *templateReader) readExpressions(t *Template, b templateBlock) {
	if b.Inputs != nil {
		if pairs, diags := hcl.ExprMap(b.Inputs.Expr); diags.HasErrors() {
			r.failAt(b.Inputs.Range, "inputs must be an object with the inputs of the module and their values")
		} else if raw, err := encodeJSON(r.object(pairs)); err != nil {
			r.failAt(b.Inputs.Range, "inputs: %v", err)
		} else if len(pairs) > 0 {
			t.Inputs = raw
		}
	}
	c := b.Connection
	if c == nil {
		return
	}
	r.names.outputs = append([]string{}, t.Outputs...)
	t.Connection = &Connection{Type: ConnectionInstructions}
	if c.URL != nil {
		t.Connection.Type = ConnectionWeb
		t.Connection.URL = r.readText(c.URL)
		if tree, err := parseTree(t.Connection.URL); err == nil {
			if err := checkURLTemplate(tree); err != nil {
				r.failAt(c.URL.Range, "url: %v", err)
			}
		}
	}
	if c.Message != nil {
		t.Connection.Message = r.readText(c.Message)
	}
	t.Connection.Type = valueOr(c.Type, t.Connection.Type)
}

func (r *templateReader) readText(a *hcl.Attribute) string {
	s, ok := r.convertExpression(a.Expr).(string)
	if !ok || s == "" {
		r.failAt(a.Range, "%s must be a string", a.Name)
	}
	return s
}

func (r *templateReader) object(pairs []hcl.KeyValuePair) map[string]any {
	out := map[string]any{}
	for _, pair := range pairs {
		key, diags := pair.Key.Value(nil)
		if diags.HasErrors() || key.Type() != cty.String || key.IsNull() {
			r.failAt(pair.Key.Range(), "the names in an object must be literals")
			continue
		}
		if _, ok := out[key.AsString()]; ok {
			r.failAt(pair.Key.Range(), "%s appears twice", key.AsString())
		}
		out[key.AsString()] = r.convertExpression(pair.Value)
	}
	return out
}

// convertExpression converts a value to JSON whose strings are templates.
func (r *templateReader) convertExpression(e hcl.Expression) any {
	if pairs, diags := hcl.ExprMap(e); !diags.HasErrors() {
		return r.object(pairs)
	}
	if list, diags := hcl.ExprList(e); !diags.HasErrors() {
		out := []any{}
		for _, element := range list {
			out = append(out, r.convertExpression(element))
		}
		return out
	}
	native, ok := e.(hclsyntax.Expression)
	if l, literal := e.(*hclsyntax.LiteralValueExpr); !ok || literal && l.Val.Type() != cty.String {
		return r.plainValue(e)
	}
	text, err := templateText(native, r.src)
	if err == nil {
		_, err = parseExpression(text, r.names)
	}
	if err != nil {
		r.failAt(e.Range(), "%v", err)
	}
	return text
}

// plainValue returns a number, boolean or null; in JSON also a string, as the template that it is.
func (r *templateReader) plainValue(e hcl.Expression) any {
	raw := r.valueJSON(e)
	var v any
	if raw == nil || decodeData(raw, maxDepth, &v) != nil {
		return nil
	}
	if text, ok := v.(string); ok {
		if _, err := parseExpression(text, r.names); err != nil {
			r.failAt(e.Range(), "%v", err)
		}
	}
	return v
}

// templateText writes a native expression as a template's text, as JSON has it.
func templateText(e hclsyntax.Expression, src []byte) (string, error) {
	switch e := e.(type) {
	case *hclsyntax.TemplateExpr:
		var b strings.Builder
		for _, part := range e.Parts {
			text, err := partText(part, src)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
		}
		return b.String(), nil
	case *hclsyntax.TemplateWrapExpr:
		return interpolateExpr(e.Wrapped, src)
	case *hclsyntax.LiteralValueExpr:
		return partText(e, src)
	}
	return interpolateExpr(e, src)
}

func interpolateExpr(e hclsyntax.Expression, src []byte) (string, error) {
	at := e.Range()
	if at.End.Byte > len(src) || at.Start.Byte >= at.End.Byte {
		return "", errors.New("write it as a string with ${…}")
	}
	return "${" + string(at.SliceBytes(src)) + "}", nil
}

func partText(part hclsyntax.Expression, src []byte) (string, error) {
	if l, ok := part.(*hclsyntax.LiteralValueExpr); ok {
		if l.Val.IsNull() || l.Val.Type() != cty.String {
			return interpolateExpr(part, src)
		}
		return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(l.Val.AsString()), nil
	}
	if strings.HasPrefix(string(part.Range().SliceBytes(src)), "%{") {
		return "", errors.New("write ${a ? b : c} instead of %{if}, and no loops")
	}
	return interpolateExpr(part, src)
}
