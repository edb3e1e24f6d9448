// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"fmt"

	"github.com/seed-141914ff/okara/statebackend/format"
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
	x.seen, x.date = newView(l.tags, x.fragment), l.date
	var own claimID
	var known int64
	if mine, ok := l.s.Holding(workspace, id); ok {
		own, known = mine.hold.claim, mine.top()
	}
	how, c := x.seen.standing(id, own, known)
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
	if !l.hold.lost && newView(list.tags, l.x.fragment).stands(l.hold.claim, l.hold.known()) {
		return list, nil
	}
	return nil, fmt.Errorf("workspace %q in %s: the lock was taken over or removed: %w", l.x.workspace, l.s.repo, ErrLockLost)
}

// top is known for others; of a lock that is lost or over it is below every version.
func (l *Lock) top() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold.lost || l.released {
		return -1
	}
	return l.hold.known()
}

// standing is what a list says of the lock of one id.
type standing uint8

const (
	standsNowhere standing = iota // no trace of it, and nobody holds
	standsHeld                    // it is held
	standsEnded                   // there is a tombstone of it
	standsLost                    // this process won it, and it is gone or written above
	standsOther                   // no trace of it, and others hold
)

// stands tells whether a claim holds where its holder knows of versions up to known.
func (v view) stands(c claimID, known int64) bool {
	return v.has(c) && v.ended[c] == 0 && v.newest <= known
}

// standing judges the lock of id, of which this process won the claim own, zero if
// none; the claim it returns is the one that decides. A live claim of the id that is
// not own was won by another process, whose versions are not known here.
func (v view) standing(id string, own claimID, known int64) (standing, claimID) {
	lost := own != claimID{} && v.ended[own] == 0
	other := claimID{}
	for _, c := range v.live() {
		switch {
		case c == own && v.stands(c, known), c != own && format.ClaimOf(c.x, id):
			return standsHeld, c
		case c != own && other == claimID{}:
			other = c
		}
	}
	ended := claimID{}
	for c, how := range v.ended {
		later := ended == claimID{} || how > v.ended[ended] || how == v.ended[ended] && compareClaims(c, ended) > 0
		if format.ClaimOf(c.x, id) && later {
			ended = c
		}
	}
	switch {
	case lost:
		return standsLost, own
	case ended != claimID{}:
		return standsEnded, ended
	case other != claimID{}:
		return standsOther, other
	}
	return standsNowhere, claimID{}
}

// refusal says why the lock of id does not stand; nil where it does.
func (x *session) refusal(ctx context.Context, id string, how standing, c claimID) error {
	switch how {
	case standsHeld:
		return nil
	case standsOther:
		return x.lockedBy(ctx, c)
	case standsLost:
		return fmt.Errorf("workspace %q in %s: the lock was taken over or removed: %w", x.workspace, x.s.repo, ErrLockLost)
	case standsEnded:
		return fmt.Errorf("workspace %q in %s: %s: %w", x.workspace, x.s.repo, endText(x.endOf(ctx, c)), ErrLockEnded)
	}
	return fmt.Errorf("workspace %q in %s: lock %s is %w: lock first", x.workspace, x.s.repo, format.ShownID(id), ErrNotHeld)
}

// endOf reads the tombstone of a claim; the zero value if that cannot be read.
func (x *session) endOf(ctx context.Context, c claimID) format.LockManifest {
	t := format.StateTag{Kind: format.LockTombstone, Fragment: x.fragment, N: c.fence, X: c.x}
	if x.seen.ended[c] == endedForced {
		t.Kind = format.ForceTombstone
	}
	by, err := x.s.fetchLock(ctx, t.String(), x.workspace)
	if err != nil {
		return format.LockManifest{} // the message does without
	}
	return by
}
