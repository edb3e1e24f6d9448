// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"sync"

	"github.com/seed-141914ff/okara/instances/lifecycle"
)

// queue holds effects in order until they are delivered, so that commits do not wait for
// them.
type queue struct {
	mu   sync.Mutex // guards the fields below
	list []lifecycle.Effect
	some chan struct{} // nil: no waiter
}

func (q *queue) add(effects []lifecycle.Effect) {
	if len(effects) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, effects...)
	if q.some != nil {
		close(q.some)
		q.some = nil
	}
}

// take returns the queued effects; if there are none, a channel that is closed when there
// are.
func (q *queue) take() ([]lifecycle.Effect, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	if len(list) > 0 {
		return list, nil
	}
	if q.some == nil {
		q.some = make(chan struct{})
	}
	return nil, q.some
}

// deliver calls begin with all queued effects, in batches, until ctx ends.
func (q *queue) deliver(ctx context.Context, begin func(context.Context, []lifecycle.Effect)) {
	for ctx.Err() == nil {
		list, some := q.take()
		if some != nil {
			select {
			case <-ctx.Done():
			case <-some:
			}
			continue
		}
		if begin != nil {
			begin(ctx, list)
		}
	}
}
