// SPDX-License-Identifier: Apache-2.0

package httpbackend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

func (s *Server) lock(w http.ResponseWriter, r *http.Request, t target) error {
	info, err := readLockInfo(w, r)
	if err != nil {
		return err
	}
	if info.ID == "" {
		return fmt.Errorf("%w: lock information has no ID", errBody)
	}
	if _, err := s.take(r.Context(), t, info); err != nil {
		return err
	}
	s.changed(Change{Action: "lock", Lock: info.ID})
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) unlock(w http.ResponseWriter, r *http.Request, t target) error {
	info, err := readLockInfo(w, r)
	if err != nil {
		return err
	}
	if err := s.checkOwner(r.Context(), t, info.ID); err != nil {
		return err
	}
	switch {
	case info.ID == "":
		err = s.forceHeld(r.Context(), t)
	case info.Who == "" && info.Operation == "" && info.Created.IsZero():
		err = s.force(r.Context(), t, info.ID)
	default:
		err = s.release(r.Context(), t, info.ID)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// release ends the lock of a run. Where nothing is left of it and somebody else holds,
// an earlier request ended it whose answer was lost, as no tool takes a lock under one
// UUID twice: the run must not hear that it failed.
func (s *Server) release(ctx context.Context, t target, id string) error {
	err := t.store.Release(ctx, t.workspace, id)
	if err == nil {
		s.changed(Change{Action: "unlock", Lock: id})
	}
	if _, locked := errors.AsType[*statebackend.LockedError](err); locked && uuid.Validate(id) == nil {
		return nil
	}
	return err
}

// A request without a lock holds one of its own for ownLockTime at most. One that is older
// than ownLockOver, clocks that differ included, is that of a server that was killed.
const (
	ownLockTime = 5 * time.Minute
	ownLockOver = 7 * time.Minute
	ownLockInfo = "http request without a lock"
)

// take locks for whom the server is, also where a server was killed while it held a lock
// of its own, of which nobody else knows.
func (s *Server) take(ctx context.Context, t target, info statebackend.LockInfo) (*statebackend.Lock, error) {
	l, err := s.tryLock(ctx, t, info)
	e, locked := errors.AsType[*statebackend.LockedError](err)
	if !locked || e.Held.Info != ownLockInfo || e.Since < ownLockOver {
		return l, err
	}
	if err := s.checkOwner(ctx, t, e.Held.ID); err != nil {
		return nil, err
	}
	if err := s.force(ctx, t, e.Held.ID); err != nil && !errors.Is(err, oci.ErrNotFound) {
		return nil, err
	}
	return s.tryLock(ctx, t, info)
}

func (s *Server) tryLock(ctx context.Context, t target, info statebackend.LockInfo) (*statebackend.Lock, error) {
	if s.owner == "" {
		return t.store.Lock(ctx, t.workspace, info)
	}
	return t.store.LockOwned(ctx, t.workspace, s.owner, info)
}

// checkOwner is before anything is done under the lock of an id.
func (s *Server) checkOwner(ctx context.Context, t target, id string) error {
	if s.owner == "" {
		return nil
	}
	return t.store.CheckOwner(ctx, t.workspace, id, s.owner)
}

func (s *Server) force(ctx context.Context, t target, id string) error {
	s.o.Logger.Warn("lock ended by force", "state", t.name, "workspace", t.workspace, "lock", id)
	err := t.store.ForceUnlock(ctx, t.workspace, id)
	if err == nil {
		s.changed(Change{Action: "force-unlock", Lock: id})
	}
	return err
}

// forceHeld ends whatever lock the workspace has.
func (s *Server) forceHeld(ctx context.Context, t target) error {
	locks, err := t.store.Locks(ctx)
	if err != nil {
		return err
	}
	for _, h := range locks {
		if h.Workspace == t.workspace {
			return s.force(ctx, t, h.Info.ID)
		}
	}
	return fmt.Errorf("workspace %q is not locked: %w", t.workspace, oci.ErrNotFound)
}

// readLockInfo reads the body of LOCK and UNLOCK, which may be empty.
func readLockInfo(w http.ResponseWriter, r *http.Request) (statebackend.LockInfo, error) {
	b, err := readBody(w, r, format.MaxLockInfo)
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return statebackend.LockInfo{}, err
	}
	info, err := format.ParseLockInfo(b)
	if err != nil {
		return info, fmt.Errorf("%w: %w", errBody, err)
	}
	return info, nil
}
