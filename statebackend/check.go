// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"fmt"

	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// Check asks with one LIST whether the lock of that id is held: nil if a claim of
// it is live, also one that another process won, and, where this process won it, no
// version is above its own. It takes nothing over and reserves nothing: Put checks
// again. Otherwise the errors are those of [Store.Resume], or ErrLockLost; to say
// who holds or ended it they read one manifest.
func (s *Store) Check(ctx context.Context, workspace, id string) error {
	l, err := s.List(ctx)
	if err != nil {
		return fmt.Errorf("looking at the lock of workspace %q in %s: %w", workspace, s.repo, err)
	}
	return l.Check(ctx, workspace, id)
}

// Check is [Store.Check] by this list, of a lock that was taken before it.
func (l *Listing) Check(ctx context.Context, workspace, id string) error {
	x := l.s.session(workspace, LockInfo{})
	x.seen, x.date = protocol.NewView(l.tags, x.fragment), l.date
	var own protocol.ClaimID
	var known int64
	if mine, ok := l.s.Holding(workspace, id); ok {
		own, known = mine.hold.Claim, mine.top()
	}
	how, c := x.seen.Standing(id, own, known)
	return x.refusal(ctx, id, how, c)
}

// Check asks with one request whether the lock is still held: ErrLockLost if it
// was taken over, also under its own id, forced or removed, or if somebody wrote
// above it. It reserves nothing: Put checks again.
func (l *Lock) Check(ctx context.Context) error {
	_, err := l.List(ctx)
	return err
}

// List is Check, and returns the list that it asked for.
func (l *Lock) List(ctx context.Context) (*Listing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil, fmt.Errorf("workspace %q in %s: the lock was released: %w", l.x.workspace, l.s.repo, ErrLockLost)
	}
	list, err := l.s.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking at the lock of workspace %q in %s: %w", l.x.workspace, l.s.repo, err)
	}
	if !l.hold.Lost && protocol.NewView(list.tags, l.x.fragment).Stands(l.hold.Claim, l.hold.Known()) {
		return list, nil
	}
	return nil, fmt.Errorf("workspace %q in %s: the lock was taken over or removed: %w", l.x.workspace, l.s.repo, ErrLockLost)
}

// top is known for others; of a lock that is lost or over it is below every version.
func (l *Lock) top() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold.Lost || l.released {
		return -1
	}
	return l.hold.Known()
}

// refusal says why the lock of id does not stand; nil where it does.
func (x *session) refusal(ctx context.Context, id string, how protocol.Standing, c protocol.ClaimID) error {
	switch how {
	case protocol.StandsHeld:
		return nil
	case protocol.StandsOther:
		return x.lockedBy(ctx, c)
	case protocol.StandsLost:
		return fmt.Errorf("workspace %q in %s: the lock was taken over or removed: %w", x.workspace, x.s.repo, ErrLockLost)
	case protocol.StandsEnded:
		return fmt.Errorf("workspace %q in %s: %s: %w", x.workspace, x.s.repo, endText(x.endOf(ctx, c)), ErrLockEnded)
	}
	return fmt.Errorf("workspace %q in %s: lock %s is %w: lock first", x.workspace, x.s.repo, format.ShownID(id), ErrNotHeld)
}

// endOf reads the tombstone of a claim; the zero value if that cannot be read.
func (x *session) endOf(ctx context.Context, c protocol.ClaimID) format.LockManifest {
	t := format.StateTag{Kind: format.LockTombstone, Fragment: x.fragment, N: c.Fence, X: c.X}
	if x.seen.Ended[c] == protocol.EndedForced {
		t.Kind = format.ForceTombstone
	}
	by, err := x.s.fetchLock(ctx, t.String(), x.workspace)
	if err != nil {
		return format.LockManifest{} // the message does without
	}
	return by
}
