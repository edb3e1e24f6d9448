// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net/netip"
	"sync"
)

// Limiter bounds what runs at the same time, in all and for one client. A client
// may have as many places as it leaves free: half of them while it is alone,
// and an equal share among many. Whoever has none finds one.
type Limiter struct {
	max int

	mu    sync.Mutex // guards the fields below
	taken int
	by    map[netip.Prefix]int
	freed chan struct{} // closed when a place is free again; nil: nobody waits
}

// NewLimiter returns so many places, all free.
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

// Wait takes a place as soon as there is one, and reports whether there was one
// before ctx ended.
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

// Release gives a place back.
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
