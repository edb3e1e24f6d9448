// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"

	"github.com/seed-141914ff/okara/instances/internal/schema"
)

// CheckProperty holds a value against one property of a schema as [Schema.JSON]
// returns it. It is for a value that comes alone, as from a link: whether a whole
// request is good says [Schema.CheckParameters].
func CheckProperty(of json.RawMessage, name string, value json.RawMessage) error {
	if len(value) > maxParameters {
		return &FieldError{pointer(name), fmt.Sprintf("%d bytes, at most %d", len(value), maxParameters)}
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
