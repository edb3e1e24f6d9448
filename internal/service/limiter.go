// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"net/netip"
	"sync"
)

// Limits bound a [Limiter]. Weight is 1, or bytes. Who holds nothing may begin what fits.
type Limits struct {
	Total int64 // weight of all work
	// Share bounds the weight of a client that holds some. 0: as much as is free: half for one
	// alone, an equal share among many.
	Share int64
	Count int // of the work of a client; 0: without bound
}

// Limiter bounds work, in total and per client. Only [Limiter.Wait] waits.
type Limiter[C comparable] struct {
	limits Limits

	mu    sync.Mutex // guards the fields below
	used  int64
	by    map[C]usage
	freed chan struct{} // closed when work ends; nil: no call waits
}

// usage is the work of one client.
type usage struct {
	count int
	used  int64
}

// NewLimiter returns a limiter without work.
func NewLimiter[C comparable](l Limits) *Limiter[C] {
	return &Limiter[C]{limits: l, by: map[C]usage{}}
}

// ClientLimiter is a limiter by address, see [Kit.Client].
type ClientLimiter = Limiter[netip.Prefix]

// NewClientLimiter returns a limiter of weight 1 and equal shares.
func NewClientLimiter(total int64) *ClientLimiter {
	return NewLimiter[netip.Prefix](Limits{Total: total})
}

// Acquire reserves a weight, at most the total, until release, which must be called once.
func (l *Limiter[C]) Acquire(client C, weight int64) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acquireLocked(client, weight)
}

func (l *Limiter[C]) acquireLocked(client C, weight int64) (release func(), ok bool) {
	weight = min(weight, l.limits.Total)
	free := l.limits.Total - l.used
	own := l.by[client]
	share := l.limits.Share
	share = cmp.Or(share, free)
	over := own.count > 0 && own.used+weight > share
	tooMany := l.limits.Count > 0 && own.count >= l.limits.Count
	if weight > free || over || tooMany {
		return nil, false
	}
	l.used += weight
	l.by[client] = usage{own.count + 1, own.used + weight}
	return func() { l.release(client, weight) }, true
}

// Wait is [Limiter.Acquire] as soon as there is room. It returns false if ctx ends before.
func (l *Limiter[C]) Wait(ctx context.Context, client C, weight int64) (release func(), ok bool) {
	for {
		l.mu.Lock()
		if release, ok := l.acquireLocked(client, weight); ok {
			l.mu.Unlock()
			return release, true
		}
		if l.freed == nil {
			l.freed = make(chan struct{})
		}
		freed := l.freed
		l.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (l *Limiter[C]) release(client C, weight int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used -= weight
	if own := l.by[client]; own.count == 1 {
		delete(l.by, client)
	} else {
		l.by[client] = usage{own.count - 1, own.used - weight}
	}
	if l.freed != nil {
		close(l.freed)
		l.freed = nil
	}
}
