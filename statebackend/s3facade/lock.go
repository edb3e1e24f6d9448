// SPDX-License-Identifier: Apache-2.0

package s3facade

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

func (f *lockObjects) serveLock(w http.ResponseWriter, r *http.Request, p Ref) error {
	switch r.Method {
	case http.MethodPut:
		return f.lock(w, r, p)
	case http.MethodGet, http.MethodHead:
		return f.showLock(w, r, p)
	case http.MethodDelete:
		return f.unlock(w, r, p)
	}
	return errMethod(r)
}

// lock takes the lock. Another holder is remembered, since the tool requests it next.
func (f *lockObjects) lock(w http.ResponseWriter, r *http.Request, p Ref) error {
	info, body, err := readLockInfo(r)
	if err != nil {
		return err
	}
	f.annotate(&info)
	s, err := f.open(r.Context(), p)
	if err != nil {
		return err
	}
	l, err := f.acquire(r.Context(), s, p, info)
	if e, ok := errors.AsType[*statebackend.LockedError](err); ok {
		f.mu.Lock()
		f.heldBy[p] = e.Held
		f.mu.Unlock()
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.own[p] = l
	delete(f.applied, p)
	delete(f.heldBy, p)
	delete(f.shown, p)
	f.mu.Unlock()
	f.read.forgetHead(p) // content that was read without the lock may be old
	w.Header().Set("ETag", etag(body))
	return nil
}

// unknownLock stands for an unknown id. The tools do not wait for a holder without an id.
const unknownLock = "unknown"

// acquire takes a lock, waits as the options say, and stores the error of a lock that is held.
func (f *lockObjects) acquire(ctx context.Context, s *statebackend.Store, p Ref, info statebackend.LockInfo) (*statebackend.Lock, error) {
	l, err := s.LockWithin(ctx, p.Workspace, info, f.o.LockWait, f.o.Done)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.refused, p)
	if e, locked := errors.AsType[*statebackend.LockedError](err); locked {
		e.Held.ID = cmp.Or(e.Held.ID, unknownLock)
		f.refused[p] = err
	}
	return l, err
}

func (f *lockObjects) annotate(info *statebackend.LockInfo) {
	note := f.o.LockNote()
	if info.Info != "" && note != "" {
		note = "; " + note
	}
	info.Info += note
}

// showLock answers with the holder, whom a following DELETE releases: this run itself, the one that
// the last attempt found, or, for force-unlock, the one in the registry.
func (f *lockObjects) showLock(w http.ResponseWriter, r *http.Request, p Ref) error {
	info, err := f.holder(r.Context(), p)
	if err != nil {
		return err
	}
	return serveLockInfo(w, r, info)
}

func readLockInfo(r *http.Request) (info statebackend.LockInfo, body []byte, err error) {
	if body, err = readBody(r, format.MaxLockInfo); err != nil {
		return info, nil, err
	}
	info, err = format.ParseLockInfo(body)
	if err != nil || info.ID == "" {
		err = &s3Error{http.StatusBadRequest, "InvalidRequest", "the body of a lock object is not the LockInfo of OpenTofu or Terraform"}
	}
	return info, body, err
}

func serveLockInfo(w http.ResponseWriter, r *http.Request, info statebackend.LockInfo) error {
	body, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("encoding the information about a lock: %w", err)
	}
	serveBytes(w, r, body)
	return nil
}

func (f *lockObjects) holder(ctx context.Context, p Ref) (statebackend.LockInfo, error) {
	f.mu.Lock()
	own := f.own[p]
	heldBy, ok := f.heldBy[p]
	delete(f.heldBy, p)
	if ok {
		f.shown[p] = heldBy
	}
	f.mu.Unlock()
	if own != nil {
		return own.Info(), nil
	}
	if ok {
		return heldBy, nil
	}
	s, err := f.open(ctx, p)
	if err != nil {
		return statebackend.LockInfo{}, err
	}
	held, err := s.Held(ctx, p.Workspace)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return statebackend.LockInfo{}, err
	}
	if held == nil {
		return statebackend.LockInfo{}, &s3Error{http.StatusNotFound, "NoSuchKey",
			fmt.Sprintf("workspace %q of %s is not locked", p.Workspace, p.Repository)}
	}
	f.mu.Lock()
	f.shown[p] = held.Info
	f.mu.Unlock()
	return held.Info, nil
}

// unlock releases the lock of this run, or forces the one last shown. A missing one is no error.
func (f *lockObjects) unlock(w http.ResponseWriter, r *http.Request, p Ref) error {
	f.mu.Lock()
	own := f.own[p]
	shown := f.shown[p]
	f.mu.Unlock()
	ctx := context.WithoutCancel(r.Context())
	if own != nil {
		if err := own.UnlockRetrying(r.Context()); err != nil { // retries until the tool is gone
			return fmt.Errorf("workspace %q: %w", p.Workspace, err)
		}
	} else if shown.ID != "" {
		s, err := f.open(ctx, p)
		if err != nil {
			return err
		}
		if err := s.ForceUnlock(ctx, p.Workspace, shown.ID); err != nil {
			return fmt.Errorf("forcing the lock of workspace %q: %w", p.Workspace, err)
		}
	}
	f.mu.Lock()
	if f.own[p] == own {
		delete(f.own, p)
	}
	if own != nil && own.Info().Operation == applyOperation {
		f.applied[p] = applied{own, r.UserAgent()}
	}
	delete(f.shown, p)
	f.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// applyOperation is what the tools call an apply in its lock.
const applyOperation = "OperationTypeApply"

// applied is the released lock of an apply.
type applied struct {
	lock  *statebackend.Lock
	agent string // of the tool
}

// recordWait bounds how long the record of a run waits for a lock: its holder writes a newer one.
const recordWait = 10 * time.Second

// RecordApplied writes the newest versions once more that an apply of the run read and did not change, as
// [statebackend.RecordAgain] does. It is called after the run. Locks that could not be released are in [Facade.Held],
// and reported as failures.
func (f *Facade) RecordApplied(ctx context.Context, now func(before []byte) []byte) (errs []error) {
	for p, a := range f.locks.applied {
		wrote, held, locked, err := statebackend.RecordAgain(statebackend.WithTool(ctx, a.agent), a.lock, now, min(f.o.LockWait, recordWait), f.o.Done)
		if held != nil {
			f.locks.own[p] = held
			f.o.Failed(fmt.Errorf("workspace %q: %w", p.Workspace, locked))
		}
		if wrote {
			f.noteWritten(p, nil)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the modules and providers that workspace %q of %s uses now are not recorded: %w", p.Workspace, p.Repository, err))
		}
	}
	return errs
}

// withLock runs do under the run's lock, or one of its own (-lock=false, workspace delete).
func (f *lockObjects) withLock(ctx context.Context, p Ref, operation string, do func(*statebackend.Lock) error) error {
	f.mu.Lock()
	own := f.own[p]
	f.mu.Unlock()
	if own != nil {
		return do(own)
	}
	s, err := f.open(ctx, p)
	if err != nil {
		return err
	}
	info := statebackend.LockInfo{ID: uuid.NewString(), Operation: operation, Created: time.Now().UTC(), Path: p.objectKey()}
	f.annotate(&info)
	l, err := f.acquire(ctx, s, p, info)
	if err != nil {
		return err
	}
	err = do(l)
	// The write is done or refused; release the lock even if the client disconnected.
	return errors.Join(err, l.UnlockRetrying(ctx))
}
