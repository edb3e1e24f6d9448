// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"encoding/json"
	"errors"
)

// Module is what a module says of itself: its inputs and outputs.
type Module struct {
	Inputs  json.RawMessage // JSON Schema 2020-12 of an object, as the description of a module has it
	Outputs map[string]bool // by name; whether it is sensitive
}

// Schema is what the parameters of a template may be, for one version of its
// module. It never changes.
type Schema struct {
	document json.RawMessage
}

// JSON is a JSON Schema 2020-12 of an object with a property for each parameter:
// what a form or a client needs. Beside the module's words it has title,
// x-okara-help, x-okara-update and x-okara-link, and x-okara-order of the whole.
func (s *Schema) JSON() json.RawMessage { return s.document }

// CheckParameters returns the values with the defaults of those that are
// missing. What is wrong is a [*FieldError], or several joined.
func (s *Schema) CheckParameters(values map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	return nil, errors.ErrUnsupported
}

// CheckUpdate returns the parameters of an instance after a change of some: only
// those that are marked update may have another value.
func (s *Schema) CheckUpdate(have, change map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	return nil, errors.ErrUnsupported
}

// Sensitive reports whether no answer, page, log or notice may show a parameter.
func (s *Schema) Sensitive(parameter string) bool { return false }

// SensitiveVariables names the variables of a run that no log may show: what the
// module calls sensitive, and what is made of a sensitive parameter.
func (s *Schema) SensitiveVariables() []string { return nil }
