// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/statebackend"
)

func TestText(t *testing.T) {
	locked := &statebackend.LockedError{Workspace: "prod", Repository: "host/state", Held: statebackend.LockInfo{ID: "one"}}
	abandoned := &statebackend.LockedError{Workspace: "a b", Repository: "host/state", Held: statebackend.LockInfo{ID: "x"}, Unreadable: true}
	const (
		lockedText    = "workspace \"prod\" in host/state is locked, lock id one\nhint: if that run is gone: okara state unlock host/state -w prod --id one"
		abandonedText = "workspace \"a b\" in host/state is locked, lock id x\nhint: if the registry crashed while it wrote this tag, nobody holds the lock; retrying for a minute releases it, or release it now: okara state unlock host/state -w 'a b' --id x"
	)
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"no hint", errors.New("a"), "a"},
		{"locked", locked, lockedText},
		{"ghost", abandoned, abandonedText},
		{"nobody to unlock", &statebackend.LockedError{Workspace: "prod", Repository: "host/state"}, "workspace \"prod\" in host/state is locked"},
		{"wrapped", fmt.Errorf("applying: %w", locked), "applying: " + lockedText},
		{"several", errors.Join(locked, errors.New("b"), abandoned), lockedText + "\nb\n" + abandonedText},
		{"not said", fmt.Errorf("short%.0w", locked), fmt.Sprintf("short%.0v", locked)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must.Match(t, "value", states.Remedy(tt.err), tt.want)
		})
	}
}
