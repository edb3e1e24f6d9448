// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CheckProperty holds a value against one property of a schema as [Schema.JSON]
// returns it. It is for a value that comes alone, as from a link: whether a whole
// request is good says [Schema.CheckParameters].
func CheckProperty(schema json.RawMessage, name string, value json.RawMessage) error {
	if len(value) > maxParameters {
		return &FieldError{pointer(name), fmt.Sprintf("%d bytes, at most %d", len(value), maxParameters)}
	}
	var document, v any
	if err := decodeData(schema, maxModuleDepth, &document); err != nil {
		return err
	}
	if err := decodeData(value, maxDepth-1, &v); err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nil) // nothing is read from anywhere
	if err := c.AddResource(templateURL, document); err != nil {
		return err
	}
	property, err := c.Compile(templateURL + "#" + pointer("properties", name))
	if err != nil {
		return &FieldError{pointer(name), "there is no such parameter"}
	}
	if err := property.Validate(v); err != nil {
		return fieldErrors(err)
	}
	return nil
}
