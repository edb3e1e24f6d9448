// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// expressions reads inputs and connection, whose strings are templates in both syntaxes.
func (r *templateReader) expressions(t *Template, b templateBlock) {
	if b.Inputs != nil {
		pairs, diags := hcl.ExprMap(b.Inputs.Expr)
		if diags.HasErrors() {
			r.fail(b.Inputs.Range, "inputs is an object: the names of the module's inputs, and what they are")
		} else if raw, err := encode(r.object(pairs)); err != nil {
			r.fail(b.Inputs.Range, "inputs: %v", err)
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
		t.Connection.URL = r.text(c.URL)
		if tree, err := parseTree(t.Connection.URL); err == nil {
			if err := checkURLTemplate(tree); err != nil {
				r.fail(c.URL.Range, "url: %v", err)
			}
		}
	}
	if c.Message != nil {
		t.Connection.Message = r.text(c.Message)
	}
	t.Connection.Type = or(c.Type, t.Connection.Type)
}

// text reads an attribute that is one template.
func (r *templateReader) text(a *hcl.Attribute) string {
	s, ok := r.expression(a.Expr).(string)
	if !ok || s == "" {
		r.fail(a.Range, "%s is text", a.Name)
	}
	return s
}

func (r *templateReader) object(pairs []hcl.KeyValuePair) map[string]any {
	out := map[string]any{}
	for _, pair := range pairs {
		key, diags := pair.Key.Value(nil)
		if diags.HasErrors() || key.Type() != cty.String || key.IsNull() {
			r.fail(pair.Key.Range(), "the names in an object are written out, not computed")
			continue
		}
		if _, ok := out[key.AsString()]; ok {
			r.fail(pair.Key.Range(), "%s appears twice", key.AsString())
		}
		out[key.AsString()] = r.expression(pair.Value)
	}
	return out
}

// expression converts a value to JSON whose strings are templates.
func (r *templateReader) expression(e hcl.Expression) any {
	if pairs, diags := hcl.ExprMap(e); !diags.HasErrors() {
		return r.object(pairs)
	}
	if list, diags := hcl.ExprList(e); !diags.HasErrors() {
		out := []any{}
		for _, element := range list {
			out = append(out, r.expression(element))
		}
		return out
	}
	native, ok := e.(hclsyntax.Expression)
	if l, literal := e.(*hclsyntax.LiteralValueExpr); !ok || literal && l.Val.Type() != cty.String {
		return r.plain(e)
	}
	text, err := templateText(native, r.src)
	if err == nil {
		_, err = parseExpression(text, r.names)
	}
	if err != nil {
		r.fail(e.Range(), "%v", err)
	}
	return text
}

// plain returns a number, boolean or null, and in the JSON syntax also a string, which is
// a template already.
func (r *templateReader) plain(e hcl.Expression) any {
	raw := r.value(e)
	var v any
	if raw == nil || decodeData(raw, maxDepth, &v) != nil {
		return nil
	}
	if text, ok := v.(string); ok {
		if _, err := parseExpression(text, r.names); err != nil {
			r.fail(e.Range(), "%v", err)
		}
	}
	return v
}

// templateText writes an expression of the native syntax as the text of a template, which
// is the form used in JSON.
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
		return interpolated(e.Wrapped, src)
	case *hclsyntax.LiteralValueExpr:
		return partText(e, src)
	}
	return interpolated(e, src)
}

func interpolated(e hclsyntax.Expression, src []byte) (string, error) {
	at := e.Range()
	if at.End.Byte > len(src) || at.Start.Byte >= at.End.Byte {
		return "", errors.New("write it as a text with ${…}")
	}
	return "${" + string(at.SliceBytes(src)) + "}", nil
}

func partText(part hclsyntax.Expression, src []byte) (string, error) {
	if l, ok := part.(*hclsyntax.LiteralValueExpr); ok {
		if l.Val.IsNull() || l.Val.Type() != cty.String {
			return interpolated(part, src)
		}
		return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(l.Val.AsString()), nil
	}
	if strings.HasPrefix(string(part.Range().SliceBytes(src)), "%{") {
		return "", errors.New("write ${a ? b : c} instead of %{if}, and no loops")
	}
	return interpolated(part, src)
}
