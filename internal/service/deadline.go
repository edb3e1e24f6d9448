// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"sync"
	"time"
)

// deadline is a context like [context.WithDeadline]'s, without a timer before Done: an answer that
// is known needs none.
type deadline struct {
	context.Context // of the request
	at              time.Time

	mu     sync.Mutex      // guards the fields below
	real   context.Context // set by the first call of Done; nil before
	cancel context.CancelFunc
	ended  bool
}

// Deadline implements [context.Context].
func (d *deadline) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

// Done implements [context.Context].
func (d *deadline) Done() <-chan struct{} { return d.realContext().Done() }

func (d *deadline) realContext() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.real == nil {
		d.real, d.cancel = context.WithDeadline(d.Context, d.at)
		if d.ended {
			d.cancel()
		}
	}
	return d.real
}

// Err implements [context.Context]. Without a timer it compares the clock.
func (d *deadline) Err() error {
	d.mu.Lock()
	real := d.real
	ended := d.ended
	d.mu.Unlock()
	switch {
	case real != nil:
		return real.Err()
	case ended:
		return context.Canceled
	case !time.Now().Before(d.at):
		return d.realContext().Err()
	}
	return d.Context.Err()
}

// Value implements [context.Context]. To end child contexts without a goroutine for each,
// package context looks for a value of its own, which is in the context with the timer.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	real := d.real
	d.mu.Unlock()
	if real != nil {
		return real.Value(key)
	}
	return d.Context.Value(key)
}

// end stops the timer and ends the context.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}
