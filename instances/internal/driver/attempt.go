// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// startTries is how often an attempt is started that fails for another reason than a connection.
const startTries = 3

// attempt is a run attempt that this leader drives.
type attempt struct {
	driver *Driver
	ref    lifecycle.Ref
	again  bool            // it may have been started before
	over   <-chan struct{} // closed when the leadership under which it is driven ends

	cancelled, killed <-chan struct{} // closed when it is to end early, or at once
	cancel, kill      func()

	// What it executes, once it is driven.
	record   *lifecycle.Record
	template *template.Template
	spec     run.Attempt
}

// isClosed reports whether a channel, which is only ever closed, is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// beginAttempt drives an attempt until it ends, unless it is being driven already.
func (r *Driver) beginAttempt(ctx context.Context, ref lifecycle.Ref, again bool) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.attempts[ref]; a != nil && !isClosed(a.over) {
		return a
	}
	killed, kill := context.WithCancel(context.Background())
	cancelled, cancel := context.WithCancel(killed)
	a := &attempt{driver: r, ref: ref, again: again, over: ctx.Done(), cancelled: cancelled.Done(), killed: killed.Done(), cancel: cancel, kill: kill}
	r.attempts[ref] = a
	r.wg.Go(func() {
		defer kill()
		if err := a.drive(ctx); err != nil && ctx.Err() == nil {
			r.o.Logger.WarnContext(ctx, "instances: an attempt is no longer tracked", "instance", ref.ID, "run", ref.N, "attempt", ref.Attempt, "error", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.attempts[ref] == a {
			delete(r.attempts, ref)
		}
	})
	return a
}

// find returns the record that names the attempt; nil: no record names it any more.
func (a *attempt) find(ctx context.Context) (*lifecycle.Record, *lifecycle.Document, error) {
	rec, d, err := a.driver.findRecord(ctx, a.ref.ID)
	if err != nil || rec == nil || rec.Run == nil || rec.Run.Ref(rec.ID) != a.ref {
		return nil, nil, err
	}
	return rec, d, nil
}

// isGone reports whether the attempt was ended elsewhere.
func (a *attempt) isGone(ctx context.Context) bool {
	rec, _, err := a.find(ctx)
	return err == nil && rec == nil
}

// drive starts an attempt, unless it was started, and watches it to its end.
func (a *attempt) drive(ctx context.Context) error {
	rec, d, err := a.find(ctx)
	if err != nil || rec == nil {
		return err
	}
	a.record = rec
	a.spec, a.template, err = attemptOf(&a.driver.o, d, rec)
	if err == nil && a.template.Executor != template.ExecutorLocal {
		err = fmt.Errorf("this server has no executor %q", a.template.Executor)
	}
	a.spec.Begun = a.again
	if err != nil {
		untouched := rec.Run.Handle == "" && !a.again
		return a.endUnstarted(ctx, a.spec.End(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: err.Error(), Permanent: true, Resources: -1, Untouched: untouched}))
	}
	if a.spec.Handle == "" && !a.again {
		if begun, err := a.start(ctx); err != nil || !begun {
			return err
		}
	}
	return a.watch(ctx)
}

// start starts an attempt, again while something is unreachable; false: it is over.
func (a *attempt) start(ctx context.Context) (bool, error) {
	reported := ""
	for n := 1; ; n++ {
		a.spec.Cancelled = isClosed(a.cancelled)
		lasts := func(err error) bool { return !isPassing(err) && n >= startTries }
		event, err := run.Advance(ctx, run.Carrier{Executor: a.driver.o.Executor, Prepare: a.pinSource, Lasts: lasts}, a.spec, time.Time{})
		if event == nil {
			return false, err
		}
		if errors.Is(err, oci.ErrNotFound) && a.ref.Kind == lifecycle.RunDestroy && !lifecycle.HasResources(a.record) && a.hasNoState(ctx) {
			return false, a.reportEnd(ctx, a.spec.End(lifecycle.Result{Outcome: lifecycle.Done}))
		}
		switch e := event.(type) {
		case lifecycle.Started:
			a.spec.Handle = run.Handle(e.Handle)
			return true, a.driver.report(ctx, e)
		case lifecycle.Ended:
			if err == nil {
				return false, a.reportEnd(ctx, e)
			}
			return false, a.endUnstarted(ctx, e)
		}
		a.warn(ctx, "instances: a run could not be started", err)
		if message := err.Error(); message != reported {
			reported = message
			if err := a.driver.report(ctx, event); err != nil {
				return false, err
			}
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-a.cancelled:
		case <-time.After(min(time.Second<<min(n-1, 6), time.Minute)):
		}
		if a.isGone(ctx) {
			return false, nil
		}
	}
}

func (a *attempt) pinSource(ctx context.Context) error {
	return pinSource(ctx, &a.driver.o, a.record, a.template)
}

// hasNoState reports whether the state was never locked: nothing ran, nothing is to be destroyed.
func (a *attempt) hasNoState(ctx context.Context) bool {
	repo, workspace, err := repoOf(&a.driver.o, a.record.Template, a.record.ID)
	if err != nil {
		return false
	}
	list, err := repo.Repo.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return true
	}
	return err == nil && !slices.ContainsFunc(list.Tags, func(tag string) bool {
		t, ok := format.ParseStateTag(tag)
		return ok && t.Fragment == workspace
	})
}

// isPassing reports whether an error may disappear without a change by the user.
func isPassing(err error) bool {
	return oci.Passing(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lifecycle.ErrNoLeader)
}

// watch observes an attempt until it has ended.
func (a *attempt) watch(ctx context.Context) error {
	a.spec.Begun = true
	executor := a.driver.o.Executor
	reported := lifecycle.Wait{Ref: a.ref}
	cancelled := a.cancelled
	killed := a.killed
	ended := executor.Ended(a.ref) // before the first look, which may come late
	for {
		event, err := run.Advance(ctx, run.Carrier{Executor: executor}, a.spec, time.Time{})
		if event == nil {
			return err
		}
		switch e := event.(type) {
		case lifecycle.Ended:
			return a.reportEnd(ctx, e)
		case lifecycle.Wait:
			if err != nil {
				a.warn(ctx, "instances: a run cannot be inspected", err)
			} else if e != reported {
				reported = e
				if err := a.driver.report(ctx, e); err != nil {
					return err
				}
			}
		}
		var cancel, force bool // each is asked once
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-cancelled:
			cancel = true
		case <-killed:
			force = true
		case <-ended:
			ended = nil // the end may stay unobservable for a while: poll from now on
		case <-time.After(a.driver.o.Observe):
		}
		if cancel || force {
			err := executor.Cancel(ctx, a.spec, force)
			switch {
			case err != nil:
				a.warn(ctx, "instances: a run could not be ended early", err)
			case force:
				killed = nil
			default:
				cancelled = nil
			}
			if err := text.Wait(ctx, a.driver.o.Observe); err != nil {
				return err
			}
		}
		if a.isGone(ctx) {
			return nil
		}
	}
}

func (a *attempt) warn(ctx context.Context, message string, err error) {
	a.driver.o.Logger.WarnContext(ctx, message, "instance", a.ref.ID, "run", a.ref.N, "error", err)
}

// endUnstarted ends an attempt that could not be started.
func (a *attempt) endUnstarted(ctx context.Context, e lifecycle.Ended) error {
	if !lifecycle.HasResources(a.record) && a.hasNoState(ctx) {
		e.Result.Resources = 0
	}
	return a.reportEnd(ctx, e)
}

func (a *attempt) reportEnd(ctx context.Context, e lifecycle.Ended) error {
	o := &a.driver.o
	if err := a.driver.report(ctx, e); err != nil {
		return err
	}
	if v, err := o.Store.View(ctx); err == nil {
		o.Metrics.countAttempt(a.ref.Kind, e.Result.Outcome, v.AsOf.Sub(a.record.Run.StartedAt))
	}
	return nil
}
