// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/schema"
)

// schemaBuilder builds a Schema.
type schemaBuilder struct {
	template *Template
	module   Module
	s        *Schema

	properties map[string]map[string]any // of the module's inputs
	required   []string                  // by the module
	inputs     map[string]any            // of the template
	narrowed   map[string]map[string]any // the parameters' properties so far
}

func (b *schemaBuilder) build() error {
	if err := b.readModule(); err != nil {
		return fmt.Errorf("module %s: inputs: %w", b.template.Module.Address, err)
	}
	var err error
	if b.inputs, err = b.template.inputs(); err != nil {
		return err
	}
	b.narrowed = map[string]map[string]any{}
	properties := map[string]any{}
	order := []string{}
	required := []string{}
	for _, p := range b.template.Parameters {
		property, err := b.parameter(p)
		if err != nil {
			return fmt.Errorf("parameter %s: %w", p.Name, err)
		}
		properties[p.Name] = property
		b.narrowed[p.Name] = property
		order = append(order, p.Name)
		if _, ok := b.s.defaults[p.Name]; !ok && slices.Contains(b.required, p.Name) {
			required = append(required, p.Name)
		}
	}
	if err := errors.Join(b.checkInputs(), b.checkOutputs(), b.checkSchedule(), b.checkRequired()); err != nil {
		return err
	}
	document := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
		"properties": properties, "required": toAny(required), "x-okara-order": toAny(order),
	}
	if b.s.document, err = encode(document); err != nil {
		return err
	}
	b.readRules()
	b.s.check, err = compile(document)
	return err
}

func toAny(list []string) []any {
	out := []any{}
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// readModule reads the schema of a module, which is untrusted.
func (b *schemaBuilder) readModule() error {
	if len(b.module.Inputs) == 0 {
		return errors.New("it has no description; publish it again with okara")
	}
	if len(b.module.Inputs) > maxModuleInputs {
		return fmt.Errorf("%d bytes, at most %d", len(b.module.Inputs), maxModuleInputs)
	}
	var whole struct {
		Properties map[string]map[string]any `json:"properties"`
		Required   []string                  `json:"required"`
	}
	if err := decodeData(b.module.Inputs, maxModuleDepth, &whole); err != nil {
		return err
	}
	b.properties = whole.Properties
	b.required = whole.Required
	return nil
}

func compile(document any) (*schema.Schema, error) {
	s, err := schema.Compile(document)
	if err != nil {
		return nil, fmt.Errorf("its JSON Schema cannot be used: %w", err)
	}
	return s, nil
}

// allows returns what is wrong with a value for an input of the module.
func (b *schemaBuilder) allows(input string, value json.RawMessage) error {
	s, err := compile(b.properties[input])
	if err != nil {
		return err
	}
	return fits(s, value)
}

// fits returns in one line what is wrong with a value.
func fits(s *schema.Schema, value json.RawMessage) error {
	var v any
	if err := decodeData(value, maxDepth, &v); err != nil {
		return err
	}
	if problems := s.Validate(v); len(problems) > 0 {
		return errors.New(strings.ReplaceAll(strings.TrimPrefix(fieldErrors(problems).Error(), ": "), "\n", "; "))
	}
	return nil
}

// checkInputs checks the inputs that the template sets. Those without references are
// computed now and checked against the module.
func (b *schemaBuilder) checkInputs() error {
	v, err := Scope{}.evaluator(b.template)
	if err != nil {
		return err
	}
	variables := map[string]bool{}
	for name := range b.s.sensitive {
		variables[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(b.inputs)) {
		property, ok := b.properties[name]
		if !ok {
			return fmt.Errorf("inputs: the module has no input %s", name)
		}
		constant := true
		for _, text := range stringsIn(b.inputs[name]) {
			tree, err := parseTree(text)
			if err != nil {
				return fmt.Errorf("inputs.%s: %w", name, err)
			}
			constant = constant && len(tree.Variables()) == 0
			variables[name] = variables[name] || slices.ContainsFunc(named(tree, nameParameters), b.s.Sensitive)
		}
		variables[name] = variables[name] || property["writeOnly"] == true
		if !constant {
			continue
		}
		value, err := v.render(b.inputs[name])
		if err == nil {
			err = b.allows(name, value)
		}
		if err != nil {
			return fmt.Errorf("inputs.%s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if variables[name] {
			b.s.variables = append(b.s.variables, name)
		}
	}
	return nil
}

// checkOutputs requires the template's outputs to exist in the module, and refuses
// sensitive values in a connection, which is shown to all users who can see the instance.
func (b *schemaBuilder) checkOutputs() error {
	for _, name := range b.template.Outputs {
		if _, ok := b.module.Outputs[name]; !ok {
			return fmt.Errorf("outputs: the module has no output %s", name)
		}
	}
	if b.template.Connection == nil {
		return nil
	}
	for _, text := range []string{b.template.Connection.URL, b.template.Connection.Message} {
		tree, err := parseTree(text)
		if err != nil {
			return fmt.Errorf("connection: %w", err)
		}
		for _, name := range named(tree, nameOutputs) {
			if b.module.Outputs[name] {
				return fmt.Errorf("connection: the output %s is sensitive", name)
			}
		}
		for _, name := range named(tree, nameParameters) {
			if b.s.sensitive[name] {
				return fmt.Errorf("connection: the parameter %s is sensitive", name)
			}
		}
	}
	return nil
}

// checkRequired refuses required inputs of the module that are not set.
func (b *schemaBuilder) checkRequired() error {
	for _, name := range b.required {
		_, set := b.inputs[name]
		set = set || b.template.Schedule != nil && b.template.Schedule.Variable == name
		if _, open := b.s.parameters[name]; !open && !set {
			return fmt.Errorf("the module requires the input %s; open it with a parameter or set it in inputs", name)
		}
	}
	return nil
}
