// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/seed-141914ff/okara/internal/syntax"
)

const (
	maxExpression = 4 << 10  // text of one expression, in bytes
	maxValue      = 64 << 10 // what any part of one may become
	maxResult     = 4 << 10  // what one may become in the end
	maxArguments  = 32       // of a function
)

// Names that expressions may begin with.
const (
	nameID         = "id"
	nameTemplate   = "template"
	nameOwner      = "owner"
	nameParameters = "parameters"
	nameClaims     = "claims"
	nameConfig     = "config"
	nameOutputs    = "outputs"
)

// names says what the expressions of a template may name.
type names struct {
	parameters []string
	outputs    []string // of a connection; nil: none may be named
	config     []string // nil: it is not known what the server has
	anonymous  bool     // of a pool: nothing of a person
}

// parseExpression reads the text of a template of HCL, and refuses whatever it
// may not hold.
func parseExpression(text string, n names) (hclsyntax.Expression, error) {
	tree, err := parseTree(text)
	if err != nil {
		return nil, err
	}
	return tree, n.check(tree)
}

func parseTree(text string) (hclsyntax.Expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("an expression of %d bytes, at most %d", len(text), maxExpression)
	}
	tree, diags := syntax.ParseTemplate(text, "")
	if diags.HasErrors() {
		return nil, diagnosed(diags)
	}
	return tree, syntax.CheckValue(tree)
}

// diagnosed is the first error without its place, which is one inside a string.
func diagnosed(diags hcl.Diagnostics) error {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			return errors.New(strings.TrimSuffix(d.Summary+": "+d.Detail, "."))
		}
	}
	return diags
}

// check looks at each node: what is not named here is not part of the language.
func (n names) check(e hclsyntax.Expression) error {
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return nil
	case *hclsyntax.TemplateExpr:
		return n.checkAll(e.Parts)
	case *hclsyntax.TemplateWrapExpr:
		return n.check(e.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return n.check(e.Expression)
	case *hclsyntax.ScopeTraversalExpr:
		return n.checkName(e.Traversal)
	case *hclsyntax.FunctionCallExpr:
		return errors.Join(checkCall(e), n.checkAll(e.Args))
	case *hclsyntax.ConditionalExpr:
		return n.checkAll([]hclsyntax.Expression{e.Condition, e.TrueResult, e.FalseResult})
	case *hclsyntax.BinaryOpExpr:
		return n.checkAll([]hclsyntax.Expression{e.LHS, e.RHS})
	case *hclsyntax.UnaryOpExpr:
		return n.check(e.Val)
	case *hclsyntax.TupleConsExpr:
		return n.checkAll(e.Exprs)
	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			if _, err := objectKey(item.KeyExpr); err != nil {
				return err
			}
			if err := n.check(item.ValueExpr); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("loops, splats and computed indices are no part of a template's expressions")
}

func (n names) checkAll(list []hclsyntax.Expression) error {
	for _, e := range list {
		if err := n.check(e); err != nil {
			return err
		}
	}
	return nil
}

func (n names) checkName(t hcl.Traversal) error {
	root := t.RootName()
	if root == nameID || root == nameTemplate {
		if len(t) > 1 {
			return fmt.Errorf("%s is text, nothing is below it", root)
		}
		return nil
	}
	key := second(t)
	unknown := fmt.Errorf("unknown name %s", strings.TrimSuffix(root+"."+key, "."))
	switch root {
	case nameOwner, nameParameters, nameClaims:
		if n.anonymous {
			return fmt.Errorf("%s: the members of a pool are nobody's, so nothing of a person can be named", root)
		}
	case nameOutputs:
		if n.outputs == nil {
			return errors.New("outputs: there are none before a run; a connection may name them")
		}
	}
	switch {
	case root == nameOwner && slices.Contains([]string{"kind", "id", "label"}, key),
		root == nameParameters && slices.Contains(n.parameters, key),
		root == nameClaims && key != "",
		root == nameConfig && key != "" && (n.config == nil || slices.Contains(n.config, key)),
		root == nameOutputs && slices.Contains(n.outputs, key):
		return nil
	case root == nameOutputs && key != "":
		return fmt.Errorf("%w: outputs does not list it", unknown)
	case root == nameConfig && key != "":
		return fmt.Errorf("%w: config of the server has %s", unknown, orNothing(n.config))
	}
	return unknown
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// second is the name after the first of a traversal, "" if there is none.
func second(t hcl.Traversal) string {
	if len(t) < 2 {
		return ""
	}
	switch step := t[1].(type) {
	case hcl.TraverseAttr:
		return step.Name
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String && step.Key.IsKnown() && !step.Key.IsNull() {
			return step.Key.AsString()
		}
	}
	return ""
}

// objectKey is a key that is written out.
func objectKey(e hclsyntax.Expression) (string, error) {
	v, diags := e.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return "", errors.New("the names in an object are written out, not computed")
	}
	return v.AsString(), nil
}

// named lists what follows a first name in an expression.
func named(e hclsyntax.Expression, root string) []string {
	var list []string
	for _, t := range e.Variables() {
		if t.RootName() == root {
			list = append(list, second(t))
		}
	}
	return list
}

// evaluator computes expressions. Each value on the way is held to maxValue.
type evaluator struct {
	context hcl.EvalContext
}

func (v *evaluator) value(e hclsyntax.Expression) (cty.Value, error) {
	val, err := v.compute(e)
	if err != nil {
		return cty.NilVal, err
	}
	if n := valueSize(val); n > maxValue {
		return cty.NilVal, fmt.Errorf("a value of %d bytes, at most %d", n, maxValue)
	}
	return val, nil
}

func (v *evaluator) compute(e hclsyntax.Expression) (cty.Value, error) {
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e.Val, nil
	case *hclsyntax.TemplateWrapExpr:
		return v.value(e.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return v.value(e.Expression)
	case *hclsyntax.TemplateExpr:
		text, err := v.text(e.Parts, nil)
		return cty.StringVal(text), err
	case *hclsyntax.ScopeTraversalExpr:
		val, diags := e.Traversal.TraverseAbs(&v.context)
		if diags.HasErrors() {
			return cty.NilVal, fmt.Errorf("%s.%s: %w", e.Traversal.RootName(), second(e.Traversal), diagnosed(diags))
		}
		return val, nil
	case *hclsyntax.FunctionCallExpr:
		args, err := v.values(e.Args)
		if err != nil {
			return cty.NilVal, err
		}
		val, err := call(e.Name, args)
		if err != nil {
			return cty.NilVal, fmt.Errorf("%s: %w", e.Name, err)
		}
		return val, nil
	case *hclsyntax.ConditionalExpr:
		return v.choose(e)
	case *hclsyntax.BinaryOpExpr:
		sides, err := v.values([]hclsyntax.Expression{e.LHS, e.RHS})
		if err != nil {
			return cty.NilVal, err
		}
		return computed(&hclsyntax.BinaryOpExpr{LHS: literal(sides[0]), Op: e.Op, RHS: literal(sides[1])})
	case *hclsyntax.UnaryOpExpr:
		val, err := v.value(e.Val)
		if err != nil {
			return cty.NilVal, err
		}
		return computed(&hclsyntax.UnaryOpExpr{Op: e.Op, Val: literal(val)})
	case *hclsyntax.TupleConsExpr:
		list, err := v.values(e.Exprs)
		return cty.TupleVal(list), err
	case *hclsyntax.ObjectConsExpr:
		return v.object(e)
	}
	return cty.NilVal, errors.New("no part of a template's expressions") // parseExpression refuses it
}

func literal(v cty.Value) hclsyntax.Expression { return &hclsyntax.LiteralValueExpr{Val: v} }

// computed is an operator on values that are there.
func computed(e hclsyntax.Expression) (cty.Value, error) {
	val, diags := e.Value(nil)
	if diags.HasErrors() {
		return cty.NilVal, diagnosed(diags)
	}
	return val, nil
}

// values computes a list, whose sum is held to maxValue as well.
func (v *evaluator) values(list []hclsyntax.Expression) ([]cty.Value, error) {
	var out []cty.Value
	total := 0
	for _, e := range list {
		val, err := v.value(e)
		if err != nil {
			return nil, err
		}
		if total += valueSize(val); total > maxValue {
			return nil, fmt.Errorf("values of more than %d bytes", maxValue)
		}
		out = append(out, val)
	}
	return out, nil
}

func (v *evaluator) choose(e *hclsyntax.ConditionalExpr) (cty.Value, error) {
	val, err := v.value(e.Condition)
	if err != nil {
		return cty.NilVal, err
	}
	yes, err := convert.Convert(val, cty.Bool)
	if err != nil || yes.IsNull() {
		return cty.NilVal, errors.New("a condition is neither true nor false")
	}
	if yes.True() {
		return v.value(e.TrueResult)
	}
	return v.value(e.FalseResult)
}

func (v *evaluator) object(e *hclsyntax.ObjectConsExpr) (cty.Value, error) {
	attributes := map[string]cty.Value{}
	total := 0
	for _, item := range e.Items {
		key, err := objectKey(item.KeyExpr)
		if err != nil {
			return cty.NilVal, err
		}
		val, err := v.value(item.ValueExpr)
		if err != nil {
			return cty.NilVal, err
		}
		if total += len(key) + valueSize(val); total > maxValue {
			return cty.NilVal, fmt.Errorf("an object of more than %d bytes", maxValue)
		}
		attributes[key] = val
	}
	return cty.ObjectVal(attributes), nil
}

// text joins the parts of a template. A func may change each part that is not
// written out: it gets what is before the part.
func (v *evaluator) text(parts []hclsyntax.Expression, change func(before, text string, part hclsyntax.Expression) (string, error)) (string, error) {
	var b strings.Builder
	for _, part := range parts {
		val, err := v.value(part)
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
			return "", fmt.Errorf("text of more than %d bytes", maxValue)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func asText(v cty.Value) (string, error) {
	if v.IsNull() {
		return "", errors.New("null cannot be part of a text")
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		return "", errors.New("only text, numbers and booleans can be part of a text")
	}
	return s.AsString(), nil
}

// valueSize is about how many bytes a value takes as text.
func valueSize(v cty.Value) int {
	switch {
	case v == cty.NilVal || v.IsNull() || !v.IsKnown():
		return 4
	case v.Type() == cty.String:
		return len(v.AsString())
	case v.Type() == cty.Number:
		return numberSize(v)
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

// numberSize is how many digits a number has before its point, and some more.
func numberSize(v cty.Value) int {
	exponent := v.AsBigFloat().MantExp(nil) // of two
	return 32 + max(exponent, -exponent)/3
}

// checkCall refuses functions that there are not, and formats that grow.
func checkCall(e *hclsyntax.FunctionCallExpr) error {
	n := len(e.Args)
	least, most, ok := arity(e.Name)
	switch {
	case !ok:
		return fmt.Errorf("there is no function %s; there are lower, upper, replace, format, join, trim, substr, jsonencode and urlencode", e.Name)
	case e.ExpandFinal:
		return fmt.Errorf("%s: write out its arguments instead of …", e.Name)
	case n < least || n > most:
		return fmt.Errorf("%s has %d arguments, not %d", e.Name, least, n)
	case e.Name != "format":
		return nil
	}
	text, ok := writtenOut(e.Args[0])
	if !ok {
		return errors.New("format: its first argument is written out, not computed")
	}
	return checkFormat(text, n-1)
}

// writtenOut is the text of an expression that names nothing.
func writtenOut(e hclsyntax.Expression) (string, bool) {
	t, ok := e.(*hclsyntax.TemplateExpr)
	if !ok {
		return "", false
	}
	var text strings.Builder
	for _, part := range t.Parts {
		l, ok := part.(*hclsyntax.LiteralValueExpr)
		if !ok || l.Val.Type() != cty.String {
			return "", false
		}
		text.WriteString(l.Val.AsString())
	}
	return text.String(), true
}

// formatVerb is a verb with a width and a precision up to 99. An argument is used
// once, so that a format does not multiply what it is given.
const formatVerb = `^%[-+ 0]*([0-9]{1,2})?(\.[0-9]{1,2})?[sdvqtfegxXob]`

func checkFormat(text string, arguments int) error {
	verb := regexp.MustCompile(formatVerb)
	used := 0
	for {
		i := strings.IndexByte(text, '%')
		if i < 0 {
			break
		}
		text = text[i:]
		if strings.HasPrefix(text, "%%") {
			text = text[2:]
			continue
		}
		found := verb.FindString(text)
		if found == "" {
			return fmt.Errorf("format: %.20q is no verb with a width up to 99", text)
		}
		text = text[len(found):]
		used++
	}
	if used != arguments {
		return fmt.Errorf("format: %d verbs for %d values", used, arguments)
	}
	return nil
}

// variables makes the values that expressions name.
func (s Scope) variables(t *Template) (map[string]cty.Value, error) {
	parameters, err := values(s.Parameters)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	outputs, err := values(s.Outputs)
	if err != nil {
		return nil, fmt.Errorf("outputs: %w", err)
	}
	return map[string]cty.Value{
		nameID:         cty.StringVal(s.ID),
		nameTemplate:   cty.StringVal(t.Name),
		nameOwner:      texts(map[string]string{"kind": s.Owner.Kind, "id": s.Owner.ID, "label": s.Owner.Label}),
		nameParameters: parameters,
		nameClaims:     texts(s.Claims),
		nameConfig:     texts(s.Config),
		nameOutputs:    outputs,
	}, nil
}

func texts(m map[string]string) cty.Value {
	out := map[string]cty.Value{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out[key] = cty.StringVal(m[key])
	}
	return cty.ObjectVal(out)
}
