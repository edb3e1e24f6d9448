// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

const lockTime = 30 * time.Second

// Lock takes the lock of a workspace. If another client holds it, the error is a *LockedError, and
// no claim of the id is left. A lock of the same id that this process holds is returned again. One
// that another process may hold is taken beside it, since the caller is the same client on another
// server: that claim stays, and its writes sort below. A UUID that was released here within the
// last hour is ErrLockEnded: no client locks twice under one, so it is a late duplicate.
func (s *Store) Lock(ctx context.Context, workspace string, info LockInfo) (*Lock, error) {
	return terms{}.lock(ctx, s, workspace, info)
}

// LockWhen is Lock on the condition that fit returns nil. fit gets the list that Lock makes anyway,
// before anything is written. It is not called for a lock of the same id that this process holds.
func (s *Store) LockWhen(ctx context.Context, workspace string, info LockInfo, fit func(context.Context, *Listing) error) (*Lock, error) {
	return terms{fit: fit}.lock(ctx, s, workspace, info)
}

// LockWhen is [Store.LockWhen] that starts with this list, if the workspace is free in it, instead
// of making one. The lock is safe: it is won by the lists after the claim. fit is also called with
// the first of these, and if it returns an error the claim is withdrawn.
func (l *Listing) LockWhen(ctx context.Context, workspace string, info LockInfo, fit func(context.Context, *Listing) error) (*Lock, error) {
	on := terms{fit: fit}
	if v := protocol.NewSnapshot(l.tags, tagNamesOf(workspace).fragment); len(v.Live()) == 0 && !v.Marker {
		on.known = l
	}
	return on.lock(ctx, l.s, workspace, info)
}

// TakeOver takes the lock even if another client holds it. That client's next write is refused and
// kept as a version, but nothing stops it from changing infrastructure meanwhile.
func (s *Store) TakeOver(ctx context.Context, workspace string, info LockInfo) (*Lock, error) {
	return terms{takeOver: true}.lock(ctx, s, workspace, info)
}

// terms are the conditions of an attempt to lock.
type terms struct {
	locks    bool                                  // lists must be fit for locking
	takeOver bool                                  // also if another client holds the lock
	fit      func(context.Context, *Listing) error // called with the first new list, and with known; nil: not called
	known    *Listing                              // the list to begin with; nil: the attempt makes one
}

func (on terms) lock(ctx context.Context, s *Store, workspace string, info LockInfo) (*Lock, error) {
	if workspace == "" {
		return nil, errors.New("workspace name is empty")
	}
	if info.ID == "" {
		info.ID = s.o.NewID()
	}
	if info.Created.IsZero() {
		info.Created = s.o.Now().UTC()
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	done, err := s.locks.beginAttempt(ctx, workspace, info.ID)
	if err != nil {
		return nil, fmt.Errorf("locking workspace %q in %s: %w", workspace, s.repo, err)
	}
	defer done()
	info.Caller = callerOf(ctx)
	if l, ok := s.Holding(workspace, info.ID); ok && !on.takeOver {
		if isAnother(s.o, l.x.info.Caller, info.Caller) {
			return nil, l.x.lockedBy(ctx, l.hold.Claim)
		}
		err := l.Check(ctx) // another process may have ended it
		if !errors.Is(err, ErrLockLost) {
			return l, err
		}
		s.locks.dropHeld(l)
	}
	if s.locks.wasEnded(workspace, info.ID, s.o.Now()) {
		return nil, fmt.Errorf("workspace %q in %s: lock %s was already released: %w", workspace, s.repo, format.ShownID(info.ID), ErrLockEnded)
	}
	on.locks = true
	over := protocol.Overdue{}
	for try := 1; ; try++ {
		if try > 1 {
			on.known = nil
		}
		x := newSession(s, workspace, info, on)
		a := newAcquirer(s, info.ID)
		a.TakeOver = on.takeOver
		a.Overdue = over
		var seal content
		x.runMachine(ctx, a, &seal)
		s.findings.learnAbilities(a.Can)
		if a.Result.Won {
			return x.makeLock(ctx, a, seal)
		}
		err := x.explainNotWon(ctx, a.Result)
		e, ok := errors.AsType[*LockedError](err)
		switch {
		case !ok:
			s.observations.discardLeases(workspace)
			return nil, err
		case try == maxTries+len(over):
			return nil, err
		case e.expired:
			over[a.Result.By] = format.ReasonExpired
		case e.orphan:
			over[a.Result.By] = format.ReasonOrphan
		case e.abandoned:
			x.s.o.Logger.WarnContext(ctx, "removing a lock that was never acknowledged: its tag is listed, but reading it has returned 404 for a minute, as after a crash of the registry during the write",
				"repository", x.s.repo.String(), "workspace", x.names.workspace, "tag", x.names.claimTag(a.Result.By))
			over[a.Result.By] = format.ReasonAbandoned
		case !e.Unreadable && !e.gone || sleepFor(ctx, protocol.Again()) != nil:
			return nil, err
		}
	}
}

func newAcquirer(s *Store, id string) *protocol.Acquirer {
	return &protocol.Acquirer{LockID: id, Base: rand.Uint32(), Patience: protocol.MaxAnew, Can: s.findings.knownAbilities()}
}

// maxTries bounds how often an attempt restarts because a lock was released before it was read.
const maxTries = 4

func (x *session) makeLock(ctx context.Context, a *protocol.Acquirer, seal content) (*Lock, error) {
	l := &Lock{s: x.s, x: x, hold: a.Hold()}
	l.none = l.hold.Newest == 0 && !x.snapshot.Pointer
	if a.Result.Sealed {
		sealed, err := format.ParseState(seal.manifest)
		if err != nil {
			return nil, err
		}
		l.head = &sealed
	}
	if x.s.o.LockTTL > 0 && !x.date.IsZero() {
		l.heartbeats = startHeartbeats(ctx, x, protocol.Request{Op: protocol.OpPutClaim, Claim: a.Claim, Root: a.Root, Beside: a.Beside})
	}
	x.s.locks.keepHeld(l)
	x.s.observations.forgetWorkspace(x.names.workspace)
	if x.first {
		// Once per repository: a registry with a signature policy may not serve what it accepts.
		if err := x.s.repo.CheckHandedOut(ctx, x.claims[a.Claim].Digest); err != nil {
			return nil, errors.Join(fmt.Errorf("locking workspace %q in %s: %w", x.names.workspace, x.s.repo, err), l.Unlock(ctx))
		}
	}
	return l, nil
}

func (x *session) explainNotWon(ctx context.Context, res protocol.Acquired) error {
	if errors.Is(res.Err, protocol.ErrCrowded) {
		// Others keep taking the numbers of our claims: a caller waits as for a released lock.
		return &LockedError{
			Workspace: x.names.workspace, Repository: x.s.repo.String(), gone: true,
			Held: LockInfo{Info: "other runs take and release it in quick succession"},
		}
	}
	if !res.Held {
		return fmt.Errorf("locking workspace %q in %s: %w", x.names.workspace, x.s.repo, res.Err)
	}
	err := error(x.lockedBy(ctx, res.By))
	if res.Err != nil { // our own claim may still be there
		err = fmt.Errorf("%w\nwithdrawing: %w", err, res.Err)
	}
	return err
}

// lockedBy reads the holder of a claim; the zero claim is an older tool's marker.
func (x *session) lockedBy(ctx context.Context, c protocol.ClaimID) *LockedError {
	e := &LockedError{Workspace: x.names.workspace, Repository: x.s.repo.String(), Held: x.foreign.Info}
	if c != (protocol.ClaimID{}) {
		e.Tag = x.names.claimTag(c)
		// A claim that is listed holds, whether or not it can be read.
		l, err := x.s.manifests.fetchLock(ctx, x.names.claimTag(c), x.names.workspace)
		if errors.Is(err, oci.ErrNotFound) {
			x.describeMissing(ctx, e, c)
			return e
		}
		if err != nil {
			x.s.observations.discardLeases(x.names.workspace)
			e.Held = LockInfo{ID: c.X, Info: "unknown, reading the claim " + x.names.claimTag(c) + ": " + err.Error()}
			return e
		}
		g := x.s.observations.noteClaim(x.names.workspace, c, l, x.date)
		e.Held = l.Info
		e.expired = g.Expired(l, x.s.o.Now())
		root := x.names.claimNamed(l.Root)
		e.orphan = root != protocol.ClaimID{} && !x.snapshot.Alive(root)
	}
	if !e.Held.Created.IsZero() {
		e.Since = max(0, x.s.o.Now().Sub(e.Held.Created))
	}
	return e
}

// Holding returns the lock of that id if this process won it. It sends no request.
func (s *Store) Holding(workspace, id string) (*Lock, bool) {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	l, ok := s.locks.held[workspace]
	if !ok || l.x.info.ID != id {
		return nil, false
	}
	return l, true
}
