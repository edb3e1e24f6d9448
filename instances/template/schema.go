// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

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
}

// Schema describes the valid parameters of a template, for one version of its module. It
// is immutable.
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

// NewSchema checks a template against its module: each parameter narrows an input, and
// each input that the module requires is set.
func NewSchema(t *Template, m Module) (*Schema, error) {
	b := &schemaBuilder{template: t, module: m, s: &Schema{
		defaults: map[string]json.RawMessage{}, parameters: map[string]Parameter{}, sensitive: map[string]bool{},
	}}
	if err := b.build(); err != nil {
		return nil, fmt.Errorf("template %s: %w", t.Name, err)
	}
	return b.s, nil
}

// JSON returns a JSON Schema 2020-12 of an object with a property for each parameter, for
// forms and clients. Besides the module's keywords a property has title, x-okara-help,
// x-okara-update, x-okara-link and x-okara-when; the object has x-okara-order. Defaults
// of sensitive parameters are left out.
func (s *Schema) JSON() json.RawMessage { return s.document }

// Sensitive reports whether a parameter must be hidden in answers, pages, logs and
// notices.
func (s *Schema) Sensitive(parameter string) bool { return s.sensitive[parameter] }

// SensitiveVariables returns the variables of a run whose values must not appear in logs:
// those that the module calls sensitive, and those made from a sensitive parameter.
func (s *Schema) SensitiveVariables() []string { return s.variables }

// CheckParameters returns the values, rewritten, with defaults for missing ones. Errors
// are a [*FieldError], or several joined.
func (s *Schema) CheckParameters(values map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	size := 0
	for name, value := range values {
		size += len(name) + len(value)
	}
	if size > MaxParameters {
		return nil, &FieldError{Text: fmt.Sprintf("%d bytes of parameters, at most %d", size, MaxParameters)}
	}
	out := map[string]json.RawMessage{}
	decoded := map[string]any{}
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
	if len(problems) == 0 {
		problems = s.rest(out, decoded)
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

// rest sets parameters that are not asked for to their defaults, and refuses other values
// of them: the caller would expect such a value to have an effect.
func (s *Schema) rest(out map[string]json.RawMessage, decoded map[string]any) (problems []error) {
	unasked := unasked(s.conditions, decoded)
	for _, name := range slices.Sorted(maps.Keys(unasked)) {
		given := out[name]
		if err := s.take(out, decoded, name, s.defaults[name]); err != nil {
			problems = append(problems, &FieldError{pointer(name), err.Error()})
		} else if string(given) != string(out[name]) {
			problems = append(problems, &FieldError{pointer(name), "counts " + s.parameters[name].whenText() + "; leave it out"})
		}
	}
	return problems
}

// take decodes a value and stores it in its rewritten form, so that the tool gets exactly
// what was checked.
func (s *Schema) take(out map[string]json.RawMessage, decoded map[string]any, name string, value json.RawMessage) error {
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

// CheckUpdate returns the parameters of an instance after some were changed. If the
// instance was ever ready, only parameters marked update may change. Those that are no
// longer asked for get their defaults.
func (s *Schema) CheckUpdate(have, change map[string]json.RawMessage, ready bool) (map[string]json.RawMessage, error) {
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
		if !ok || p.Update || !ready {
			continue // CheckParameters refuses unknown parameters
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
	unasked := unasked(s.conditions, s.decoded(merged))
	maps.DeleteFunc(merged, func(name string, value json.RawMessage) bool {
		after, err := plainJSON(value, maxDepth-1)
		_, changed := change[name]
		return unasked[name] && (!changed || err == nil && string(after) == string(have[name]))
	})
	return s.CheckParameters(merged)
}

// decoded returns the values with defaults filled in; invalid JSON is left out.
func (s *Schema) decoded(values map[string]json.RawMessage) map[string]any {
	out := map[string]json.RawMessage{}
	decoded := map[string]any{}
	for _, all := range []map[string]json.RawMessage{s.defaults, values} {
		for name, value := range all {
			_ = s.take(out, decoded, name, value) // CheckParameters refuses invalid values
		}
	}
	return decoded
}
