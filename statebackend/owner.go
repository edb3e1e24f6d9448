// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/text"
)

// ErrOwner says that a state is not that of the run that asks for it: the record of
// its workspace names another owner or none, or says that the workspace was deleted.
var ErrOwner = errors.New("not this object's state")

// Owned is nil if the newest record of a workspace names this owner and does not say
// deleted, else [ErrOwner]. A record that was seen before costs no request.
//
// An owner changes under the lock of its workspace only, so that one who has it owns
// the state until he gives it back.
func (l *Listing) Owned(ctx context.Context, workspace, owner string) error {
	r, err := l.Record(ctx, workspace)
	switch {
	case err != nil:
		return err
	case r == nil:
		return l.s.notOwned(workspace, "it has no record")
	case r.Deleted:
		return l.s.notOwned(workspace, "it was deleted")
	case r.Owner == "":
		return l.s.notOwned(workspace, "it has no owner")
	case r.Owner != owner:
		return l.s.notOwned(workspace, "its owner is "+text.Excerpt(r.Owner))
	}
	return nil
}

func (s *records) notOwned(workspace, why string) error {
	return fmt.Errorf("workspace %q in %s: %w: %s", workspace, s.repo, ErrOwner, why)
}

// CheckOwner is [Listing.Owned] for who names the lock under which he asks, which may
// be "". It costs a list unless this process has found out before who that is.
func (s *Store) CheckOwner(ctx context.Context, workspace, id, owner string) error {
	if l, ok := s.Holding(workspace, id); ok && l.isOf(owner) {
		return nil
	}
	l, err := s.List(ctx)
	if err != nil {
		return fmt.Errorf("looking at the owner of workspace %q in %s: %w", workspace, s.repo, err)
	}
	if err := l.Owned(ctx, workspace, owner); err != nil {
		return err
	}
	if l, ok := s.Holding(workspace, id); ok {
		l.setOwner(owner)
	}
	return nil
}

// LockOwned is Lock for the owner of a workspace, by the list that Lock makes anyway.
func (s *Store) LockOwned(ctx context.Context, workspace, owner string, info LockInfo) (*Lock, error) {
	if _, ok := s.Holding(workspace, info.ID); ok {
		if err := s.CheckOwner(ctx, workspace, info.ID, owner); err != nil {
			return nil, err
		}
	}
	asked := false
	l, err := s.LockWhen(ctx, workspace, info, func(ctx context.Context, l *Listing) error {
		asked = true
		return l.Owned(ctx, workspace, owner)
	})
	if err == nil && asked {
		l.setOwner(owner)
	}
	return l, err
}

// ViewOwned is [Store.View] for the owner of a workspace, by the list that View makes
// anyway where reads are strict.
func (s *Store) ViewOwned(ctx context.Context, workspace, owner string, use func(state []byte, v Version) error) (Version, error) {
	l, err := s.List(ctx)
	if err != nil {
		return Version{}, err
	}
	if err := l.Owned(ctx, workspace, owner); err != nil {
		return Version{}, err
	}
	v, err := l.View(ctx, workspace, use)
	if _, gone := errors.AsType[*unreadableError](err); gone {
		return s.View(ctx, workspace, use)
	}
	return v, err
}

func (l *Lock) isOf(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owner == owner && !l.hold.Lost && !l.released
}

func (l *Lock) setOwner(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner = owner
}
