// SPDX-License-Identifier: Apache-2.0

package states

import (
	"encoding/json"
	"slices"
)

// Output is one output of a state.
type Output struct {
	Value     json.RawMessage
	Type      json.RawMessage // in cty's encoding: "string", ["list","number"]; nil: not known, as until version 3
	Sensitive bool            // according to the configuration
}

// Outputs reads a state's outputs by name. The error may be [ErrEncrypted].
func Outputs(state []byte) (map[string]Output, error) {
	d, err := indexState(state)
	if err != nil {
		return nil, err
	}
	all := map[string]Output{}
	for _, e := range d.entries {
		if e.of.Mode != ModeOutput {
			continue
		}
		m, err := membersOf(newDecoder(orNull(e.json)))
		if err != nil { // until version 2 an output is its value
			m = members{"value": e.json}
		}
		o := Output{Value: json.RawMessage(m["value"]), Sensitive: string(m["sensitive"]) == "true"}
		if !d.old {
			o.Type = json.RawMessage(m["type"])
		}
		all[e.of.Name] = o
	}
	return all, nil
}

// HasResources reports whether a state has managed instances. The error may be [ErrEncrypted].
func HasResources(state []byte) (bool, error) {
	d, err := indexState(state)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(d.entries, func(e entry) bool { return e.of.Mode == ModeManaged }), nil
}
