// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// StateExistsError means that the workspace of a new object exists already (StateExists).
type StateExistsError struct{ State, Workspace string }

func (e *StateExistsError) Error() string {
	return fmt.Sprintf(`state %s already has a workspace %s of an earlier object: to adopt it, an administrator can set okara.dev/adopt-state: "true"`, e.State, e.Workspace)
}

// NotOwnerError means that a state of what has run is another's now, or deleted (StateNotOwned).
type NotOwnerError struct {
	State, Workspace string
	Owner            string // "" if it has none
	Deleted          bool
}

func (e *NotOwnerError) Error() string {
	what := "belongs to " + e.Owner
	switch {
	case e.Deleted:
		what = "was deleted"
	case e.Owner == "":
		what = "no longer has an owner"
	}
	return fmt.Sprintf("workspace %s of state %s %s: this object was restored from a backup, or also exists in another cluster of this name; it is not run", e.Workspace, e.State, what)
}

// Check returns nil while a run's object owns its state, else [*NotOwnerError].
func (a *Access) Check(ctx context.Context, r Run) error {
	_, l, err := openListing(ctx, a, r.Namespace)
	if err != nil {
		return err
	}
	is, err := l.Record(ctx, r.Workspace)
	if err != nil || is != nil && !is.Deleted && is.Owner == r.Subject() {
		return err
	}
	return a.notOwner(r, is)
}

func (a *Access) notOwner(r Run, is *statebackend.Record) error {
	e := &NotOwnerError{State: a.StateName(r.Namespace), Workspace: r.Workspace}
	if is != nil {
		e.Owner = is.Owner
		e.Deleted = is.Deleted
	}
	return e
}

// claimState makes the object owner of a new state, or of one it may adopt; before: it has run.
func (a *Access) claimState(ctx context.Context, r Run, before bool) error {
	s, l, err := openListing(ctx, a, r.Namespace)
	if err != nil {
		return fmt.Errorf("looking for workspace %s: %w", r.Workspace, err)
	}
	if err := a.endAbandoned(ctx, s, l, r); err != nil {
		return err
	}
	is, err := l.Record(ctx, r.Workspace)
	live := is != nil && !is.Deleted
	switch {
	case err != nil || live && is.Owner == r.Subject():
		return err
	case r.Adopt:
	case before, is != nil && is.Owner == r.Subject():
		return a.notOwner(r, is)
	case live:
		return &StateExistsError{a.StateName(r.Namespace), r.Workspace}
	default:
		// A sealed state does not reveal to the registry whether it is marked as deleted.
		state, err := a.readState(ctx, r)
		if err != nil {
			return err
		}
		if state != nil {
			return &StateExistsError{a.StateName(r.Namespace), r.Workspace}
		}
	}
	if err := a.writeOwner(ctx, s, r); err != nil {
		return fmt.Errorf("making the object the owner of workspace %s: %w", r.Workspace, err)
	}
	return a.Check(ctx, r) // of two concurrent writers one wins
}

// writeOwner writes the record under the lock of the workspace.
func (a *Access) writeOwner(ctx context.Context, s *statebackend.Store, r Run) error {
	ctx, cancel := context.WithTimeout(ctx, lockedTimeout)
	defer cancel()
	return s.Hold(ctx, r.Workspace, a.newLock(lockOwner, r), func(*statebackend.Lock) error {
		_, err := s.Workspaces().Change(ctx, r.Workspace, func(w *statebackend.Record) error {
			w.Owner = r.Subject()
			w.By = a.operatorName()
			return nil
		})
		return err
	})
}

// endAbandoned breaks a killed operator's lock, which would block the run for ever.
func (a *Access) endAbandoned(ctx context.Context, s *statebackend.Store, l *statebackend.Listing, r Run) error {
	held, err := l.Held(ctx, r.Workspace)
	if err != nil || held == nil || !a.mayBreakLock(held.Info, r) {
		return err
	}
	if err := s.ForceUnlock(ctx, r.Workspace, held.Info.ID); err != nil && !errors.Is(err, oci.ErrNotFound) {
		return fmt.Errorf("removing the lock of an operator that was killed: %w", err)
	}
	return nil
}

func (a *Access) operatorName() string { return a.o.Issuer.Name() }
