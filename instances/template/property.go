// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/schema"
)

// CheckProperty checks a value against one property of a schema returned by
// [Schema.JSON]. It is for single values, such as those from a link; a whole request is
// checked by [Schema.CheckParameters].
func CheckProperty(of json.RawMessage, name string, value json.RawMessage) error {
	if len(value) > MaxParameters {
		return &FieldError{pointer(name), fmt.Sprintf("%d bytes, at most %d", len(value), MaxParameters)}
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
		return &FieldError{pointer(name), "there is no such parameter"}
	}
	s, err := schema.Compile(property)
	if err != nil {
		return &FieldError{pointer(name), "its JSON Schema cannot be used: " + err.Error()}
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
		s, err := compile(map[string]any{"enum": list})
		if err != nil {
			return c, err
		}
		c.holds[name] = s
	}
	return c, nil
}

// unasked returns the parameters that are not asked for, given the values of all
// parameters with defaults filled in.
func unasked(conditions []condition, values map[string]any) map[string]bool {
	out := map[string]bool{}
	for _, c := range conditions {
		for name, s := range c.holds {
			value, ok := values[name]
			if !ok || out[name] || len(s.Validate(value)) > 0 {
				out[c.of] = true
			}
		}
	}
	return out
}

// Unasked returns the parameters of a schema returned by [Schema.JSON] that are not asked
// for, given some values. A missing value has its default; invalid JSON satisfies no
// condition.
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
	return unasked(conditions, decoded), nil
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
