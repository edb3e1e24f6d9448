// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxModuleInputs  = 1 << 20 // the JSON Schema of a module, in bytes
	maxModuleDepth   = 64
	maxParameters    = 8 << 10 // names and values of one request, in bytes
	maxFieldProblems = 20
)

// Module is what a module says of itself: its inputs and outputs.
type Module struct {
	Inputs  json.RawMessage // JSON Schema 2020-12 of an object, as the description of a module has it
	Outputs map[string]bool // by name; whether it is sensitive
}

// Schema is what the parameters of a template may be, for one version of its
// module. It never changes.
type Schema struct {
	document   json.RawMessage
	check      *jsonschema.Schema
	defaults   map[string]json.RawMessage // by parameter
	parameters map[string]Parameter
	sensitive  map[string]bool // parameters
	variables  []string        // that no log may show
}

// NewSchema holds a template against its module: each parameter narrows an
// input, and no input that the module requires is left open.
func NewSchema(t *Template, m Module) (*Schema, error) {
	b := &schemaBuilder{template: t, module: m, s: &Schema{
		defaults: map[string]json.RawMessage{}, parameters: map[string]Parameter{}, sensitive: map[string]bool{},
	}}
	if err := b.build(); err != nil {
		return nil, fmt.Errorf("template %s: %w", t.Name, err)
	}
	return b.s, nil
}

// JSON is a JSON Schema 2020-12 of an object with a property for each parameter:
// what a form or a client needs. Beside the module's words a property has title,
// x-okara-help, x-okara-update and x-okara-link; the whole has x-okara-order. The
// default of a sensitive one is left out.
func (s *Schema) JSON() json.RawMessage { return s.document }

// Sensitive reports whether no answer, page, log or notice may show a parameter.
func (s *Schema) Sensitive(parameter string) bool { return s.sensitive[parameter] }

// SensitiveVariables names the variables of a run that no log may show: what the
// module calls sensitive, and what is made of a sensitive parameter.
func (s *Schema) SensitiveVariables() []string { return s.variables }

// CheckParameters returns the values, written anew, with the defaults of those
// that are missing. What is wrong is a [*FieldError], or several joined.
func (s *Schema) CheckParameters(values map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	size := 0
	for name, value := range values {
		size += len(name) + len(value)
	}
	if size > maxParameters {
		return nil, &FieldError{Text: fmt.Sprintf("%d bytes of parameters, at most %d", size, maxParameters)}
	}
	out, decoded := map[string]json.RawMessage{}, map[string]any{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, ok := s.parameters[name]; !ok {
			problems = append(problems, &FieldError{pointer(name), "there is no such parameter"})
			continue
		}
		if err := s.take(out, decoded, name, values[name]); err != nil {
			problems = append(problems, &FieldError{pointer(name), err.Error()})
		}
	}
	for name, value := range s.defaults {
		if _, given := values[name]; !given {
			if err := s.take(out, decoded, name, value); err != nil {
				problems = append(problems, &FieldError{pointer(name), err.Error()})
			}
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems[:min(len(problems), maxFieldProblems)]...)
	}
	if err := s.check.Validate(decoded); err != nil {
		return nil, fieldErrors(err)
	}
	return out, nil
}

// take decodes a value and keeps it as it is decoded, so that what was checked is
// what the tool gets.
func (s *Schema) take(out map[string]json.RawMessage, decoded map[string]any, name string, value json.RawMessage) error {
	plain, err := plainJSON(value, maxDepth-1)
	if err != nil {
		return err
	}
	var v any
	if err := decodeData(plain, maxDepth-1, &v); err != nil {
		return err
	}
	out[name], decoded[name] = plain, v
	return nil
}

// CheckUpdate returns the parameters of an instance after a change of some: only
// those that are marked update may have another value.
func (s *Schema) CheckUpdate(have, change map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	merged := map[string]json.RawMessage{}
	for name, value := range have {
		if _, ok := s.parameters[name]; ok { // a newer version may have dropped it
			merged[name] = value
		}
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(change)) {
		merged[name] = change[name]
		p, ok := s.parameters[name]
		if !ok || p.Update {
			continue // CheckParameters refuses what there is not
		}
		before, given := have[name]
		after, err := plainJSON(change[name], maxDepth-1)
		if given && err == nil {
			before, err = plainJSON(before, maxDepth-1)
		}
		if given && (err != nil || string(before) != string(after)) {
			problems = append(problems, &FieldError{pointer(name), "cannot be changed later"})
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems[:min(len(problems), maxFieldProblems)]...)
	}
	return s.CheckParameters(merged)
}

// pointer is a JSON Pointer (RFC 6901).
func pointer(path ...string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return b.String()
}

// schemaBuilder makes a Schema.
type schemaBuilder struct {
	template *Template
	module   Module
	s        *Schema

	compiler   *jsonschema.Compiler
	properties map[string]map[string]any // of the module
	required   []string                  // by the module
	inputs     map[string]any            // of the template
}

const (
	moduleURL   = "okara:module"
	templateURL = "okara:template"
)

func (b *schemaBuilder) build() error {
	if err := b.readModule(); err != nil {
		return fmt.Errorf("module %s: inputs: %w", b.template.Module.Address, err)
	}
	var err error
	if b.inputs, err = b.template.inputs(); err != nil {
		return err
	}
	properties, order, required := map[string]any{}, []string{}, []string{}
	for _, p := range b.template.Parameters {
		property, err := b.parameter(p)
		if err != nil {
			return fmt.Errorf("parameter %s: %w", p.Name, err)
		}
		properties[p.Name] = property
		order = append(order, p.Name)
		if _, ok := b.s.defaults[p.Name]; !ok && slices.Contains(b.required, p.Name) {
			required = append(required, p.Name)
		}
	}
	if err := errors.Join(b.checkInputs(), b.checkOutputs(), b.checkRequired()); err != nil {
		return err
	}
	document := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
		"properties": properties, "required": toAny(required), "x-okara-order": toAny(order),
	}
	if b.s.document, err = encode(document); err != nil {
		return err
	}
	b.s.check, err = b.compile(templateURL, document, "")
	return err
}

func toAny(list []string) []any {
	out := []any{}
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// readModule takes the schema of a module, which others wrote.
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
	b.properties, b.required = whole.Properties, whole.Required
	properties := map[string]any{}
	for name, p := range whole.Properties {
		if err := checkKeywords(p); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		properties[name] = p
	}
	b.compiler = jsonschema.NewCompiler()
	b.compiler.UseLoader(nil) // nothing is read from anywhere
	return b.compiler.AddResource(moduleURL, map[string]any{"properties": properties})
}

// checkKeywords refuses a schema that refers to another: a module's says all
// itself.
func checkKeywords(v any) error {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			if err := checkKeywords(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, element := range v {
			if strings.HasPrefix(key, "$") {
				return fmt.Errorf("the keyword %q is not allowed", key)
			}
			if slices.Contains([]string{"default", "enum", "const", "examples"}, key) {
				continue // data
			}
			if err := checkKeywords(element); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *schemaBuilder) compile(url string, document any, fragment string) (*jsonschema.Schema, error) {
	if document != nil {
		if err := b.compiler.AddResource(url, document); err != nil {
			return nil, err
		}
	}
	s, err := b.compiler.Compile(url + fragment)
	if err != nil {
		return nil, fmt.Errorf("its JSON Schema cannot be used: %w", err)
	}
	return s, nil
}

// allows reports what is wrong with a value of an input of the module.
func (b *schemaBuilder) allows(input string, value json.RawMessage) error {
	s, err := b.compile(moduleURL, nil, "#"+pointer("properties", input))
	if err != nil {
		return err
	}
	var v any
	if err := decodeData(value, maxDepth, &v); err != nil {
		return err
	}
	if err := s.Validate(v); err != nil {
		return errors.New(strings.ReplaceAll(strings.TrimPrefix(fieldErrors(err).Error(), ": "), "\n", "; "))
	}
	return nil
}

// parameter is the property of one: the module's, narrowed.
func (b *schemaBuilder) parameter(p Parameter) (map[string]any, error) {
	input, ok := b.properties[p.Name]
	if !ok {
		return nil, errors.New("the module has no such input")
	}
	out := maps.Clone(input)
	b.s.parameters[p.Name] = p
	if input["writeOnly"] == true {
		b.s.sensitive[p.Name] = true
	}
	if err := b.narrow(out, input, p); err != nil {
		return nil, err
	}
	if p.Default == nil {
		if module, ok := input["default"]; ok {
			raw, err := encode(module)
			if err != nil {
				return nil, err
			}
			b.s.defaults[p.Name] = raw
		}
	} else {
		b.s.defaults[p.Name] = p.Default
	}
	if value, ok := b.s.defaults[p.Name]; ok {
		if err := b.checkDefault(p, out, value); err != nil {
			return nil, err
		}
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
	out["x-okara-link"], out["x-okara-update"] = p.Link && !b.s.sensitive[p.Name], p.Update
	if p.Title != "" {
		out["title"] = p.Title
	}
	if p.Help != "" {
		out["x-okara-help"] = p.Help
	}
	return out, nil
}

// narrow takes what the template says over, unless it would allow more than the
// module does.
func (b *schemaBuilder) narrow(out, input map[string]any, p Parameter) error {
	if p.Enum != nil {
		values := []any{}
		for _, raw := range p.Enum {
			if err := b.allows(p.Name, raw); err != nil {
				return fmt.Errorf("enum: %s: the module does not take it: %w", raw, err)
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
			return errors.New("pattern: the input is no text")
		}
		if module, ok := input["pattern"]; ok {
			out["allOf"] = append(list(input["allOf"]), map[string]any{"pattern": module})
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
			return fmt.Errorf("%s: the input is no number", bound.name)
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

func list(v any) []any {
	l, _ := v.([]any)
	return slices.Clone(l)
}

func hasType(schema map[string]any, name string) bool {
	return schema["type"] == name || slices.Contains(list(schema["type"]), any(name))
}

// checkDefault holds a default against the narrowed schema; null is what the
// module has for "not given".
func (b *schemaBuilder) checkDefault(p Parameter, property map[string]any, value json.RawMessage) error {
	if p.Default == nil && string(value) == "null" && hasType(property, "null") && p.Enum == nil {
		return nil
	}
	property = maps.Clone(property)
	delete(property, "default")
	s, err := b.compile("okara:parameter:"+p.Name, property, "")
	if err != nil {
		return err
	}
	var v any
	if err := decodeData(value, maxDepth, &v); err != nil {
		return fmt.Errorf("default: %w", err)
	}
	if err := s.Validate(v); err != nil {
		what := "default"
		if p.Default == nil {
			what = "the default of the module; give the parameter one"
		}
		return fmt.Errorf("%s: %s", what, strings.ReplaceAll(strings.TrimPrefix(fieldErrors(err).Error(), ": "), "\n", "; "))
	}
	return nil
}

// checkInputs looks at what the template sets itself. What names nothing is
// computed now and held against the module.
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

// checkOutputs wants the outputs of the template to be the module's, and nothing
// sensitive in a connection, which everybody sees who sees the instance.
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

// checkRequired finds inputs that nobody would set.
func (b *schemaBuilder) checkRequired() error {
	for _, name := range b.required {
		_, set := b.inputs[name]
		if _, open := b.s.parameters[name]; !open && !set {
			return fmt.Errorf("the module requires the input %s; open it with a parameter or set it in inputs", name)
		}
	}
	return nil
}
