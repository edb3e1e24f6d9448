// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// OtherStateError says that a workspace's state is not in the source. It is an oci.ErrExists.
type OtherStateError struct{ Serial uint64 }

func (e *OtherStateError) Error() string {
	return fmt.Sprintf("the current state, serial %d, is not among the versions of the source", e.Serial)
}

func (e *OtherStateError) Unwrap() error { return oci.ErrExists }

// Import writes the versions that a workspace lacks, and returns how many it had and got.
func Import(ctx context.Context, l *statebackend.Lock, versions []Version) (present, written int, err error) {
	head, _, err := l.Get(ctx)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return 0, 0, err
	}
	if present, err = countStored(ctx, head, versions); err != nil {
		return 0, 0, err
	}
	for _, v := range versions[present:] {
		state, err := v.Load(ctx)
		if err != nil {
			return present, written, err
		}
		if _, err := l.Put(ctx, state); err != nil {
			return present, written, fmt.Errorf("%s: %w", v.Label, err)
		}
		written++
	}
	return present, written, nil
}

// countStored returns how many versions are already stored. head must be one of them, or nil.
func countStored(ctx context.Context, head []byte, versions []Version) (int, error) {
	if head == nil {
		return 0, nil
	}
	_, serial, _ := statebackend.Meta(head)
	for i, v := range slices.Backward(versions) {
		if v.Serial != serial {
			continue
		}
		state, err := v.Load(ctx)
		if err != nil {
			return 0, err
		}
		if bytes.Equal(state, head) {
			return i + 1, nil
		}
	}
	return 0, &OtherStateError{serial}
}
