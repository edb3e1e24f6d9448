// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNotState says that bytes are no state file of OpenTofu or Terraform.
var ErrNotState = errors.New("not a state file")

// CheckState reports whether bytes are a complete state file, else ErrNotState.
func CheckState(state []byte) error {
	if _, _, ok := Meta(state); !ok {
		return fmt.Errorf("no JSON with lineage and serial: %w", ErrNotState)
	}
	if !json.Valid(state) {
		return fmt.Errorf("the JSON is incomplete: %w", ErrNotState)
	}
	return nil
}

// Successor reports whether next may replace head, which is nil where there is
// no state yet: the same lineage and a higher serial, or the same bytes again.
// Otherwise the error is ErrStale. States that OpenTofu encrypted carry both
// fields in clear.
//
// Put does not ask this, since both tools decide it for themselves; it is for
// writes that reach a store without them having seen its current state.
func Successor(head, next []byte) error {
	lineage, serial, ok := Meta(next)
	if !ok {
		return fmt.Errorf("no JSON with lineage and serial: %w", ErrNotState)
	}
	if head == nil || bytes.Equal(head, next) {
		return nil
	}
	headLineage, headSerial, ok := Meta(head)
	if !ok {
		return fmt.Errorf("current state: no JSON with lineage and serial: %w", ErrNotState)
	}
	if headLineage != "" && headLineage != lineage {
		return fmt.Errorf("lineage %q is not %q of the current state, it belongs to another configuration: %w", lineage, headLineage, ErrStale)
	}
	if serial <= headSerial {
		return fmt.Errorf("serial %d does not follow the current %d: %w", serial, headSerial, ErrStale)
	}
	return nil
}
