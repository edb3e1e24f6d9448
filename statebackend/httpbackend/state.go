// SPDX-License-Identifier: Apache-2.0

package httpbackend

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" // the protocol's checksum, against damage, not against attackers
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

func (s *Server) getState(w http.ResponseWriter, r *http.Request, t target) error {
	var state []byte
	release := func() {}
	show := func(b []byte, _ statebackend.Version) error {
		state = b
		if len(b) <= smallState {
			return nil
		}
		free, ok := s.moving.Acquire(s.client, int64(len(b))) // waiting here would hold up others
		if !ok {
			return busyError()
		}
		release = free
		return nil
	}
	var v statebackend.Version
	var err error
	if s.owner == "" {
		v, err = t.store.View(r.Context(), t.workspace, show)
	} else {
		v, err = t.store.OwnedBy(s.owner).View(r.Context(), t.workspace, show)
	}
	if errors.Is(err, oci.ErrNotFound) && v.Deleted {
		return removedError(t, v)
	}
	if errors.Is(err, oci.ErrNotFound) {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	w.Header().Set("Content-MD5", checksum(state))
	writeBytes(w, r, http.StatusOK, state)
	return nil
}

// removedError says who removed a workspace when, by version v. For the tools there is none.
func removedError(t target, v statebackend.Version) error {
	by := ""
	if who := v.By(); who != "" {
		by = " by " + who
	}
	return fmt.Errorf("workspace %q of state %q was removed%s at %s, by version %d%.0w\nhint: `okara state history` shows the versions before it, until they are pruned",
		t.workspace, t.name, by, v.Created.UTC().Format(time.RFC3339), v.N, oci.ErrNotFound)
}

func (s *Server) postState(w http.ResponseWriter, r *http.Request, t target) error {
	id := r.URL.Query().Get("ID")
	if err := s.checkPost(r, t, id); err != nil {
		return err
	}
	state, received, err := s.receive(w, r)
	if err != nil {
		return err
	}
	release, err := t.store.Reserve(r.Context(), int64(len(state)))
	received()
	if err != nil {
		return err
	}
	defer release()
	if err := statebackend.CheckState(state); err != nil {
		return fmt.Errorf("%w: %w", errBody, err)
	}
	force := r.URL.Query().Get("force") == "true"
	var v statebackend.Version
	c := access.Change{Action: "write", Lock: id}
	err = s.underLock(w, r, t, id, "write", func(ctx context.Context, l *statebackend.Lock) (err error) {
		v, c.Found, err = statebackend.PutNext(ctx, l, state, force)
		if c.Found && statebackend.IsRepeated(l, v) {
			c.Found = false
			c.Detail = access.Again
		}
		return err
	})
	if v.N > 0 {
		c.Version = strconv.FormatInt(v.N, 10)
		c.Digest = v.Digest
		c.Detail = cmp.Or(c.Detail, v.Why())
		s.noteChange(c)
	}
	return err
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request, t target) error {
	id := r.URL.Query().Get("ID")
	if err := s.checkPost(r, t, id); err != nil {
		return err
	}
	return s.underLock(w, r, t, id, "delete", func(ctx context.Context, l *statebackend.Lock) error {
		c := access.Change{Action: "delete", Lock: id}
		_, err := l.Head(ctx)
		if c.Found = errors.Is(err, oci.ErrNotFound); c.Found { // there is no state, or the request is a repetition
			err = l.BringPointer(ctx)
		} else {
			err = l.Delete(ctx)
		}
		if v, _ := l.Head(ctx); v.Deleted {
			c.Version = strconv.FormatInt(v.N, 10)
			s.noteChange(c)
		}
		return err
	})
}

// checkPost checks the owner before the body is read; without a lock, the lock does so later.
func (s *Server) checkPost(r *http.Request, t target, id string) error {
	if id == "" {
		return nil
	}
	return s.checkOwner(r.Context(), t, id)
}

// outlive returns a request that is completed, and recorded, if its client disconnects.
func outlive(r *http.Request, limit time.Duration) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(statebackend.WithTool(r.Context(), r.UserAgent())), limit)
	return r.WithContext(ctx), cancel
}

// underLock runs do with the lock of id, or a temporary one if id is empty, and answers 200.
func (s *Server) underLock(w http.ResponseWriter, r *http.Request, t target, id, operation string, do func(context.Context, *statebackend.Lock) error) error {
	var err error
	limit := writeTime
	if id == "" {
		limit = ownLockTime
	}
	r, cancel := outlive(r, limit)
	defer cancel()
	if id == "" {
		err = s.underOwnLock(r, t, operation, do)
	} else {
		err = asLostLock(t.store.Resumed(r.Context(), t.workspace, id, func(l *statebackend.Lock) error { return do(r.Context(), l) }))
	}
	if err == nil {
		w.WriteHeader(http.StatusOK)
	}
	return err
}

func (s *Server) underOwnLock(r *http.Request, t target, operation string, do func(context.Context, *statebackend.Lock) error) error {
	ctx := r.Context()
	l, _, err := s.takeLock(ctx, t, statebackend.LockInfo{
		ID: uuid.NewString(), Operation: operation, Info: ownLockInfo, Who: r.UserAgent(), Path: r.URL.EscapedPath(),
	})
	if err != nil {
		return err
	}
	err = do(ctx, l)
	// The client may have disconnected; the lock must not stay.
	if unlockErr := l.Unlock(context.WithoutCancel(ctx)); err == nil {
		err = unlockErr
	}
	return err
}

// asLostLock turns a LockedError into a lost lock: the client believes that it holds the lock.
func asLostLock(err error) error {
	if _, ok := errors.AsType[*statebackend.LockedError](err); ok && !errors.Is(err, statebackend.ErrAnother) {
		return fmt.Errorf("%w: %w", statebackend.ErrLockLost, err)
	}
	return err
}

// receive reads a state, within the memory of those on their way until release.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (state []byte, release func(), err error) {
	size := r.ContentLength
	if size > s.o.MaxState {
		return nil, nil, fmt.Errorf("body exceeds %d bytes: %w", s.o.MaxState, oci.ErrTooLarge)
	}
	if size < 0 { // most are small
		head, err := io.ReadAll(io.LimitReader(r.Body, smallState))
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errBody, err)
		}
		if size = int64(len(head)); size == smallState {
			size = s.o.MaxState
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(head), r.Body), r.Body}
	}
	if release, err = s.reserve(r.Context(), size); err != nil {
		return nil, nil, err
	}
	if state, err = readBody(w, r, s.o.MaxState); err != nil {
		release()
	}
	return state, release, err
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	b, err := httpserve.ReadBody(w, r, limit)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fmt.Errorf("body exceeds %d bytes: %w", limit, oci.ErrTooLarge)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: it ended early", errBody)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBody, err)
	}
	if sum := r.Header.Get("Content-MD5"); sum != "" && sum != checksum(b) {
		return nil, fmt.Errorf("%w: Content-MD5 does not match", errBody)
	}
	return b, nil
}

func checksum(b []byte) string {
	sum := md5.Sum(b)
	return base64.StdEncoding.EncodeToString(sum[:])
}
