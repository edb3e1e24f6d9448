// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// DescribedVariable is one variable of a module.
type DescribedVariable struct {
	Name        string
	Type        string // as written in the configuration; "any" if absent
	Description string
	Default     json.RawMessage // nil if the variable is required
	Required    bool
	Sensitive   bool
	Deprecated  bool
	Ephemeral   bool
	NotNull     bool     // null is not allowed: nullable is false
	Const       bool     // its value must be known at init, before anything is planned
	Advice      string   // why it is deprecated, if its publisher says so
	Validation  []string // the conditions of its validation blocks, as written
}

// Variables returns the variables in the inputs' JSON Schema, in file order; none if it is invalid.
func (d DescribedModule) Variables() []DescribedVariable {
	var schema struct {
		Properties map[string]struct {
			Accepts     json.RawMessage `json:"type"`
			Description string          `json:"description"`
			Default     json.RawMessage `json:"default"`
			Type        string          `json:"x-okara-type"`
			WriteOnly   bool            `json:"writeOnly"`
			Deprecated  bool            `json:"deprecated"`
			Ephemeral   bool            `json:"x-okara-ephemeral"`
			Const       bool            `json:"x-okara-const"`
			Advice      string          `json:"x-okara-deprecated"`
			Validation  []struct {
				Condition string `json:"condition"`
			} `json:"x-okara-validation"`
			More string `json:"x-okara-validations-more"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if len(d.Inputs) == 0 || json.Unmarshal(d.Inputs, &schema) != nil {
		return nil
	}
	all := make([]DescribedVariable, 0, len(d.InputOrder))
	for _, name := range d.InputOrder {
		p := schema.Properties[name]
		one := DescribedVariable{
			Name: name, Type: cmp.Or(p.Type, "any"), Description: p.Description, Default: p.Default, Required: slices.Contains(schema.Required, name),
			Sensitive: p.WriteOnly, Deprecated: p.Deprecated, Ephemeral: p.Ephemeral,
			Const: p.Const, Advice: p.Advice, NotNull: bytes.HasPrefix(p.Accepts, []byte(`"`)), // a list of types includes null
		}
		for _, rule := range p.Validation {
			one.Validation = append(one.Validation, rule.Condition)
		}
		if p.More != "" {
			one.Validation = append(one.Validation, p.More)
		}
		all = append(all, one)
	}
	return all
}
