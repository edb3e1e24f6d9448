// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// stopError ends a run with a given outcome.
type stopError struct{ outcome, text string }

func (e *stopError) Error() string { return e.text }

// stopper ends a run early: it first asks, then kills.
type stopper struct {
	asked  context.Context // its cause is the first reason
	ask    context.CancelCauseFunc
	killed context.Context
	kill   context.CancelFunc
}

func newStopper() *stopper {
	s := &stopper{}
	s.asked, s.ask = context.WithCancelCause(context.Background())
	s.killed, s.kill = context.WithCancel(context.Background())
	return s
}

// askToStop ends the run in order. Only the first reason counts.
func (s *stopper) askToStop(outcome, why string) { s.ask(&stopError{outcome, why}) }

// context returns a context that ends when the run should end.
func (s *stopper) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(s.asked, cancel)
	return ctx, func() {
		forget()
		cancel()
	}
}

// err returns why the run should end; nil if it should not.
func (s *stopper) err() error { return context.Cause(s.asked) }

// stopOnSignal ends the run at once at a signal, until the returned function is called.
func (s *stopper) stopOnSignal() (forget func()) {
	forced, stop := signal.NotifyContext(context.Background(), sandbox.ForceSignal)
	end := context.AfterFunc(forced, func() {
		s.askToStop(lifecycle.Cancelled, "the run was asked to stop at once")
		s.kill()
	})
	return func() {
		end()
		stop()
	}
}

// watch looks at the lock, and in the ledger for a cancel. What cannot be read is left to the next
// look: the lease ends a run without registry.
func (c *child) watch(ctx context.Context) {
	for text.Wait(ctx, c.pace.poll) == nil {
		if err := c.lock.Check(ctx); errors.Is(err, statebackend.ErrLockLost) && ctx.Err() == nil {
			c.stop.askToStop(lifecycle.RunFailed, states.Remedy(err)+", and the tool was interrupted; what it stores now is kept as a separate version")
			return
		}
		at, err := c.Named(ctx, c.Order.Spec.Ref)
		switch {
		case err != nil:
		case !at.Named:
			c.stop.askToStop(lifecycle.Cancelled, "the ledger names another attempt now")
		case at.Cancel != "":
			c.stop.askToStop(lifecycle.Cancelled, at.Cancel)
			if at.Force {
				c.stop.kill()
			}
		}
	}
}

// guard interrupts the tool at half of the lock's lease, and kills it at four fifths: fencing
// protects the state only, not what the tool changes.
func (c *child) guard(ctx context.Context) {
	_, ttl := c.lock.Lease()
	for text.Wait(ctx, max(ttl/100, 10*time.Millisecond)) == nil {
		age, ttl := c.lock.Lease()
		if ttl == 0 || age < ttl/2 {
			continue
		}
		c.stop.askToStop(lifecycle.RunFailed, fmt.Sprintf("the lock could not be renewed in the registry for %s of %s, so the tool was stopped before others may take over the lock",
			age.Round(time.Second), ttl))
		if age >= ttl*4/5 {
			c.stop.kill()
		}
	}
}

// checkMayContinue checks with ledger and stopper that the attempt should continue.
func (c *child) checkMayContinue(ctx context.Context) error {
	return c.retryPersistently(ctx, func() error {
		if err := c.stop.err(); err != nil {
			return err
		}
		at, err := c.Named(ctx, c.Order.Spec.Ref)
		switch {
		case errors.Is(err, oci.ErrCorrupt): // a version may be listed while it is being written
			return fmt.Errorf("reading the ledger: %w: %w", oci.ErrUnavailable, err)
		case err != nil:
			return fmt.Errorf("reading the ledger: %w", err)
		case !at.Named:
			return errNotNamed
		case at.Cancel != "":
			return &stopError{lifecycle.Cancelled, at.Cancel}
		}
		return nil
	})
}
