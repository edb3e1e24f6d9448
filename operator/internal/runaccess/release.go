// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/statebackend"
)

// KeptError means that a state stays, as it has or may have resources (DestroyFailed).
type KeptError struct{ State, Workspace, Why string }

func (e *KeptError) Error() string {
	return fmt.Sprintf("workspace %s of state %s is kept: %s", e.Workspace, e.State, e.Why)
}

// Release deletes the state of a run whose Terraform is gone, and marks its record as
// deleted. Since the controller reported that everything was destroyed, a state that
// OpenTofu encrypted counts as empty. Release may be repeated. For a state with resources
// the error is a [*KeptError], for one that belongs to another object a [*NotOwnerError].
//
// The record is marked before the state is deleted: after an interruption in between, the
// workspace still exists because of its state, and the next call finishes.
func (a *Access) Release(ctx context.Context, r Run) error {
	if err := a.checkNames(r); err != nil {
		return err
	}
	s, l, err := openListing(ctx, a, r.Namespace)
	if err != nil {
		return err
	}
	is, err := l.Record(ctx, r.Workspace)
	switch {
	case err != nil:
		return err
	case is == nil: // the run never had a token
		return nil
	case is.Owner != r.Subject():
		return a.notOwner(r, is)
	}
	if state, err := a.readState(ctx, r); is.Deleted && state == nil {
		return err
	}
	return a.underLock(ctx, r, func(id string) error {
		state, err := a.readState(ctx, r)
		if err != nil {
			return err
		}
		if err := a.checkEmpty(r, state, true); err != nil {
			return err
		}
		if err := s.Workspaces().MarkDeleted(ctx, r.Workspace, a.operatorName()); err != nil || state == nil {
			return err
		}
		_, err = a.sendRequest(ctx, r, http.MethodDelete, id, nil)
		return err
	})
}

func (a *Access) keptError(r Run, why string) error {
	return &KeptError{a.StateName(r.Namespace), r.Workspace, why}
}

// ListLeaves returns the addresses that destroying a run will leave behind, as its state says.
func (a *Access) ListLeaves(ctx context.Context, r Run) ([]string, error) {
	state, err := a.readState(ctx, r)
	return states.LeftBehind(state), err
}

// checkEmpty returns nil for a state without resources.
func (a *Access) checkEmpty(r Run, state []byte, destroyed bool) error {
	if state == nil {
		return nil
	}
	has, err := states.HasResources(state)
	switch {
	case errors.Is(err, states.ErrEncrypted) && destroyed:
		return nil
	case errors.Is(err, states.ErrEncrypted):
		return a.keptError(r, "it is encrypted, and no run reported that everything was destroyed")
	case err != nil:
		return a.keptError(r, err.Error())
	case has:
		return a.keptError(r, "it has resources")
	}
	return nil
}

// Operations of the locks that an operator takes on the state of a run.
const (
	lockOwner   = "owner"
	lockRelease = "release"
)

// Work under such a lock takes at most lockedTimeout. One older than abandonedAfter, clocks allowed
// for, is a killed operator's.
const (
	lockedTimeout  = 2 * time.Minute
	abandonedAfter = 5 * time.Minute
)

func (a *Access) newLock(operation string, r Run) statebackend.LockInfo {
	return statebackend.LockInfo{ID: uuid.NewString(), Operation: operation, Who: a.operatorName(), Info: "state of " + r.Subject(), Created: time.Now().UTC()}
}

// mayBreakLock reports whether a lock for this run may be broken: a killed operator's release lock,
// or an owner lock, whose write is idempotent.
func (a *Access) mayBreakLock(held statebackend.LockInfo, r Run) bool {
	ours := a.newLock(held.Operation, r)
	if held.Who != ours.Who || held.Info != ours.Info {
		return false
	}
	old := ours.Created.Sub(held.Created) >= abandonedAfter
	return held.Operation == lockOwner || held.Operation == lockRelease && old
}

func (a *Access) underLock(ctx context.Context, r Run, do func(id string) error) error {
	ctx, cancel := context.WithTimeout(ctx, lockedTimeout)
	defer cancel()
	lock := a.newLock(lockRelease, r)
	if err := takeLock(ctx, a, r, lock); err != nil {
		return err
	}
	err := do(lock.ID)
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), frontTimeout)
	defer cancel()
	if unlockErr := a.setLock(ctx, r, methodUnlock, lock); err == nil {
		err = unlockErr
	}
	return err
}

// takeLock takes the lock, also from an operator that was killed.
func takeLock(ctx context.Context, a *Access, r Run, lock statebackend.LockInfo) error {
	err := a.setLock(ctx, r, methodLock, lock)
	e, locked := errors.AsType[*statebackend.LockedError](err)
	if !locked || !a.mayBreakLock(e.Held, r) {
		return err
	}
	if err := a.setLock(ctx, r, methodUnlock, e.Held); err != nil {
		return err
	}
	return a.setLock(ctx, r, methodLock, lock)
}

func (a *Access) setLock(ctx context.Context, r Run, method string, lock statebackend.LockInfo) error {
	info, err := json.Marshal(lock)
	if err != nil {
		return err
	}
	_, err = a.sendRequest(ctx, r, method, "", info)
	return err
}

// Namespaces returns the namespaces with states of this cluster's runs, deleted ones too.
func (a *Access) Namespaces(ctx context.Context) ([]string, error) {
	if a.o.States == nil {
		return nil, nil
	}
	names, err := a.o.States(ctx)
	var in []string
	for _, name := range names {
		if ns, ours := strings.CutPrefix(name, a.StateName("")); ours && !strings.Contains(ns, ".") {
			in = append(in, ns)
		}
	}
	return in, err
}

// Unowned counts a namespace's states whose object is gone and that have, or may have, resources.
func (a *Access) Unowned(ctx context.Context, namespace string, live func(types.UID) bool) (int, error) {
	_, l, err := openListing(ctx, a, namespace)
	if err != nil {
		return 0, err
	}
	all, err := l.Workspaces(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, w := range all {
		if w.Live() == nil {
			continue
		}
		uid, run := strings.CutPrefix(w.Live().Owner, Subject(namespace, ""))
		if !run || live(types.UID(uid)) {
			continue
		}
		r := Run{Namespace: namespace, UID: types.UID(uid), Workspace: w.Name}
		state, err := a.readState(ctx, r)
		if err != nil {
			return 0, err
		}
		if a.checkEmpty(r, state, false) != nil {
			n++
		}
	}
	return n, nil
}
