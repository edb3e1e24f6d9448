// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// Resume returns the lock that an earlier request of the same client took under this
// id, also where another process answered it. That process is fenced by numbers above
// all that it may write, while the claim by which the client won stays live: from
// LOCK to UNLOCK nobody else gets the lock, whichever processes answer in between.
//
// Without such a lock the error is ErrLockEnded where a tombstone says that it was
// ended, else a *LockedError where others hold, else ErrNotHeld. Any other error
// leaves the lock as it was.
func (s *Store) Resume(ctx context.Context, workspace, id string) (*Lock, error) {
	if l, ok := s.Holding(workspace, id); ok {
		return l, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	done, err := s.locks.begin(ctx, workspace, id)
	if err != nil {
		return nil, fmt.Errorf("looking at the lock of workspace %q in %s: %w", workspace, s.repo, err)
	}
	defer done()
	if l, ok := s.Holding(workspace, id); ok {
		return l, nil
	}
	x := s.session(workspace, LockInfo{ID: id})
	x.locks = true
	a := s.acquirer(id)
	a.Resume = true
	x.run(ctx, a)
	s.findings.learn(a.Can)
	switch res := a.Result; {
	case res.Won:
		return x.won(ctx, a)
	case res.Ended:
		how, c := x.seen.Over(id).Standing(id, protocol.ClaimID{}, 0)
		return nil, x.refusal(ctx, id, how, c)
	default:
		return nil, fmt.Errorf("looking at the lock of workspace %q in %s: %w", workspace, s.repo, res.Err)
	}
}

// maxResumes bounds how often a request takes its lock back from other processes
// that answer requests of the same client at the same time.
const maxResumes = 4

// Resumed runs do under the lock of an earlier request of the same client, for
// servers that keep nothing between requests. Where another process has answered in
// between, the lock that is known here writes nothing any more: it is resumed, and do
// runs anew. The errors of [Store.Resume] are returned as they are, so that who never
// held the lock is told from who lost it.
func (s *Store) Resumed(ctx context.Context, workspace, id string, do func(*Lock) error) error {
	l, err := s.Resume(ctx, workspace, id)
	if err != nil {
		return err
	}
	for range maxResumes {
		if err = do(l); !errors.Is(err, ErrLockLost) {
			return err
		}
		s.locks.drop(l) // its claim stays, it is the client's
		var resumeErr error
		if l, resumeErr = s.Resume(ctx, workspace, id); resumeErr != nil {
			return err // it was not this client: err tells who it was and where the bytes are
		}
	}
	return fmt.Errorf("workspace %q in %s: %w", workspace, s.repo, protocol.ErrBeside)
}

// Release ends a lock for its owner, with all claims that other processes made under
// its id: cleanly if this process won it and wrote above them, else by force. If
// nothing of it is left it is released, also where somebody else holds the workspace
// after a lock that was won here. A lock that was not is then a [*LockedError].
func (s *Store) Release(ctx context.Context, workspace, id string) error {
	l, mine := s.Holding(workspace, id)
	sealed := int64(0)
	if mine {
		sealed, _ = l.beside()
		if err := l.unlock(ctx); err != nil {
			return err
		}
	}
	err := s.endLock(ctx, workspace, id, sealed)
	if _, locked := errors.AsType[*LockedError](err); errors.Is(err, oci.ErrNotFound) || mine && locked {
		err = nil
	}
	if err == nil {
		s.locks.end(workspace, id, s.o.Now())
	}
	return err
}

// Latest is [Lock.Head], read anew with one request: a process that took the lock
// over under the same id may have written since. Then the error is ErrLockLost.
func (l *writer) Latest(ctx context.Context) (Version, error) {
	l.mu.Lock()
	l.head = nil
	l.mu.Unlock()
	return l.Head(ctx)
}

// ForceUnlock ends the lock of that id, whoever holds it; the holder's next
// write is refused and kept as a version. If another lock is held, the error is
// a *LockedError; if none is, oci.ErrNotFound.
func (s *Store) ForceUnlock(ctx context.Context, workspace, id string) error {
	return s.endLock(ctx, workspace, id, 0)
}

// endLock ends all claims of an id; those below the number sealed cleanly.
func (s *Store) endLock(ctx context.Context, workspace, id string, sealed int64) error {
	x := s.session(workspace, LockInfo{})
	f := &protocol.Forcer{LockID: id, Sealed: sealed}
	x.run(ctx, f)
	res := f.Result
	switch {
	case res.Err != nil:
		return fmt.Errorf("unlocking workspace %q in %s: %w", workspace, s.repo, res.Err)
	case res.Ended:
		if l, ok := s.Holding(workspace, id); ok {
			s.locks.drop(l)
		}
		return nil
	case res.Asked && x.foreign.Info.ID == format.ShownID(id):
		r := x.perform(ctx, protocol.Request{Op: protocol.OpPutUnlocked})
		return r.Err
	case res.Asked:
		return x.lockedBy(ctx, protocol.ClaimID{})
	case len(res.Held) > 0:
		return x.lockedBy(ctx, res.Held[0])
	}
	return fmt.Errorf("lock %s of workspace %q in %s: %w", id, workspace, s.repo, oci.ErrNotFound)
}
