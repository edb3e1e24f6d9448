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

	"github.com/seed-141914ff/okara/internal/access"
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
	l, fresh, err := s.takeLock(r.Context(), t, info)
	if err != nil {
		return err
	}
	c := access.Change{Action: "lock", Lock: info.ID, Detail: statebackend.Version{Operation: info.Operation}.Why(), Found: !fresh}
	if statebackend.IsRepeated(l, statebackend.Version{}) {
		c.Detail = access.Again
	}
	s.noteChange(c)
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
	r, cancel := outlive(r, ownLockTime)
	defer cancel()
	switch {
	case info.ID == "":
		err = s.forceHeld(r.Context(), t)
	case info.Who == "" && info.Operation == "" && info.Created.IsZero():
		err = s.forceUnlock(r.Context(), t, info.ID)
	default:
		err = s.release(r.Context(), t, info.ID)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// release ends the lock of a run. If it is gone and another client holds the workspace, a request
// whose answer was lost ended it, since no tool locks twice under one UUID: that is a success.
func (s *Server) release(ctx context.Context, t target, id string) error {
	ended, err := t.store.Release(ctx, t.workspace, id)
	if err == nil {
		s.noteChange(access.Change{Action: "unlock", Lock: id, Found: !ended})
	}
	if _, locked := errors.AsType[*statebackend.LockedError](err); locked && !errors.Is(err, statebackend.ErrAnother) && uuid.Validate(id) == nil {
		return nil
	}
	return err
}

// A request without a lock id holds a lock for at most ownLockTime. One older than ownLockOver,
// which allows for clock differences, was left by a killed server.
const (
	ownLockTime = 5 * time.Minute
	ownLockOver = 7 * time.Minute
	ownLockInfo = "http request without a lock"
)

const writeTime = time.Hour

// takeLock locks for the server's owner, and ends a temporary lock that a killed server left. fresh
// is false if this server had the lock already.
func (s *Server) takeLock(ctx context.Context, t target, info statebackend.LockInfo) (l *statebackend.Lock, fresh bool, err error) {
	l, fresh, err = s.tryLock(ctx, t, info)
	e, locked := errors.AsType[*statebackend.LockedError](err)
	if !locked || e.Held.Info != ownLockInfo || e.Since < ownLockOver {
		return l, fresh, err
	}
	if err := s.checkOwner(ctx, t, e.Held.ID); err != nil {
		return nil, false, err
	}
	if err := s.forceUnlock(ctx, t, e.Held.ID); err != nil && !errors.Is(err, oci.ErrNotFound) {
		return nil, false, err
	}
	return s.tryLock(ctx, t, info)
}

func (s *Server) tryLock(ctx context.Context, t target, info statebackend.LockInfo) (l *statebackend.Lock, fresh bool, err error) {
	fit := func(context.Context, *statebackend.Listing) error { fresh = true; return nil }
	if s.owner == "" {
		l, err = t.store.LockWhen(ctx, t.workspace, info, fit)
	} else {
		l, err = t.store.OwnedBy(s.owner).LockWhen(ctx, t.workspace, info, fit)
	}
	return l, fresh, err
}

// checkOwner is called before any operation under the lock of an id.
func (s *Server) checkOwner(ctx context.Context, t target, id string) error {
	if s.owner == "" {
		return nil
	}
	return t.store.OwnedBy(s.owner).Check(ctx, t.workspace, id)
}

func (s *Server) forceUnlock(ctx context.Context, t target, id string) error {
	if err := t.store.ForceUnlock(ctx, t.workspace, id); err != nil {
		return err
	}
	s.o.Logger.Warn("lock removed by force-unlock", "state", t.name, "workspace", t.workspace, "lock", id)
	s.noteChange(access.Change{Action: "force-unlock", Lock: id})
	return nil
}

func (s *Server) forceHeld(ctx context.Context, t target) error {
	held, err := t.store.Held(ctx, t.workspace)
	if err != nil {
		return err
	}
	if held == nil {
		return fmt.Errorf("workspace %q is not locked: %w", t.workspace, oci.ErrNotFound)
	}
	return s.forceUnlock(ctx, t, held.Info.ID)
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
