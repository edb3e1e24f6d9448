// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

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

// diagnosed returns the first error without its position, which is relative to the
// string.
func diagnosed(diags hcl.Diagnostics) error {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		if e, ok := d.Expression.(*hclsyntax.ScopeTraversalExpr); ok {
			return fmt.Errorf("%s.%s: %s", e.Traversal.RootName(), second(e.Traversal), strings.TrimSuffix(d.Detail, "."))
		}
		return errors.New(strings.TrimSuffix(d.Summary+": "+d.Detail, "."))
	}
	return diags
}

// check checks each node: node types not listed here are not part of the language.
func (n names) check(tree hclsyntax.Expression) (err error) {
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
				return errors.New("the names in an object are written out, not computed")
			}
		}
		return nil
	}
	return errors.New("loops, splats and computed indices are no part of a template's expressions")
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
			return fmt.Errorf("%s: members of a pool have no owner, so attributes of a person cannot be used", root)
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

// second returns the second name of a traversal; "" if there is none.
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

// named returns the names that follow root in an expression.
func named(e hclsyntax.Expression, root string) []string {
	var list []string
	for _, t := range e.Variables() {
		if t.RootName() == root {
			list = append(list, second(t))
		}
	}
	return list
}
