// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/schema"
)

// MaxParameters bounds the names and values of all parameters of one request, in bytes.
const MaxParameters = 8 << 10

const (
	maxModuleInputs  = 1 << 20 // size of a module's JSON Schema, in bytes
	maxModuleDepth   = 64
	maxFieldProblems = 20
)

// Module describes the inputs and outputs of a module.
type Module struct {
	Inputs  json.RawMessage // JSON Schema 2020-12 of an object, from the module's description
	Outputs map[string]bool // by name; whether the output is sensitive
	// Refused says why a tool, opentofu or terraform, does not take it as a root module.
	Refused map[string]string
}

// RefusedBy returns why a tool does not take the module as a root module; "" is none.
func (m Module) RefusedBy(tool string) error {
	if why := m.Refused[tool]; why != "" {
		return fmt.Errorf("the executor runs %s, which refuses the module: %s", tool, why)
	}
	return nil
}

// Schema describes valid parameters of a template, for one version of its module. It is immutable.
type Schema struct {
	document   json.RawMessage
	check      *schema.Schema
	defaults   map[string]json.RawMessage // by parameter
	parameters map[string]Parameter
	sensitive  map[string]bool // parameters
	conditions []condition     // of parameters, in the order of the template
	variables  []string        // variables whose values must not appear in logs
	rules      []rule          // of the module's variables, for parameters
	inputs     map[string]ruleInput
}

// NewSchema checks a template against its module: parameters narrow inputs, required ones are set.
func NewSchema(t *Template, m Module) (*Schema, error) {
	b := &schemaBuilder{template: t, module: m, s: &Schema{
		defaults: map[string]json.RawMessage{}, parameters: map[string]Parameter{}, sensitive: map[string]bool{},
	}}
	if err := b.buildSchema(); err != nil {
		return nil, fmt.Errorf("template %s: %w", t.Name, err)
	}
	return b.s, nil
}

// JSON returns a JSON Schema 2020-12 of the parameters, with title, x-okara-help, x-okara-update,
// x-okara-link and x-okara-when, and x-okara-order of the object, without defaults of sensitive
// ones.
func (s *Schema) JSON() json.RawMessage { return s.document }

// Sensitive reports whether a parameter is hidden in answers, pages, logs and notices.
func (s *Schema) Sensitive(parameter string) bool { return s.sensitive[parameter] }

// SensitiveVariables returns a run's variables that no log may show, those made from a secret too.
func (s *Schema) SensitiveVariables() []string { return s.variables }

// IsDefault reports whether a value of a parameter is its default.
func (s *Schema) IsDefault(parameter string, value json.RawMessage) bool {
	var is, usual any
	return json.Unmarshal(value, &is) == nil && json.Unmarshal(s.defaults[parameter], &usual) == nil && reflect.DeepEqual(is, usual)
}

// CheckParameters returns the values, rewritten, with defaults. Errors are [*FieldError]s, joined.
func (s *Schema) CheckParameters(values map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	size := 0
	for name, value := range values {
		size += len(name) + len(value)
	}
	if size > MaxParameters {
		return nil, &FieldError{Text: fmt.Sprintf("%d bytes of parameters, the limit is %d", size, MaxParameters)}
	}
	out := map[string]json.RawMessage{}
	decoded := map[string]any{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, ok := s.parameters[name]; !ok {
			problems = append(problems, &FieldError{jsonPointer(name), "unknown parameter"})
			continue
		}
		if err := s.takeValue(out, decoded, name, values[name]); err != nil {
			problems = append(problems, &FieldError{jsonPointer(name), err.Error()})
		}
	}
	for name, value := range s.defaults {
		if _, given := values[name]; !given {
			if err := s.takeValue(out, decoded, name, value); err != nil {
				problems = append(problems, &FieldError{jsonPointer(name), err.Error()})
			}
		}
	}
	if len(problems) == 0 {
		problems = s.setDefaults(out, decoded)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems[:min(len(problems), maxFieldProblems)]...)
	}
	if problems := s.check.Validate(decoded); len(problems) > 0 {
		return nil, fieldErrors(problems)
	}
	if err := s.checkRules(out); err != nil {
		return nil, err
	}
	return out, nil
}

// setDefaults sets parameters that are not asked for, and refuses other values of them.
func (s *Schema) setDefaults(out map[string]json.RawMessage, decoded map[string]any) (problems []error) {
	unasked := unaskedParameters(s.conditions, decoded)
	for _, name := range slices.Sorted(maps.Keys(unasked)) {
		given := out[name]
		if err := s.takeValue(out, decoded, name, s.defaults[name]); err != nil {
			problems = append(problems, &FieldError{jsonPointer(name), err.Error()})
		} else if string(given) != string(out[name]) {
			problems = append(problems, &FieldError{jsonPointer(name), "applies " + s.parameters[name].whenText() + "; omit it"})
		}
	}
	return problems
}

// takeValue stores a value as it was checked.
func (s *Schema) takeValue(out map[string]json.RawMessage, decoded map[string]any, name string, value json.RawMessage) error {
	plain, err := plainJSON(value, maxDepth-1)
	if err != nil {
		return err
	}
	var v any
	if err := decodeData(plain, maxDepth-1, &v); err != nil {
		return err
	}
	out[name] = plain
	decoded[name] = v
	return nil
}

// CheckUpdate returns the wanted parameters after a change: of an instance once ready only those
// marked update may differ from what it has. What is no longer asked for gets its default.
func (s *Schema) CheckUpdate(have, wanted, change map[string]json.RawMessage, ready bool) (map[string]json.RawMessage, error) {
	merged := map[string]json.RawMessage{}
	for name, value := range wanted {
		if _, ok := s.parameters[name]; ok { // a newer version may have dropped it
			merged[name] = value
		}
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(change)) {
		merged[name] = change[name]
		if p, ok := s.parameters[name]; !ok || p.Update || !ready {
			continue // CheckParameters refuses unknown parameters
		}
		before, given := have[name]
		after, err := plainJSON(change[name], maxDepth-1)
		if given && err == nil {
			before, err = plainJSON(before, maxDepth-1)
		}
		if given && (err != nil || string(before) != string(after)) {
			problems = append(problems, &FieldError{jsonPointer(name), "cannot be changed later"})
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems[:min(len(problems), maxFieldProblems)]...)
	}
	unasked := unaskedParameters(s.conditions, s.decodedValues(merged))
	maps.DeleteFunc(merged, func(name string, value json.RawMessage) bool {
		after, err := plainJSON(value, maxDepth-1)
		_, changed := change[name]
		return unasked[name] && (!changed || err == nil && string(after) == string(have[name]))
	})
	return s.CheckParameters(merged)
}

// decodedValues returns the values with defaults filled in; invalid JSON is left out.
func (s *Schema) decodedValues(values map[string]json.RawMessage) map[string]any {
	out := map[string]json.RawMessage{}
	decoded := map[string]any{}
	for _, all := range []map[string]json.RawMessage{s.defaults, values} {
		for name, value := range all {
			_ = s.takeValue(out, decoded, name, value) // CheckParameters refuses invalid values
		}
	}
	return decoded
}

type schemaBuilder struct {
	template *Template
	module   Module
	s        *Schema

	properties map[string]map[string]any // of the module's inputs
	required   []string                  // by the module
	inputs     map[string]any            // of the template
	narrowed   map[string]map[string]any // the parameters' properties so far
}

func (b *schemaBuilder) buildSchema() error {
	if err := b.readModule(); err != nil {
		return fmt.Errorf("module %s: inputs: %w", b.template.Module.Address, err)
	}
	var err error
	if b.inputs, err = b.template.decodedInputs(); err != nil {
		return err
	}
	b.narrowed = map[string]map[string]any{}
	properties := map[string]any{}
	order := []string{}
	required := []string{}
	for _, p := range b.template.Parameters {
		property, err := b.buildParameter(p)
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
	if b.s.document, err = encodeJSON(document); err != nil {
		return err
	}
	b.readRules()
	b.s.check, err = compileSchema(document)
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
		return errors.New("no description; publish it again with okara")
	}
	if len(b.module.Inputs) > maxModuleInputs {
		return fmt.Errorf("%d bytes, the limit is %d", len(b.module.Inputs), maxModuleInputs)
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

func compileSchema(document any) (*schema.Schema, error) {
	s, err := schema.Compile(document)
	if err != nil {
		return nil, fmt.Errorf("unsupported JSON Schema: %w", err)
	}
	return s, nil
}

func (b *schemaBuilder) checkAllowed(input string, value json.RawMessage) error {
	s, err := compileSchema(b.properties[input])
	if err != nil {
		return err
	}
	return checkFits(s, value)
}

// checkFits returns in one line what is wrong with a value.
func checkFits(s *schema.Schema, value json.RawMessage) error {
	var v any
	if err := decodeData(value, maxDepth, &v); err != nil {
		return err
	}
	if problems := s.Validate(v); len(problems) > 0 {
		return errors.New(strings.ReplaceAll(strings.TrimPrefix(fieldErrors(problems).Error(), ": "), "\n", "; "))
	}
	return nil
}

// checkInputs checks the inputs that the template sets, computing those without references.
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
			variables[name] = variables[name] || slices.ContainsFunc(namesAfter(tree, nameParameters), b.s.Sensitive)
		}
		variables[name] = variables[name] || property["writeOnly"] == true
		if !constant {
			continue
		}
		value, err := v.render(b.inputs[name])
		if err == nil {
			err = b.checkAllowed(name, value)
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

// checkOutputs requires outputs to exist, and no sensitive one in a connection.
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
		for _, name := range namesAfter(tree, nameOutputs) {
			if b.module.Outputs[name] {
				return fmt.Errorf("connection: the output %s is sensitive", name)
			}
		}
		for _, name := range namesAfter(tree, nameParameters) {
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
			return fmt.Errorf("the module requires the input %s; expose it with a parameter or set it in inputs", name)
		}
	}
	return nil
}
