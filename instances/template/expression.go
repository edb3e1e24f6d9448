// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/seed-141914ff/okara/internal/syntax"
)

const (
	maxExpression = 4 << 10  // text of one expression, in bytes
	maxValue      = 64 << 10 // size of the values in an expression, of the arguments of a function, of a result
	maxResult     = 4 << 10  // size of the result
)

// Names with which references in expressions begin.
const (
	nameID         = "id"
	nameTemplate   = "template"
	nameOwner      = "owner"
	nameParameters = "parameters"
	nameClaims     = "claims"
	nameConfig     = "config"
	nameOutputs    = "outputs"
)

// names holds what the expressions of a template may name.
type names struct {
	parameters []string
	outputs    []string // of a connection; nil: none
	config     []string // nil: the server's names are not known
	anonymous  bool     // of a pool: there is no owner and no claims
}

// parseExpression parses an HCL template and refuses what it may not contain.
func parseExpression(text string, n names) (hclsyntax.Expression, error) {
	tree, err := parseTree(text)
	if err != nil {
		return nil, err
	}
	return tree, n.checkTree(tree)
}

func parseTree(text string) (hclsyntax.Expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("an expression of %d bytes, the limit is %d", len(text), maxExpression)
	}
	tree, diags := syntax.ParseTemplate(text, "")
	if diags.HasErrors() {
		return nil, firstError(diags)
	}
	return tree, syntax.CheckValue(tree)
}

// firstError returns the first error, without its position in the string.
func firstError(diags hcl.Diagnostics) error {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		if e, ok := d.Expression.(*hclsyntax.ScopeTraversalExpr); ok {
			return fmt.Errorf("%s.%s: %s", e.Traversal.RootName(), secondName(e.Traversal), strings.TrimSuffix(d.Detail, "."))
		}
		return errors.New(strings.TrimSuffix(d.Summary+": "+d.Detail, "."))
	}
	return diags
}

// checkTree checks each node: node types not listed here are not part of the language.
func (n names) checkTree(tree hclsyntax.Expression) (err error) {
	_ = hclsyntax.VisitAll(tree, func(node hclsyntax.Node) hcl.Diagnostics { // the function returns none
		if err == nil {
			err = n.checkNode(node)
		}
		return nil
	})
	return err
}

func (n names) checkNode(node hclsyntax.Node) error {
	switch e := node.(type) {
	case *hclsyntax.LiteralValueExpr, *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr, *hclsyntax.ParenthesesExpr, *hclsyntax.ConditionalExpr,
		*hclsyntax.BinaryOpExpr, *hclsyntax.UnaryOpExpr, *hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsKeyExpr:
		return nil
	case *hclsyntax.ScopeTraversalExpr:
		return n.checkName(e.Traversal)
	case *hclsyntax.FunctionCallExpr:
		return checkCall(e)
	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			v, diags := item.KeyExpr.Value(nil)
			if diags.HasErrors() || v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
				return errors.New("the names in an object must be literals")
			}
		}
		return nil
	}
	return errors.New("loops, splats and computed indices are not allowed in templates")
}

func (n names) checkName(t hcl.Traversal) error {
	root := t.RootName()
	if root == nameID || root == nameTemplate {
		if len(t) > 1 {
			return fmt.Errorf("%s is a string and has no attributes", root)
		}
		return nil
	}
	key := secondName(t)
	unknown := fmt.Errorf("unknown name %s", strings.TrimSuffix(root+"."+key, "."))
	switch root {
	case nameOwner, nameParameters, nameClaims:
		if n.anonymous {
			return fmt.Errorf("%s: members of a pool have no owner, so attributes of a person cannot be used", root)
		}
	case nameOutputs:
		if n.outputs == nil {
			return errors.New("outputs: not available before a run, only in connection")
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

// secondName returns the second name of a traversal; "" if there is none.
func secondName(t hcl.Traversal) string {
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

func namesAfter(e hclsyntax.Expression, root string) []string {
	var list []string
	for _, t := range e.Variables() {
		if t.RootName() == root {
			list = append(list, secondName(t))
		}
	}
	return list
}

// allowedFunctions returns what expressions can call: nothing that reads what is outside.
func allowedFunctions() map[string]function.Function {
	urlencode := function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}}, Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.StringVal(url.QueryEscape(args[0].AsString())), nil
		},
	})
	repeats := func(args []cty.Value) int {
		return strings.Count(args[0].AsString(), args[1].AsString()) * len(args[2].AsString())
	}
	separators := func(args []cty.Value) int { return valueSize(args[0]) * args[1].LengthInt() }
	return map[string]function.Function{
		"lower": boundFunction(stdlib.LowerFunc, nil), "upper": boundFunction(stdlib.UpperFunc, nil), "trim": boundFunction(stdlib.TrimFunc, nil), "substr": boundFunction(stdlib.SubstrFunc, nil),
		"format":     boundFunction(stdlib.FormatFunc, nil), // checkFormat bounds widths
		"jsonencode": boundFunction(stdlib.JSONEncodeFunc, nil), "urlencode": boundFunction(urlencode, nil),
		"join": boundFunction(stdlib.JoinFunc, separators), "replace": boundFunction(stdlib.ReplaceFunc, repeats),
	}
}

// boundFunction bounds a function's arguments together, and how much larger its result is.
func boundFunction(f function.Function, grows func(args []cty.Value) int) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(), Type: f.ReturnTypeForValues,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			n := 0
			for _, a := range args {
				n += valueSize(a)
			}
			if grows != nil {
				n += grows(args)
			}
			if n > maxValue {
				return cty.NilVal, fmt.Errorf("values of more than %d bytes", maxValue)
			}
			return f.Call(args)
		},
	})
}

// checkCall refuses unknown functions, and formats that could grow without bound.
func checkCall(e *hclsyntax.FunctionCallExpr) error {
	n := len(e.Args)
	f, ok := allowedFunctions()[e.Name]
	minimum := 0
	if ok {
		minimum = len(f.Params())
	}
	if e.Name == "join" {
		minimum = 2
	}
	switch {
	case !ok:
		return fmt.Errorf("unknown function %s; available are lower, upper, replace, format, join, trim, substr, jsonencode and urlencode", e.Name)
	case e.ExpandFinal:
		return fmt.Errorf("%s: write out its arguments instead of …", e.Name)
	case n < minimum || n > minimum && e.Name != "format":
		return fmt.Errorf("%s has %d arguments, not %d", e.Name, minimum, n)
	case e.Name != "format":
		return nil
	}
	text, ok := writtenOut(e.Args[0])
	if !ok {
		return errors.New("format: the first argument must be a literal")
	}
	return checkFormat(text, n-1)
}

// writtenOut returns the text of an expression that consists only of literals.
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

// formatVerb matches a verb, width and precision up to 99, whose argument is used once.
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
			return fmt.Errorf("format: %.20q is not a verb with a width up to 99", text)
		}
		text = text[len(found):]
		used++
	}
	if used != arguments {
		return fmt.Errorf("format: %d verbs for %d values", used, arguments)
	}
	return nil
}
