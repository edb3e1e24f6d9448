// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/oci"
)

// New returns the attempt of a record's run by its template, which is one of those given by digest;
// config holds the free values of the server. With an error it has what names the attempt.
func New(templates map[string]*template.Template, r *lifecycle.Record, config map[string]string) (Attempt, error) {
	n := r.Run
	a := Attempt{
		Ref: n.Ref(r.ID), Run: fmt.Sprintf("%s %s run %d", r.Template, r.ID, n.N), Source: n.Source, Approved: n.Approved, Started: n.StartedAt,
		Cancelled: n.Cancel != "", scope: template.Scope{ID: r.ID, Owner: r.Owner, Parameters: r.Parameters, Claims: r.Claims, Config: config, Stopped: n.Off},
	}
	a.Snapshot = cmp.Or(n.Snapshot, r.Snapshot)
	if n.Parameters != nil {
		a.scope.Parameters = n.Parameters
	}
	t := templates[a.Snapshot]
	if t == nil {
		return a, fmt.Errorf("the template of instance %s is no longer stored", r.ID)
	}
	a.template = t
	a.Outputs = t.Outputs
	a.Credentials = t.Credentials
	a.Limits.Timeout = t.Timeout
	var err error
	if a.Variables, err = template.Render(t, a.scope); err != nil {
		return a, fmt.Errorf("variables of template %s: %w", r.Template, err)
	}
	return a, nil
}

// Carrier is an executor with what its owner knows of attempts.
type Carrier struct {
	Executor
	Prepare func(context.Context) error // ensures what a step needs; nil: nothing
	Lasts   func(error) bool            // another try would meet the error again; nil: none
}

// Advance takes the next step of an attempt, and returns what the machine is to be told of it,
// also if there is an error: that it waits, or has ended by the error. No event: ctx has ended.
func Advance(ctx context.Context, c Carrier, a Attempt, now time.Time) (lifecycle.Event, error) {
	if a.Cancelled && a.isUntouched() {
		return a.End(lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1, Untouched: true}), nil
	}
	st, err := c.takeStep(ctx, a)
	over := !a.Deadline.IsZero() && !now.Before(a.Deadline)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && (over || c.Lasts != nil && c.Lasts(err)):
		return a.failBy(err), err
	case err == nil && st.State == Ended:
		return a.End(st.Result), nil
	case err == nil && st.State == Gone:
		return a.End(lifecycle.Result{Outcome: lifecycle.Lost, Resources: -1, State: true, Error: st.Message}), nil
	case err == nil && over && a.Kind != lifecycle.RunDestroy:
		err = c.Cancel(ctx, a, false)
	}
	switch {
	case err != nil:
		return lifecycle.Wait{Ref: a.Ref, Reason: lifecycle.WaitRetry, Message: err.Error()}, err
	case st.Handle != "":
		return lifecycle.Started{Ref: a.Ref, Handle: string(st.Handle)}, nil
	case !over:
		return lifecycle.Wait{Ref: a.Ref, Reason: st.Waiting, Message: st.Message}, nil
	}
	err = fmt.Errorf("it did not end within %s", a.Limits.Timeout)
	if st.Message != "" {
		err = fmt.Errorf("%w: %s", err, st.Message)
	}
	return a.failBy(err), nil
}

func (c Carrier) takeStep(ctx context.Context, a Attempt) (Status, error) {
	if c.Prepare != nil {
		if err := c.Prepare(ctx); err != nil {
			return Status{}, err
		}
	}
	return c.Executor.Advance(ctx, a)
}

// isUntouched reports whether an attempt never began.
func (a *Attempt) isUntouched() bool { return a.Handle == "" && !a.Begun }

// failBy ends an attempt by an error. Another try would not find what is missing or denied.
func (a *Attempt) failBy(err error) lifecycle.Ended {
	untouched := a.isUntouched()
	return a.End(lifecycle.Result{
		Outcome: lifecycle.RunFailed, Error: err.Error(), Resources: -1, State: !untouched, Untouched: untouched,
		Permanent: untouched && (errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrDenied)),
	})
}

// End returns the end of an attempt, with how its instance is reached if it was applied.
func (a *Attempt) End(res lifecycle.Result) lifecycle.Ended {
	e := lifecycle.Ended{Ref: a.Ref, Result: res}
	if a.Kind != lifecycle.RunApply || res.Outcome != lifecycle.Done || a.template == nil {
		return e
	}
	s := a.scope
	s.Outputs = res.Outputs
	var err error
	if e.Connection, err = template.RenderConnection(a.template, s); err != nil { // the instance itself exists
		e.Connection = &template.Connection{Type: template.ConnectionInstructions, Message: "the connection of the template cannot be shown: " + err.Error()}
	}
	return e
}
