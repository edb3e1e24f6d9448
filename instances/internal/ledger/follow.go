// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/seed-141914ff/okara/oci"
)

// followLeader keeps the newest document available while another replica leads.
func (l *Ledger) followLeader(ctx context.Context) {
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for {
		if err := l.poll(ctx); err != nil && ctx.Err() == nil {
			l.o.Logger.DebugContext(ctx, "the ledger could not be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// poll reads the document if it is newer and follows the known one.
func (l *Ledger) poll(ctx context.Context) error {
	l.mu.Lock()
	leading := l.tenure != nil
	seen := l.seen
	l.mu.Unlock()
	if leading {
		return nil
	}
	number := l.book.currentNumber()
	if number != seen.number {
		seen.version = 0
	}
	s, err := l.book.store(number)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	asOf := l.o.Now().UTC()
	b, v, err := s.Newer(ctx, workspace, seen.version)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		l.recordEmpty(asOf)
		return nil
	case err != nil:
		return err
	case b == nil:
		if v.N == seen.version {
			l.confirm(asOf, number, v.N)
		}
		return nil
	}
	p, err := decodePage(b)
	if err != nil {
		return err
	}
	if p.Moved != nil {
		return l.book.goOn(ctx, p.Moved)
	}
	err = l.learnSnapshot(snapshot{p, number, v.N, asOf})
	l.save(ctx)
	return err
}

// confirm records that the known document is still the newest.
func (l *Ledger) confirm(at time.Time, number int, version int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tenure == nil && l.seen.number == number && l.seen.version == version {
		l.seen.asOf = at
	}
}

func (l *Ledger) recordEmpty(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.empty.IsZero() {
		l.notify()
	}
	l.empty = at
}

// learnSnapshot records a snapshot as the newest, if it is newer than the known one.
func (l *Ledger) learnSnapshot(s snapshot) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tenure != nil || s.number < l.seen.number || s.number == l.seen.number && s.version <= l.seen.version {
		return nil
	}
	if err := l.serials.known.whyOlder(s.page); err != nil {
		return err
	}
	l.seen = s
	l.empty = time.Time{}
	l.serials.seePage(s.page)
	l.notify()
	return nil
}
