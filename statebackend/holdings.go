// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
)

// holdings are the locks that this process holds, its attempts under way, and the
// ids that it released.
type holdings struct {
	mu    sync.Mutex // guards the fields below
	held  map[string]*Lock
	busy  map[string]chan struct{} // by workspace and lock id
	ended map[string]time.Time     // by workspace and lock id
}

const (
	// endedTime is how long a released id is remembered: longer than any proxy keeps a
	// request.
	endedTime = time.Hour
	// maxEnded bounds how many are.
	maxEnded = 10_000
)

// begin lets one attempt per workspace and lock id run at a time, so that a
// repeated request finds what the first one won.
func (h *holdings) begin(ctx context.Context, workspace, id string) (done func(), err error) {
	key := keyOf(workspace, id)
	for {
		h.mu.Lock()
		other, ok := h.busy[key]
		if !ok {
			mine := make(chan struct{})
			h.busy[key] = mine
			h.mu.Unlock()
			return func() {
				h.mu.Lock()
				delete(h.busy, key)
				h.mu.Unlock()
				close(mine)
			}, nil
		}
		h.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (h *holdings) find(workspace, id string) (*Lock, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.held[workspace]
	if !ok || l.x.info.ID != id {
		return nil, false
	}
	return l, true
}

func (h *holdings) keep(l *Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[l.x.workspace] = l
}

func (h *holdings) forget(l *Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[l.x.workspace] == l {
		delete(h.held, l.x.workspace)
	}
}

// drop forgets a lock that this process no longer answers for, and leaves its claim.
func (h *holdings) drop(l *Lock) {
	h.forget(l)
	if l.beats != nil {
		l.beats.stop()
	}
}

func keyOf(workspace, id string) string { return workspace + "\x00" + id }

// end remembers that an id was released, if it is one that no client takes twice.
func (h *holdings) end(workspace, id string, now time.Time) {
	if uuid.Validate(id) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ended) >= maxEnded {
		maps.DeleteFunc(h.ended, func(_ string, at time.Time) bool { return now.Sub(at) > endedTime })
	}
	if len(h.ended) >= maxEnded {
		clear(h.ended)
	}
	if h.ended == nil {
		h.ended = map[string]time.Time{}
	}
	h.ended[keyOf(workspace, id)] = now
}

// wasEnded tells whether an id was released within the last hour.
func (h *holdings) wasEnded(workspace, id string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.ended[keyOf(workspace, id)]
	return ok && now.Sub(at) <= endedTime
}
