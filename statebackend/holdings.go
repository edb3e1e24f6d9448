// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"sync"
)

// holdings are the locks that this process holds, and its attempts under way.
type holdings struct {
	mu   sync.Mutex // guards the fields below
	held map[string]*Lock
	busy map[string]chan struct{} // by workspace and lock id
}

// begin lets one attempt per workspace and lock id run at a time, so that a
// repeated request finds what the first one won.
func (h *holdings) begin(ctx context.Context, workspace, id string) (done func(), err error) {
	key := workspace + "\x00" + id
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
