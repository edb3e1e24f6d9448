// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net/netip"
	"sync"
)

// Limiter bounds concurrent work, in total and per client. A client may hold as many
// places as are free: half of all places while it is alone, and an equal share among many
// clients. A client that holds none gets one if any place is free.
type Limiter struct {
	max int

	mu    sync.Mutex // guards the fields below
	taken int
	by    map[netip.Prefix]int
	freed chan struct{} // closed when a place becomes free; nil: no call waits
}

// NewLimiter returns a limiter with limit places, all free.
func NewLimiter(limit int) *Limiter { return &Limiter{max: limit, by: map[netip.Prefix]int{}} }

// Acquire reports whether the client got a place, which it must release.
func (p *Limiter) Acquire(client netip.Prefix) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acquireLocked(client)
}

func (p *Limiter) acquireLocked(client netip.Prefix) bool {
	if p.by[client] >= p.max-p.taken {
		return false
	}
	p.taken++
	p.by[client]++
	return true
}

// Wait acquires a place as soon as one is free. It returns false if ctx ends before.
func (p *Limiter) Wait(ctx context.Context, client netip.Prefix) bool {
	for {
		p.mu.Lock()
		if p.acquireLocked(client) {
			p.mu.Unlock()
			return true
		}
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// Release frees a place.
func (p *Limiter) Release(client netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.by[client]--; p.by[client] == 0 {
		delete(p.by, client)
	}
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}
