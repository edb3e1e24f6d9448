// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/statebackend"
)

// Accepted describes a ledger that an administrator accepted.
type Accepted struct {
	Repository string `json:"repository"`
	Serial     uint64 `json:"serial"`
	Instances  int    `json:"instances"`
}

// Accept accepts the ledger as it is, even set back or empty, and writes who did. While there is a
// leader the error is a *statebackend.LockedError.
func (l *Ledger) Accept(ctx context.Context, by string) (Accepted, error) {
	l.book.findCurrent(ctx)
	for {
		if a, err := l.acceptCurrent(ctx, by); !errors.Is(err, errMoved) {
			return a, err
		}
	}
}

func (l *Ledger) acceptCurrent(ctx context.Context, by string) (Accepted, error) {
	s, err := l.book.store(l.book.currentNumber())
	if err != nil {
		return Accepted{}, err
	}
	var p page
	err = s.Hold(ctx, workspace, statebackend.NewLockInfo("accept", l.o.Tool), func(lock *statebackend.Lock) error {
		if p, _, err = openPage(lock.Get(ctx)); err != nil {
			return err
		}
		if p.Moved != nil {
			if err := l.book.goOn(ctx, p.Moved); err != nil {
				return err
			}
			return errMoved
		}
		if p.doc == nil {
			p.Lineage = l.o.NewID()
			p.doc = &lifecycle.Document{Version: 1}
		}
		p.Serial++
		p.Accepted = acceptance{At: l.o.Now().UTC().Round(0), By: by}
		_, _, err := writePage(ctx, lock, p)
		return err
	})
	if err != nil {
		return Accepted{}, fmt.Errorf("accepting the ledger: %w", err)
	}
	return Accepted{Repository: s.Repo().String(), Serial: p.Serial, Instances: len(p.doc.Records)}, nil
}

// queue holds effects in order until they are delivered: commits do not wait for them.
type queue struct {
	mu   sync.Mutex // guards list
	list []lifecycle.Effect
	some chan struct{} // capacity 1: signals that the list grew
}

func (q *queue) addEffects(effects []lifecycle.Effect) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, effects...)
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// deliver calls begin with all queued effects, in batches, until ctx ends.
func (q *queue) deliver(ctx context.Context, begin func(context.Context, []lifecycle.Effect)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.some:
		}
		q.mu.Lock()
		list := q.list
		q.list = nil
		q.mu.Unlock()
		if len(list) > 0 && begin != nil && ctx.Err() == nil {
			begin(ctx, list)
		}
	}
}
