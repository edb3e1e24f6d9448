// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
)

// Bounds of the variables of a run.
const (
	maxVariables     = 1000
	maxVariableBytes = 64 << 10 // names and values together
)

// Requested is a variable of a run, as the tools send it: the value is an expression's text.
type Requested struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Parse converts variables to JSON, which the tools read literally: their text never reaches a file
// where it could be more than a value.
func Parse(list []Requested) (map[string]json.RawMessage, error) {
	if len(list) > maxVariables {
		return nil, fmt.Errorf("more than %d variables", maxVariables)
	}
	size := 0
	out := make(map[string]json.RawMessage, len(list))
	for _, v := range list {
		if size += len(v.Key) + len(v.Value); size > maxVariableBytes {
			return nil, fmt.Errorf("the variables have more than %d KiB", maxVariableBytes>>10)
		}
		if !hclsyntax.ValidIdentifier(v.Key) || len(v.Key) > maxVariableName {
			return nil, fmt.Errorf("%q is not the name of a variable", text.Excerpt(v.Key))
		}
		if _, twice := out[v.Key]; twice {
			return nil, fmt.Errorf("variable %q appears twice", v.Key)
		}
		value, err := parseLiteral(v.Value)
		if err != nil {
			return nil, fmt.Errorf("variable %q: %w", v.Key, err)
		}
		out[v.Key] = value
	}
	return out, nil
}

const maxVariableName = 255

// parseLiteral reads a literal: no function, reference, loop or operator. The error never contains
// the value, which may be a secret.
func parseLiteral(words string) (json.RawMessage, error) {
	if !utf8.ValidString(words) {
		return nil, fmt.Errorf("the value is not UTF-8")
	}
	e, diags := syntax.ParseExpression(words, "value")
	if diags.HasErrors() {
		return nil, fmt.Errorf("the value is not an expression, or nested too deep or too long")
	}
	if !isLiteral(e, maxLiteralLevels) {
		return nil, fmt.Errorf("the value must be written out, at most %d levels deep: no functions, references, loops or operators", maxLiteralLevels)
	}
	v, diags := e.Value(nil)
	if diags.HasErrors() || !v.IsWhollyKnown() {
		return nil, fmt.Errorf("the value cannot be computed")
	}
	if v.IsNull() {
		return json.RawMessage("null"), nil
	}
	b, err := ctyjson.SimpleJSONValue{Value: v}.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("the value cannot be written as JSON")
	}
	return b, nil
}

const maxLiteralLevels = 64

// isLiteral reports whether an expression is a literal, nested at most levels deep.
func isLiteral(e hclsyntax.Expression, levels int) bool {
	if levels--; levels < 0 {
		return false
	}
	part := func(e hclsyntax.Expression) bool { return isLiteral(e, levels) }
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return true
	case *hclsyntax.ParenthesesExpr:
		return part(e.Expression)
	case *hclsyntax.TemplateExpr:
		return allMatch(e.Parts, part)
	case *hclsyntax.UnaryOpExpr:
		number, ok := e.Val.(*hclsyntax.LiteralValueExpr)
		return ok && e.Op == hclsyntax.OpNegate && number.Val.Type() == cty.Number
	case *hclsyntax.TupleConsExpr:
		return allMatch(e.Exprs, part)
	case *hclsyntax.ObjectConsExpr:
		return allMatch(e.Items, func(i hclsyntax.ObjectConsItem) bool { return literalKey(i.KeyExpr, levels) && part(i.ValueExpr) })
	}
	return false
}

func literalKey(e hclsyntax.Expression, levels int) bool {
	key, ok := e.(*hclsyntax.ObjectConsKeyExpr)
	if !ok {
		return isLiteral(e, levels)
	}
	return hcl.ExprAsKeyword(key.Wrapped) != "" && !key.ForceNonLiteral || isLiteral(key.Wrapped, levels)
}

func allMatch[T any](list []T, ok func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !ok(v) })
}
