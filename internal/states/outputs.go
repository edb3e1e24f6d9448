// SPDX-License-Identifier: Apache-2.0

package states

import (
	"encoding/json"
	"fmt"
)

// Output is one output of a state.
type Output struct {
	Value     json.RawMessage
	Type      json.RawMessage // in cty's encoding: "string", ["list","number"]
	Sensitive bool            // according to the configuration
}

// Outputs reads the outputs of a state file, by name. If OpenTofu encrypted it, the error
// is [ErrEncrypted].
func Outputs(state []byte) (map[string]Output, error) {
	var d struct {
		Outputs           map[string]Output `json:"outputs"`
		Encrypted         json.RawMessage   `json:"encrypted_data"`
		EncryptionVersion json.RawMessage   `json:"encryption_version"`
	}
	if err := json.Unmarshal(state, &d); err != nil {
		return nil, fmt.Errorf("not a state file: %w", err)
	}
	if d.Encrypted != nil || d.EncryptionVersion != nil {
		return nil, ErrEncrypted
	}
	return d.Outputs, nil
}

// HasResources reports whether a state file has instances of managed resources. If
// OpenTofu encrypted it, the error is [ErrEncrypted].
func HasResources(state []byte) (bool, error) {
	var d struct {
		Resources []struct {
			Mode      string     `json:"mode"`
			Instances []struct{} `json:"instances"`
		} `json:"resources"`
		Encrypted         json.RawMessage `json:"encrypted_data"`
		EncryptionVersion json.RawMessage `json:"encryption_version"`
	}
	if err := json.Unmarshal(state, &d); err != nil {
		return false, fmt.Errorf("not a state file: %w", err)
	}
	if d.Encrypted != nil || d.EncryptionVersion != nil {
		return false, ErrEncrypted
	}
	for _, r := range d.Resources {
		if r.Mode == ModeManaged && len(r.Instances) > 0 {
			return true, nil
		}
	}
	return false, nil
}
