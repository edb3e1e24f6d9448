// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// errRenew ends a lock before its version numbers are used up.
var errRenew = errors.New("renewing the lock")

// tidyLedger does the periodic maintenance between two commits.
func (t *tenure) tidyLedger(leads, commits context.Context) error {
	n := t.lock.Versions()
	limits := t.l.o.Limits
	t.again = nil
	switch {
	case t.commits >= limits.Renew:
		return errRenew
	case n >= limits.Roll && t.fixed.Load():
		return t.rollOver(commits)
	case n >= limits.Keep+limits.Prune && t.commits >= t.prune && !t.fixed.Load():
		t.prune = t.commits + limits.Prune
		t.running.Go(func() { t.removeOld(leads) })
	}
	return nil
}

// removeOld removes old versions, concurrently with commits.
func (t *tenure) removeOld(ctx context.Context) {
	_, err := t.store.Workspaces().Prune(ctx, workspace, t.l.o.Limits.Keep)
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, oci.ErrUnsupported), errors.Is(err, oci.ErrDenied):
		t.fixed.Store(true)
	default:
		t.l.o.Logger.WarnContext(ctx, "old versions of the ledger could not be removed", "error", err)
	}
}

// rollOver moves to the next repository, holding both locks: the document is its first version, and
// then this one says where it went. After a death in between that version is never read.
func (t *tenure) rollOver(ctx context.Context) error {
	l := t.l
	number := t.number + 1
	store, err := l.book.store(number)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*askTime)
	defer cancel()
	lock, err := store.Lock(ctx, workspace, statebackend.NewLockInfo(statebackend.OpLead, l.o.Tool))
	if _, held := errors.AsType[*statebackend.LockedError](err); held {
		t.again = time.After(tryEvery) // a leader died while moving
		return nil
	}
	if err != nil {
		return err
	}
	p := t.committed
	last := t.committed
	p.Serial++
	first, written, err := writePage(ctx, lock, p)
	if err == nil {
		last.Serial = p.Serial
		last.Moved = &moved{Number: number, Version: first, Digest: digestOf(written)}
		last.doc = &lifecycle.Document{Version: p.doc.Version}
		_, _, err = writePage(ctx, t.lock, last)
	}
	if err != nil {
		l.endLock(lock, (*statebackend.Lock).Abandon)
		return err
	}
	old := t.lock
	t.running.Go(func() { l.endLock(old, (*statebackend.Lock).Unlock) })
	l.book.advance(number)
	l.mu.Lock()
	t.store = store
	t.lock = lock
	t.number = number
	t.version = first
	t.committed = p
	t.commits = 0
	t.prune = 0
	t.showCommitted()
	l.mu.Unlock()
	t.leaveHint(ctx, number)
	return nil
}

// leaveHint writes into the first repository which one is current.
func (t *tenure) leaveHint(ctx context.Context, number int) {
	s, err := t.l.book.store(1)
	if err == nil {
		var m oci.Manifest
		if m, err = format.NewMark(artifactMark, mark{Number: number}); err == nil {
			err = s.Repo().PutTag(ctx, tagMark, m)
		}
	}
	if err != nil {
		t.l.o.Logger.WarnContext(ctx, "the ledger's first repository does not name its successor", "error", err)
	}
}
