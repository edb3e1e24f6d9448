// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// startTries is how often starting an attempt is tried, unless the failure is that
// something cannot be reached.
const startTries = 3

// attempt is a run attempt that this leader drives.
type attempt struct {
	ref   lifecycle.Ref
	again bool            // it may have been started before
	over  <-chan struct{} // closed when the leadership under which it is driven ends

	once      sync.Once
	cancelled chan struct{} // closed when it is to end early

	killOnce sync.Once
	killed   chan struct{} // closed when it is to end at once
}

func (a *attempt) stop() { a.once.Do(func() { close(a.cancelled) }) }

func (a *attempt) kill() {
	a.stop()
	a.killOnce.Do(func() { close(a.killed) })
}

// closed reports whether a channel, which is only ever closed, is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// begin drives an attempt until it ends, unless it is being driven already.
func (r runs) begin(ctx context.Context, ref lifecycle.Ref, again bool) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.attempts[ref]; a != nil && !closed(a.over) {
		return a
	}
	a := &attempt{ref: ref, again: again, over: ctx.Done(), cancelled: make(chan struct{}), killed: make(chan struct{})}
	r.attempts[ref] = a
	r.wg.Go(func() {
		err := r.drive(ctx, a)
		if err != nil && ctx.Err() == nil {
			r.o.Logger.WarnContext(ctx, "instances: an attempt is left alone", "instance", ref.ID, "run", ref.N, "attempt", ref.Attempt, "error", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.attempts[ref] == a {
			delete(r.attempts, ref)
		}
	})
	return a
}

// named returns the record that names an attempt; nil: no record names it any more.
func (r runs) named(ctx context.Context, ref lifecycle.Ref) (*lifecycle.Record, *lifecycle.Document, error) {
	rec, d, err := r.record(ctx, ref.ID)
	if err != nil || rec == nil || rec.Run == nil {
		return nil, nil, err
	}
	if n := rec.Run; n.Kind != ref.Kind || n.N != ref.N || n.Attempt != ref.Attempt || n.Nonce != ref.Nonce {
		return nil, nil, nil
	}
	return rec, d, nil
}

// drive starts an attempt, unless it was started, and watches it to its end.
func (r runs) drive(ctx context.Context, a *attempt) error {
	rec, d, err := r.named(ctx, a.ref)
	if err != nil || rec == nil {
		return err
	}
	spec, t, err := r.sources().spec(d, rec)
	if err != nil {
		return notStarted(ctx, r.Driver, rec, err, true)
	}
	x := r.o.Executors[t.Executor]
	if x == nil {
		return notStarted(ctx, r.Driver, rec, fmt.Errorf("this server has no executor %q", t.Executor), true)
	}
	handle := run.Handle(rec.Run.Handle)
	if handle == "" && !a.again {
		if handle, err = r.start(ctx, a, rec, t, spec, x); err != nil || handle == "" {
			return err
		}
		if err := r.report(ctx, lifecycle.Started{Ref: a.ref, Handle: string(handle)}); err != nil {
			return err
		}
	}
	return r.watch(ctx, a, rec, t, spec, x, handle)
}

// start starts an attempt. It retries while something cannot be reached. If it returns
// neither a handle nor an error, the attempt is over.
func (r runs) start(ctx context.Context, a *attempt, rec *lifecycle.Record, t *template.Template, spec run.Spec, x run.Executor) (run.Handle, error) {
	reported := ""
	for n := 1; ; n++ {
		if closed(a.cancelled) {
			return "", r.end(ctx, rec, lifecycle.Ended{Ref: a.ref, Result: lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1}})
		}
		handle, err := r.startOnce(ctx, rec, t, spec, x)
		switch {
		case err == nil:
			return handle, nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case a.ref.Kind == lifecycle.RunDestroy && errors.Is(err, oci.ErrNotFound) && r.neverRan(ctx, rec):
			return "", r.end(ctx, rec, lifecycle.Ended{Ref: a.ref, Result: lifecycle.Result{Outcome: lifecycle.Done}})
		case !passing(err) && n >= startTries:
			return "", notStarted(ctx, r.Driver, rec, err, errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrDenied))
		}
		r.o.Logger.WarnContext(ctx, "instances: a run could not be started", "instance", a.ref.ID, "run", a.ref.N, "error", err)
		if message := err.Error(); message != reported {
			reported = message
			if err := r.report(ctx, lifecycle.Wait{Ref: a.ref, Reason: lifecycle.WaitRetry, Message: message}); err != nil {
				return "", err
			}
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-a.cancelled:
		case <-time.After(min(time.Second<<min(n-1, 6), time.Minute)):
		}
		if still, _, err := r.named(ctx, a.ref); err == nil && still == nil {
			return "", nil
		}
	}
}

func (r runs) startOnce(ctx context.Context, rec *lifecycle.Record, t *template.Template, spec run.Spec, x run.Executor) (run.Handle, error) {
	if err := r.sources().pin(ctx, rec, t); err != nil {
		return "", err
	}
	if spec.Ref.Kind == lifecycle.RunDestroy {
		return x.Destroy(ctx, spec)
	}
	return x.Start(ctx, spec)
}

// neverRan reports whether the state of an instance was never locked. If its module is
// missing, that is why nothing ran, so there is nothing to destroy.
func (r runs) neverRan(ctx context.Context, rec *lifecycle.Record) bool {
	repo, workspace, err := r.sources().repo(rec.Template, rec.ID)
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

// passing reports whether an error may disappear without a change by the user.
func passing(err error) bool {
	return oci.Passing(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lifecycle.ErrNoLeader)
}

// watch observes an attempt until it has ended.
func (r runs) watch(ctx context.Context, a *attempt, rec *lifecycle.Record, t *template.Template, spec run.Spec, x run.Executor, h run.Handle) error {
	reported := lifecycle.Condition{}
	cancelled := a.cancelled
	killed := a.killed
	var ended <-chan struct{} // before the first look, which may come late
	if e, ok := x.(run.Ender); ok {
		ended = e.Ended(a.ref)
	}
	for {
		st, err := x.Observe(ctx, spec, h)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.o.Logger.WarnContext(ctx, "instances: a run cannot be looked at", "instance", a.ref.ID, "run", a.ref.N, "error", err)
		case st.State == run.Ended:
			return r.end(ctx, rec, lifecycle.Ended{Ref: a.ref, Result: st.Result, Connection: r.connection(rec, t, st.Result)})
		case st.State == run.Gone:
			return r.end(ctx, rec, lifecycle.Ended{Ref: a.ref, Result: lifecycle.Result{Outcome: lifecycle.Lost, Resources: -1, State: true, Error: st.Message}})
		default:
			if c := (lifecycle.Condition{Reason: st.Waiting, Message: st.Message}); c != reported {
				reported = c
				if err := r.report(ctx, lifecycle.Wait{Ref: a.ref, Reason: c.Reason, Message: c.Message}); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-cancelled:
			cancelled = nil // once; if the executor cannot cancel, the run ends by itself
			if c, ok := x.(run.Canceller); ok {
				if err := c.Cancel(ctx, spec, h); err != nil {
					cancelled = a.cancelled
					r.o.Logger.WarnContext(ctx, "instances: a run could not be cancelled", "instance", a.ref.ID, "run", a.ref.N, "error", err)
				}
			}
			if err := text.Wait(ctx, r.o.Observe); err != nil {
				return err
			}
		case <-killed:
			killed = nil
			if c, ok := x.(run.Killer); ok {
				if err := c.Kill(ctx, spec, h); err != nil {
					killed = a.killed
					r.o.Logger.WarnContext(ctx, "instances: a run could not be killed", "instance", a.ref.ID, "run", a.ref.N, "error", err)
				}
			}
			if err := text.Wait(ctx, r.o.Observe); err != nil {
				return err
			}
		case <-ended:
			ended = nil // the end may stay unobservable for a while: poll from now on
		case <-time.After(r.o.Observe):
		}
		if still, _, err := r.named(ctx, a.ref); err == nil && still == nil {
			return nil // the attempt was ended elsewhere
		}
	}
}

// notStarted ends an attempt that could not be started; stays: retrying would not help.
func notStarted(ctx context.Context, r *Driver, rec *lifecycle.Record, why error, stays bool) error {
	n := rec.Run
	res := lifecycle.Result{Outcome: lifecycle.RunFailed, Error: why.Error(), Permanent: stays, Resources: -1}
	if r.runs().neverRan(ctx, rec) {
		res.Resources = 0
	}
	return r.runs().end(ctx, rec, lifecycle.Ended{
		Ref:    lifecycle.Ref{ID: rec.ID, Kind: n.Kind, N: n.N, Attempt: n.Attempt, Nonce: n.Nonce},
		Result: res,
	})
}

// end reports to the machine how an attempt ended.
func (r runs) end(ctx context.Context, rec *lifecycle.Record, e lifecycle.Ended) error {
	if err := r.report(ctx, e); err != nil {
		return err
	}
	if v, err := r.o.Store.View(ctx); err == nil {
		r.o.Metrics.ran(e.Ref.Kind, e.Result.Outcome, v.AsOf.Sub(rec.Run.StartedAt))
	}
	return nil
}

// connection returns how the instance is reached after an apply. If it cannot be
// rendered, the error takes its place, since the instance itself exists.
func (r runs) connection(rec *lifecycle.Record, t *template.Template, res lifecycle.Result) *template.Connection {
	if rec.Workspace != "" || rec.Run.Kind != lifecycle.RunApply || res.Outcome != lifecycle.Done {
		return nil
	}
	scope := r.sources().scope(rec)
	scope.Outputs = res.Outputs
	c, err := template.RenderConnection(t, scope)
	if err != nil {
		return &template.Connection{Type: "instructions", Message: "the connection of the template cannot be shown: " + err.Error()}
	}
	return c
}
