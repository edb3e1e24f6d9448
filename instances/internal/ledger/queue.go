// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"sync"

	"github.com/seed-141914ff/okara/instances/lifecycle"
)

// queue keeps effects in order until they are delivered: commits do not wait for
// what they begin.
type queue struct {
	mu   sync.Mutex // guards the fields below
	list []lifecycle.Effect
	some chan struct{} // nil: nobody waits
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

// take returns what there is; if that is nothing, a channel that is closed when
// there is something.
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

// deliver begins effects, those that came meanwhile together, until ctx ends.
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
