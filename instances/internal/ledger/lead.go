// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/statebackend"
)

var (
	errMoved = errors.New("the ledger has moved")
	errOver  = errors.New("the term of this leader has ended")
	// errRefused wraps every reason for which no replica may lead.
	errRefused = errors.New("no server can become the leader")
)

// lead takes the lock and leads until the term ends: errOver. Other errors say why it does not.
func (l *Ledger) lead(ctx context.Context) error {
	if err := l.releaseDangling(ctx); err != nil {
		return err
	}
	if l.o.Sealer == nil && !l.o.BuiltIn && !l.o.InClear {
		return fmt.Errorf("%w without state keys: anyone who may write to the registry could take over all instances\nhint: set OKARA_STATE_KEYS, or unsealed = true", errRefused)
	}
	l.mu.Lock()
	refused := errors.Is(l.refused, errRefused)
	l.mu.Unlock()
	s, err := l.book.store(l.book.currentNumber())
	if err != nil {
		return err
	}
	if refused { // check before locking, which writes to the registry
		p, _, err := readNewestPage(ctx, s)
		if err == nil {
			err = l.judgePage(ctx, p)
		}
		if err != nil {
			return asRefusal(err)
		}
	}
	lock, err := s.Lock(ctx, workspace, statebackend.NewLockInfo(statebackend.OpLead, l.o.Tool))
	if errors.Is(err, statebackend.ErrUnsafe) {
		return asRefusal(err)
	}
	if err != nil {
		return err
	}
	p, v, err := l.beginTerm(ctx, lock)
	if err != nil {
		l.endLock(lock, (*statebackend.Lock).Unlock)
		return err
	}
	t := newTenure(l, s, lock, snapshot{p, l.book.currentNumber(), v.N, l.o.Now().UTC()})
	t.run(ctx)
	return errOver
}

func asRefusal(err error) error {
	if errors.Is(err, errRefused) || errors.Is(err, errMoved) {
		return err
	}
	return fmt.Errorf("%w: %w", errRefused, err)
}

// beginTerm reads, under the new leader's lock, the page to continue from.
func (l *Ledger) beginTerm(ctx context.Context, lock *statebackend.Lock) (page, statebackend.Version, error) {
	if _, ttl := lock.Lease(); ttl == 0 {
		return page{}, statebackend.Version{}, asRefusal(errors.New("the registry's responses have no Date header"))
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	p, v, err := openPage(lock.Get(ctx))
	if err != nil {
		return p, v, asRefusal(err)
	}
	return p, v, l.judgePage(ctx, p)
}

// judgePage reports whether a leader may continue from a page, if need be in the next repository.
func (l *Ledger) judgePage(ctx context.Context, p page) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	l.mu.Lock()
	older := l.serials.known.whyOlder(p)
	l.mu.Unlock()
	switch {
	case older != nil:
		return fmt.Errorf("%w: %w\nhint: restore it, or accept it as it is: okara instance ledger --accept", errRefused, older)
	case p.Moved != nil:
		if err := l.book.goOn(ctx, p.Moved); err != nil {
			return asRefusal(err)
		}
		return errMoved
	case p.doc != nil || l.o.Entries == nil || !p.Accepted.At.IsZero():
		return nil
	}
	before, err := l.o.Entries(ctx)
	if err == nil && before {
		err = errors.New("the ledger is empty, but instances existed before\nhint: restore it, or start over: okara instance ledger --accept")
	}
	if err != nil {
		return asRefusal(err)
	}
	return nil
}

// releaseDangling releases locks whose release is unconfirmed, for which replicas would wait.
func (l *Ledger) releaseDangling(ctx context.Context) error {
	l.mu.Lock()
	left := l.dangling
	l.dangling = nil
	l.mu.Unlock()
	for i, lock := range left {
		if err := lock.Abandon(ctx); err != nil {
			l.mu.Lock()
			l.dangling = append(l.dangling, left[i:]...)
			l.mu.Unlock()
			return err
		}
	}
	return nil
}

// endLock releases a lock even if the caller's context has ended.
func (l *Ledger) endLock(lock *statebackend.Lock, how func(*statebackend.Lock, context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if err := how(lock, ctx); err != nil {
		l.o.Logger.WarnContext(ctx, "the lock of the ledger may still appear held", "error", err)
		l.mu.Lock()
		l.dangling = append(l.dangling, lock)
		l.mu.Unlock()
	}
}
