// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/seed-141914ff/okara/instances/internal/schema"
)

// buildParameter returns the property of a parameter: the module's, narrowed.
func (b *schemaBuilder) buildParameter(p Parameter) (map[string]any, error) {
	input, ok := b.properties[p.Name]
	if !ok {
		return nil, errors.New("the module has no such input")
	}
	out := maps.Clone(input)
	delete(out, "x-okara-validation") // it is for the server
	b.s.parameters[p.Name] = p
	if input["writeOnly"] == true {
		b.s.sensitive[p.Name] = true
	}
	if err := b.narrow(out, input, p); err != nil {
		return nil, err
	}
	if p.Default == nil {
		if module, ok := input["default"]; ok {
			raw, err := encodeJSON(module)
			if err != nil {
				return nil, err
			}
			b.s.defaults[p.Name] = raw
			if in, ok := newRuleInput(input); ok && b.checkDefault(p, out, raw) != nil { // as the tool converts it: numbers of a map of texts
				if v, err := in.convertValue(raw); err == nil {
					b.s.defaults[p.Name], _ = ctyjson.SimpleJSONValue{Value: v}.MarshalJSON() // it is known, as it was JSON
				}
			}
		}
	} else {
		b.s.defaults[p.Name] = p.Default
	}
	if value, ok := b.s.defaults[p.Name]; ok {
		if err := b.checkDefault(p, out, value); err != nil {
			return nil, err
		}
	}
	if err := b.checkWhen(p); err != nil {
		return nil, fmt.Errorf("when: %w", err)
	}
	if b.s.sensitive[p.Name] {
		delete(out, "default")
	} else if value, ok := b.s.defaults[p.Name]; ok {
		var v any
		if err := decodeData(value, maxDepth, &v); err != nil {
			return nil, fmt.Errorf("default: %w", err)
		}
		out["default"] = v
	}
	out["x-okara-link"] = p.Link && !b.s.sensitive[p.Name]
	out["x-okara-update"] = p.Update
	if p.Title != "" {
		out["title"] = p.Title
	}
	if p.Help != "" {
		out["x-okara-help"] = p.Help
	}
	if p.When != nil {
		out["x-okara-when"] = p.When
	}
	return out, nil
}

// checkWhen checks the condition of a parameter against the parameters before it.
func (b *schemaBuilder) checkWhen(p Parameter) error {
	if p.When == nil {
		return nil
	}
	if _, ok := b.s.defaults[p.Name]; !ok {
		return errors.New("requires a default, which is used if the condition is not met")
	}
	for _, name := range slices.Sorted(maps.Keys(p.When)) {
		property, ok := b.narrowed[name]
		switch {
		case !ok:
			return fmt.Errorf("parameter %s is not defined before it", name)
		case b.s.sensitive[name]:
			return fmt.Errorf("%s is sensitive, and everybody sees what this depends on", name)
		case property["enum"] == nil && !slices.ContainsFunc([]string{"string", "number", "integer", "boolean"}, func(kind string) bool { return hasType(property, kind) }):
			return fmt.Errorf("%s is not a string, a number or a boolean, and has no list of values", name)
		}
		compiled, err := compileSchema(property)
		if err != nil {
			return err
		}
		for _, value := range p.When[name] {
			if err := checkFits(compiled, value); err != nil {
				return fmt.Errorf("%s is never %s: %w", name, value, err)
			}
		}
	}
	condition, err := newCondition(p.Name, p.When)
	b.s.conditions = append(b.s.conditions, condition)
	return err
}

// narrow applies the template's restrictions, which must not widen the module's.
func (b *schemaBuilder) narrow(out, input map[string]any, p Parameter) error {
	if p.Enum != nil {
		values := []any{}
		for _, raw := range p.Enum {
			if err := b.checkAllowed(p.Name, raw); err != nil {
				return fmt.Errorf("enum: %s: not accepted by the module: %w", raw, err)
			}
			var v any
			if err := decodeData(raw, maxDepth, &v); err != nil {
				return err
			}
			values = append(values, v)
		}
		out["enum"] = values
	}
	if p.Pattern != "" {
		if !hasType(input, "string") {
			return errors.New("pattern: the input is not a string")
		}
		if module, ok := input["pattern"]; ok {
			out["allOf"] = append(listOf(input["allOf"]), map[string]any{"pattern": module})
		}
		out["pattern"] = p.Pattern
	}
	for _, bound := range []struct {
		name  string
		value *float64
		wider func(own, module float64) bool
	}{
		{"minimum", p.Minimum, func(own, module float64) bool { return own < module }},
		{"maximum", p.Maximum, func(own, module float64) bool { return own > module }},
	} {
		if bound.value == nil {
			continue
		}
		if !hasType(input, "number") && !hasType(input, "integer") {
			return fmt.Errorf("%s: the input is not a number", bound.name)
		}
		if n, ok := input[bound.name].(json.Number); ok {
			if module, err := n.Float64(); err != nil || bound.wider(*bound.value, module) {
				return fmt.Errorf("%s %v is wider than the module's %s", bound.name, *bound.value, n)
			}
		}
		out[bound.name] = *bound.value
	}
	return nil
}

func listOf(v any) []any {
	l, _ := v.([]any)
	return slices.Clone(l)
}

func hasType(schema map[string]any, name string) bool {
	return schema["type"] == name || slices.Contains(listOf(schema["type"]), any(name))
}

// checkDefault checks a default against the narrowed schema; a module's null is "not given".
func (b *schemaBuilder) checkDefault(p Parameter, property map[string]any, value json.RawMessage) error {
	if p.Default == nil && string(value) == "null" && hasType(property, "null") && p.Enum == nil {
		return nil
	}
	s, err := compileSchema(property)
	if err != nil {
		return err
	}
	if err := checkFits(s, value); err != nil {
		what := "default"
		if p.Default == nil {
			what = "the default of the module; set one for the parameter"
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// CheckProperty checks one value, as from a link, against a property of [Schema.JSON].
func CheckProperty(of json.RawMessage, name string, value json.RawMessage) error {
	if len(value) > MaxParameters {
		return &FieldError{jsonPointer(name), fmt.Sprintf("%d bytes, the limit is %d", len(value), MaxParameters)}
	}
	var document struct {
		Properties map[string]any `json:"properties"`
	}
	var v any
	if err := decodeData(of, maxModuleDepth, &document); err != nil {
		return err
	}
	if err := decodeData(value, maxDepth-1, &v); err != nil {
		return err
	}
	property, ok := document.Properties[name]
	if !ok {
		return &FieldError{jsonPointer(name), "unknown parameter"}
	}
	s, err := schema.Compile(property)
	if err != nil {
		return &FieldError{jsonPointer(name), "unsupported JSON Schema: " + err.Error()}
	}
	if problems := s.Validate(v); len(problems) > 0 {
		return fieldErrors(problems)
	}
	return nil
}

// condition says when a parameter is asked for.
type condition struct {
	of    string                    // the parameter with the condition
	holds map[string]*schema.Schema // by the parameters it depends on, which stand before it
}

func newCondition(of string, when map[string][]json.RawMessage) (condition, error) {
	c := condition{of, map[string]*schema.Schema{}}
	for name, values := range when {
		var list []any
		for _, raw := range values {
			var v any
			if err := decodeData(raw, maxDepth, &v); err != nil {
				return c, err
			}
			list = append(list, v)
		}
		s, err := compileSchema(map[string]any{"enum": list})
		if err != nil {
			return c, err
		}
		c.holds[name] = s
	}
	return c, nil
}

// unaskedParameters returns what is not asked for, given all values.
func unaskedParameters(conditions []condition, values map[string]any) map[string]bool {
	out := map[string]bool{}
	for _, c := range conditions {
		for name, s := range c.holds {
			if value, ok := values[name]; !ok || out[name] || len(s.Validate(value)) > 0 {
				out[c.of] = true
			}
		}
	}
	return out
}

// Unasked returns the parameters of a [Schema.JSON] that are not asked for. A missing value has its
// default; invalid JSON fulfils nothing.
func Unasked(of json.RawMessage, values map[string]json.RawMessage) (map[string]bool, error) {
	var document struct {
		Order      []string `json:"x-okara-order"`
		Properties map[string]struct {
			Default any                          `json:"default"`
			When    map[string][]json.RawMessage `json:"x-okara-when"`
		} `json:"properties"`
	}
	if len(of) == 0 {
		return nil, nil
	}
	if err := decodeData(of, maxModuleDepth, &document); err != nil {
		return nil, err
	}
	decoded := map[string]any{}
	conditions := []condition{}
	for _, name := range document.Order {
		property := document.Properties[name]
		decoded[name] = property.Default
		if raw, given := values[name]; given {
			var v any
			if err := decodeData(raw, maxDepth-1, &v); err != nil {
				v = nil
			}
			decoded[name] = v
		}
		if property.When == nil {
			continue
		}
		c, err := newCondition(name, property.When)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: when: %w", name, err)
		}
		conditions = append(conditions, c)
	}
	return unaskedParameters(conditions, decoded), nil
}

// whenText describes when a parameter is asked for.
func (p Parameter) whenText() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.When)) {
		var values []string
		for _, value := range p.When[name] {
			values = append(values, string(value))
		}
		all = append(all, name+" is "+strings.Join(values, " or "))
	}
	return "only when " + strings.Join(all, ", and ")
}
