// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"encoding/json"
	"fmt"
)

// Output is one output of a state.
type Output struct {
	Value     json.RawMessage
	Sensitive bool // the configuration says so
}

// Outputs reads those of a state file, by name. One that OpenTofu encrypted is
// [ErrEncrypted].
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
