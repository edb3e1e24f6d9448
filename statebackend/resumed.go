// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/oci"
)

// Resumed runs do under the lock of an earlier request of the same client, for
// servers that keep nothing between requests. Another process that answered a
// request in between has taken the lock over; then it is taken over again, once,
// and do runs anew. The errors of [Store.Resume] are returned as they are, so
// that who never held the lock is told from who lost it.
func (s *Store) Resumed(ctx context.Context, workspace, id string, do func(*Lock) error) error {
	l, err := s.Resume(ctx, workspace, id)
	if err != nil {
		return err
	}
	err = do(l)
	if !errors.Is(err, ErrLockLost) {
		return err
	}
	if unlockErr := l.Unlock(ctx); unlockErr != nil {
		return fmt.Errorf("%w; forgetting the lock: %w", err, unlockErr)
	}
	l, resumeErr := s.Resume(ctx, workspace, id)
	if resumeErr != nil {
		return err // it was not this client: err tells who it was and where the bytes are
	}
	return do(l)
}

// Release ends a lock for its owner: cleanly if this process won it, and then by
// force whatever another process did under the same id. If nothing of it is left
// it is released, also where somebody else holds the workspace after a lock that
// was won here. A lock that was not is then a [*LockedError].
func (s *Store) Release(ctx context.Context, workspace, id string) error {
	l, mine := s.Holding(workspace, id)
	if mine {
		if err := l.Unlock(ctx); err != nil {
			return err
		}
	}
	err := s.ForceUnlock(ctx, workspace, id)
	if _, locked := errors.AsType[*LockedError](err); errors.Is(err, oci.ErrNotFound) || mine && locked {
		return nil
	}
	return err
}

// Latest is [Lock.Head], read anew with one request: a process that took the lock
// over under the same id may have written since. Then the error is ErrLockLost.
func (l *Lock) Latest(ctx context.Context) (Version, error) {
	l.mu.Lock()
	l.head = nil
	l.mu.Unlock()
	return l.Head(ctx)
}
