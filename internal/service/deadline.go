// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that ends at a time, like that of [context.WithDeadline], and
// starts no timer before somebody waits for it: an answer that is known already is
// given without.
type deadline struct {
	context.Context // of the request
	at              time.Time

	mu     sync.Mutex      // guards what follows
	real   context.Context // once somebody waits; nil: nobody does
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
func (d *deadline) Done() <-chan struct{} { return d.waited().Done() }

// waited is the context that has a timer.
func (d *deadline) waited() context.Context {
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

// Err implements [context.Context]. Whoever asks has to learn the truth, so that what
// was not waited for is looked at.
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
		return d.waited().Err()
	}
	return d.Context.Err()
}

// Value implements [context.Context]. What package context looks for among the values,
// to end children without a goroutine for each, is found in the context with the timer.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	real := d.real
	d.mu.Unlock()
	if real != nil {
		return real.Value(key)
	}
	return d.Context.Value(key)
}

// end gives the timer back. The context ends with it.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}
