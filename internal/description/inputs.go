// SPDX-License-Identifier: Apache-2.0

package description

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-config-inspect/tfconfig"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
)

// schema is a JSON Schema 2020-12.
type schema map[string]any

func inputSchema(m *tfconfig.Module, flags map[string]variableFlags) json.RawMessage {
	properties := schema{}
	required := []string{}
	types := map[string]schema{} // many variables have the same
	for _, name := range slices.Sorted(maps.Keys(m.Variables)) {
		variable := m.Variables[name]
		if types[variable.Type] == nil && variable.Type != "" {
			types[variable.Type] = typeSchema(variable.Type)
		}
		properties[name] = variableSchema(variable, maps.Clone(types[variable.Type]), flags[name])
		if variable.Required {
			required = append(required, name)
		}
	}
	object := schema{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"properties": properties, "required": required, "additionalProperties": false,
	}
	b, err := json.Marshal(object)
	if err != nil {
		return nil // a default that JSON cannot represent, which tfconfig does not return
	}
	return b
}

// variableSchema completes the schema of the type; nil: it has none.
func variableSchema(v *tfconfig.Variable, s schema, f variableFlags) schema {
	if s == nil {
		s = schema{}
	} else {
		s["x-okara-type"] = v.Type
	}
	if !f.notNullable {
		addNull(s)
	}
	if v.Description != "" {
		s["description"] = v.Description
	}
	if !v.Required {
		s["default"] = v.Default
		if f.exact != nil {
			s["default"] = f.exact
		}
	}
	if v.Sensitive {
		s["writeOnly"] = true
	}
	if v.Deprecated != "" {
		s["deprecated"] = true
		s["x-okara-deprecated"] = v.Deprecated
	}
	if f.constant {
		s["x-okara-const"] = true
	}
	if f.ephemeral {
		s["x-okara-ephemeral"] = true
	}
	if len(f.validation) > 0 {
		s["x-okara-validation"] = f.validation
	}
	if len(f.others) > 0 {
		slices.Sort(f.others)
		s["x-okara-validations-more"] = fmt.Sprintf("%s, sha256:%x", text.Plural(len(f.others), "more validation"), sha256.Sum256([]byte(strings.Join(f.others, "\n"))))
	}
	return s
}

// addNull lets the schema accept null. A schema without a type accepts it anyway.
func addNull(s schema) {
	if t, ok := s["type"].(string); ok {
		s["type"] = []string{t, "null"}
	}
}

// typeSchema translates a type constraint; a constraint that does not parse accepts anything.
func typeSchema(source string) schema {
	t, defaults, ok := parseConstraint(source)
	if !ok {
		return schema{}
	}
	return ctySchema(t, defaults)
}

// parseConstraint parses a type constraint. Its defaults are computed, so their work is bounded.
func parseConstraint(source string) (cty.Type, *typeexpr.Defaults, bool) {
	expr, diags := syntax.ParseExpression(source, "type")
	if diags.HasErrors() || syntax.CheckValue(expr) != nil {
		return cty.NilType, nil, false
	}
	t, defaults, diags := typeexpr.TypeConstraintWithDefaults(expr)
	return t, defaults, !diags.HasErrors()
}

func ctySchema(t cty.Type, d *typeexpr.Defaults) schema {
	switch {
	case t == cty.String:
		return schema{"type": "string"}
	case t == cty.Number:
		return schema{"type": "number"}
	case t == cty.Bool:
		return schema{"type": "boolean"}
	case t.IsListType():
		return schema{"type": "array", "items": ctySchema(t.ElementType(), childDefaults(d, ""))}
	case t.IsSetType():
		return schema{"type": "array", "uniqueItems": true, "items": ctySchema(t.ElementType(), childDefaults(d, ""))}
	case t.IsMapType():
		return schema{"type": "object", "additionalProperties": ctySchema(t.ElementType(), childDefaults(d, ""))}
	case t.IsTupleType():
		items := []schema{}
		for i, element := range t.TupleElementTypes() {
			items = append(items, ctySchema(element, childDefaults(d, strconv.Itoa(i))))
		}
		return schema{"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
	case t.IsObjectType():
		return objectSchema(t, d)
	}
	return schema{}
}

func objectSchema(t cty.Type, d *typeexpr.Defaults) schema {
	properties := schema{}
	required := []string{}
	attributes := t.AttributeTypes()
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		s := ctySchema(attributes[name], childDefaults(d, name))
		if t.AttributeOptional(name) {
			addNull(s)
		} else {
			required = append(required, name)
		}
		if d != nil {
			if value, ok := d.DefaultValues[name]; ok {
				if b, err := ctyjson.Marshal(value, value.Type()); err == nil {
					s["default"] = json.RawMessage(b)
				}
			}
		}
		properties[name] = s
	}
	return schema{"type": "object", "properties": properties, "required": required}
}

// childDefaults returns the defaults inside an attribute or a tuple element, or with
// key "" inside the elements of a collection.
func childDefaults(d *typeexpr.Defaults, key string) *typeexpr.Defaults {
	if d == nil {
		return nil
	}
	return d.Children[key]
}

// variableFlags holds the arguments of a variable that terraform-config-inspect does not report.
type variableFlags struct {
	notNullable, ephemeral, constant bool
	validation                       []validationRule
	others                           []string        // conditions of more, which only a comparison needs
	exact                            json.RawMessage // the default, if it has numbers that a float64 would change
}

// outputFlags holds the arguments of an output that terraform-config-inspect does not report.
type outputFlags struct {
	ephemeral bool
	typeText  string
}

// readDetails adds what terraform-config-inspect does not report: arguments of variables and
// outputs, and the tools that a language block names.
func (f *folder) readDetails(file *hcl.File) {
	named := []string{"name"}
	outer := &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "variable", LabelNames: named}, {Type: "output", LabelNames: named}, {Type: "language"}}}
	content, _, _ := file.Body.PartialContent(outer)
	for _, b := range content.Blocks {
		switch b.Type {
		case "variable":
			flags := f.flags[b.Labels[0]]
			flags.addArguments(b, file.Bytes)
			f.flags[b.Labels[0]] = flags
		case "output":
			inner, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "ephemeral"}, {Name: "type"}}})
			o := f.outputs[b.Labels[0]]
			setBool(&o.ephemeral, inner, "ephemeral", true)
			if a, ok := inner.Attributes["type"]; ok {
				var plain bool
				if o.typeText, plain = jsonText(a.Expr); !plain {
					o.typeText = writtenText(a.Expr, file.Bytes)
				}
			}
			f.outputs[b.Labels[0]] = o
		case "language":
			f.readTools(b)
		}
	}
}

// setBool sets whether an argument that is given has a value.
func setBool(to *bool, content *hcl.BodyContent, name string, want bool) {
	if attribute, ok := content.Attributes[name]; ok {
		value, diags := attribute.Expr.Value(nil)
		*to = !diags.HasErrors() && value.Type() == cty.Bool && value.IsWhollyKnown() && !value.IsNull() && value.True() == want
	}
}

// addArguments adds the arguments of a block; those of an override file replace others.
func (v *variableFlags) addArguments(b *hcl.Block, source []byte) {
	content, _, _ := b.Body.PartialContent(&hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "nullable"}, {Name: "ephemeral"}, {Name: "const"}, {Name: "default"}}, Blocks: []hcl.BlockHeaderSchema{{Type: "validation"}},
	})
	setBool(&v.notNullable, content, "nullable", false)
	setBool(&v.ephemeral, content, "ephemeral", true)
	setBool(&v.constant, content, "const", true)
	if a, ok := content.Attributes["default"]; ok {
		v.exact = nil
		if a.Expr.Range().CanSliceBytes(source) && manyDigits().Match(a.Expr.Range().SliceBytes(source)) {
			v.exact = exactValue(a.Expr)
		}
	}
	for _, block := range content.Blocks {
		rule, ok := parseValidation(block, source)
		if ok && len(v.validation) < maxValidations {
			v.validation = append(v.validation, rule)
		} else if v.others = append(v.others, rule.Condition); len(rule.Condition) <= 16*maxCondition {
			v.others[len(v.others)-1] = TypeLine(rule.Condition)
		}
	}
}

// manyDigits matches numbers that may have more digits than a float64 keeps.
var manyDigits = text.Pattern(`[0-9.]{16}|[0-9][eE]`)

// exactValue returns a constant as JSON with all digits; nil: it is none.
func exactValue(e hcl.Expression) json.RawMessage {
	if native, ok := e.(hclsyntax.Expression); ok && syntax.CheckValue(native) != nil {
		return nil
	}
	v, diags := e.Value(nil)
	if diags.HasErrors() || !v.IsWhollyKnown() {
		return nil
	}
	b, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		return nil
	}
	return b
}

// readTools adds the versions of tools in language { compatible_with { … } }.
func (f *folder) readTools(b *hcl.Block) {
	content, _, _ := b.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "compatible_with"}}})
	for _, block := range content.Blocks {
		attributes, _ := block.Body.JustAttributes()
		for name, attribute := range attributes {
			value, diags := attribute.Expr.Value(nil)
			if !diags.HasErrors() && value.Type() == cty.String && value.IsWhollyKnown() && !value.IsNull() {
				if f.tools == nil {
					f.tools = map[string]string{}
				}
				f.tools[name] = value.AsString()
			}
		}
	}
}

// validationRule is a validation block of a variable, as it is written.
type validationRule struct {
	Condition string `json:"condition"`
	Message   string `json:"error_message"`
}

const (
	maxValidations = 20
	maxCondition   = 4 << 10 // bytes of an expression
)

// parseValidation returns the expressions of a block; false: it lacks one, or one is too long. The
// tool checks it all the same.
func parseValidation(b *hcl.Block, src []byte) (rule validationRule, ok bool) {
	content, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "condition"}, {Name: "error_message"}}})
	ok = true
	for name, to := range map[string]*string{"condition": &rule.Condition, "error_message": &rule.Message} {
		if attribute, has := content.Attributes[name]; has {
			*to = writtenText(attribute.Expr, src)
		}
		ok = ok && *to != "" && len(*to) <= maxCondition
	}
	return rule, ok
}

// jsonText returns a string of JSON syntax as it is written there.
func jsonText(e hcl.Expression) (string, bool) {
	if _, native := e.(hclsyntax.Expression); native {
		return "", false
	}
	value, diags := e.Value(nil)
	if diags.HasErrors() || value.Type() != cty.String || value.IsNull() {
		return "", false
	}
	return value.AsString(), true
}

// writtenText returns an expression as native syntax has it: a template of JSON without ${ and }, or in quotes.
func writtenText(e hcl.Expression, source []byte) string {
	if template, ok := jsonText(e); ok {
		inner, ok := strings.CutPrefix(template, "${")
		inner, whole := strings.CutSuffix(inner, "}")
		if _, diags := syntax.ParseExpression(inner, "expression"); ok && whole && !diags.HasErrors() {
			return inner
		}
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(template) + `"`
	}
	if at := e.Range(); at.CanSliceBytes(source) {
		return string(at.SliceBytes(source))
	}
	return ""
}
