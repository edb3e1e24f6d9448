// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"encoding/json"
	"errors"
)

// Scope is what the expressions of a template may name.
type Scope struct {
	ID         string
	Owner      Owner
	Parameters map[string]json.RawMessage // as [Schema.CheckParameters] returned them
	Claims     map[string]string          // those of [Template.Claims]
	Config     map[string]string          // free values of the server
	Outputs    map[string]json.RawMessage // in connections only
}

// Render returns the variables of a run: the parameters and what inputs says.
func Render(t *Template, s Scope) (map[string]json.RawMessage, error) {
	return nil, errors.ErrUnsupported
}

// RenderConnection returns how to reach what was made: as the template says,
// else by the output url; nil if neither says anything.
func RenderConnection(t *Template, s Scope) (*Connection, error) {
	return nil, errors.ErrUnsupported
}
