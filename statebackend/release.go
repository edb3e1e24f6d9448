// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// Release ends a lock for its owner, with all claims that other processes made under its id:
// cleanly if this process won it and wrote above them, else by force. ended reports whether claims
// remained; without any it counts as released. That another client holds the workspace is an error,
// a [*LockedError], only if this process had not won the lock.
func (s *Store) Release(ctx context.Context, workspace, id string) (ended bool, err error) {
	l, mine := s.Holding(workspace, id)
	sealed := int64(0)
	if mine {
		if err := l.checkCaller(ctx); err != nil {
			return false, err
		}
		sealed, _ = l.sealedBelow()
		if err := l.unlock(ctx); err != nil {
			return false, err
		}
	}
	_, err = endLock(ctx, s, workspace, id, sealed, true)
	ended = mine || err == nil
	if _, locked := errors.AsType[*LockedError](err); errors.Is(err, oci.ErrNotFound) || mine && locked {
		err = nil
	}
	if err == nil {
		s.locks.rememberEnded(workspace, id, s.o.Now())
	}
	return ended, err
}

// ForceUnlock ends the lock of that id, whichever client holds it; the holder's next write is
// refused and kept as a version. If another lock is held, the error is a *LockedError; if the
// workspace is free, oci.ErrNotFound. As a next holder would, it copies the head, so that such a
// write is not current even if nobody locks. A failure of that is logged.
func (s *Store) ForceUnlock(ctx context.Context, workspace, id string) error {
	floor, err := endLock(ctx, s, workspace, id, 0, false)
	if err == nil && floor > 0 {
		sealState(ctx, s, workspace, floor)
	}
	return err
}

// Seal copies the head if a [Store.ForceUnlock] did not, and no claim is live that will do so.
func (l *Listing) Seal(ctx context.Context, workspace string) {
	if now := SummaryOf(l.tags, format.StateFragment(workspace)); now.Unsealed > 0 && len(now.Claims) == 0 {
		sealState(ctx, l.s, workspace, now.Unsealed)
	}
}

// Summary is what a tag list says of a workspace.
type Summary struct {
	Claims []string // tags of those that are live
	Newest int64    // version; 0: none
	// Unsealed is the first number that no holder ended by force can write; 0 if there is a version
	// from there on, beside which no write of theirs is current.
	Unsealed int64
}

// SummaryOf returns what a tag list says of the workspace of a fragment.
func SummaryOf(tags []string, fragment string) Summary {
	v := protocol.NewSnapshot(tags, fragment)
	s := Summary{Newest: v.Newest}
	for _, c := range v.Live() {
		s.Claims = append(s.Claims, tagNames{fragment: fragment}.claimTag(c))
	}
	if floor := v.Floor(); floor > v.Newest {
		s.Unsealed = floor
	}
	return s
}

func sealState(ctx context.Context, s *Store, workspace string, floor int64) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	x := newSession(s, workspace, LockInfo{ID: sealerLockID + s.o.NewID(), Operation: "force-unlock", Who: s.o.Tool, Created: s.o.Now().UTC()}, terms{locks: true})
	x.ttl = 2 * lockTime // if this process dies, nobody has to force its lock
	c := &protocol.Sealer{LockID: x.info.ID, Base: rand.Uint32(), Floor: floor, Can: s.findings.knownAbilities()}
	x.runMachine(ctx, c, &content{})
	s.findings.learnAbilities(c.Can)
	if c.Err != nil {
		s.o.Logger.WarnContext(ctx, "the lock was removed, but its state could not be copied: until the next lock, a write of its holder may still become current",
			"repository", s.repo.String(), "workspace", workspace, "error", c.Err)
	}
}

// sealerLockID begins the id under which a force-unlock copies the head.
const sealerLockID = "force-unlock-"

// endLock ends all claims of an id, those below the number sealed cleanly. floor is the first that
// no other can write; 0: there is none. With owned, another caller's lock is [ErrAnother].
func endLock(ctx context.Context, s *Store, workspace, id string, sealed int64, owned bool) (floor int64, err error) {
	x := newSession(s, workspace, LockInfo{ID: id, Caller: callerOf(ctx)}, terms{})
	f := &protocol.Forcer{LockID: id, Sealed: sealed, Owned: owned && x.info.Caller != ""}
	x.runMachine(ctx, f, nil)
	res := f.Result
	switch {
	case res.Err != nil:
		return 0, fmt.Errorf("unlocking workspace %q in %s: %w", workspace, s.repo, res.Err)
	case res.Foreign != protocol.ClaimID{}:
		return 0, anotherHolder(x.lockedBy(ctx, res.Foreign))
	case res.Ended:
		if l, ok := s.Holding(workspace, id); ok {
			s.locks.dropHeld(l)
		}
		return res.Floor, nil
	case res.Asked && x.foreign.Info.ID == format.ShownID(id):
		r := x.perform(ctx, protocol.Request{Op: protocol.OpPutUnlocked}, nil)
		return 0, r.Err
	case res.Asked:
		return 0, x.lockedBy(ctx, protocol.ClaimID{})
	case len(res.Held) > 0:
		return 0, x.lockedBy(ctx, res.Held[0])
	}
	return 0, fmt.Errorf("lock %s of workspace %q in %s: %w", id, workspace, s.repo, oci.ErrNotFound)
}
