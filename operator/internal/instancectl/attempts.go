// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// attemptsAtOnce bounds how many attempts are advanced at the same time.
const attemptsAtOnce = 8

// advanceAttempts advances running attempts by their statuses, and reports to the machine.
func advanceAttempts(ctx context.Context, p *reconciliation) {
	var g errgroup.Group
	g.SetLimit(attemptsAtOnce)
	found := make([]lifecycle.Event, len(p.before.Records))
	n := 0
	for id, r := range p.before.Records {
		runs := r.Run != nil && !r.Run.StartedAt.IsZero() && r.Run.EndedAt.IsZero()
		if !runs || p.byID[id] == nil || p.unkept[id] {
			continue
		}
		p.active = true
		event := &found[n]
		n++
		g.Go(func() error { *event = advanceAttempt(ctx, p, r); return nil })
	}
	_ = g.Wait()
	for _, e := range found {
		if e != nil {
			p.applyOwn(e)
		}
	}
}

// advanceAttempt advances one attempt and returns its news, or nil.
func advanceAttempt(ctx context.Context, p *reconciliation, r *lifecycle.Record) lifecycle.Event {
	a, err := newAttempt(p, r)
	if err != nil {
		return lifecycle.Ended{Ref: a.Ref, Result: lifecycle.Result{Outcome: lifecycle.RunFailed, Error: err.Error(), Resources: -1}}
	}
	st, err := executeAttempt(ctx, p, a, r)
	over := !p.requests.now.Before(r.Run.StartedAt.Add(a.Template.Timeout))
	failed := lifecycle.Result{Outcome: lifecycle.RunFailed, Resources: -1, State: true}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && (over || fluxobj.IsTaken(err)): // the name stays taken until a user changes something
		failed.Error = err.Error()
		return lifecycle.Ended{Ref: a.Ref, Result: failed}
	case err == nil && st.State == run.Ended:
		return lifecycle.Ended{Ref: a.Ref, Result: st.Result, Connection: run.ConnectionOf(r, a.Template, p.c.Config, st.Result)}
	case err == nil && st.State == run.Gone:
		return lifecycle.Ended{Ref: a.Ref, Result: lifecycle.Result{Outcome: lifecycle.Lost, Resources: -1, State: true, Error: st.Message}}
	case err == nil && over && a.Kind != lifecycle.RunDestroy:
		err = p.c.Executor.Cancel(ctx, a)
	}
	switch {
	case err != nil:
		return lifecycle.Wait{Ref: a.Ref, Reason: lifecycle.WaitRetry, Message: err.Error()}
	case !over:
		return lifecycle.Wait{Ref: a.Ref, Reason: st.Waiting, Message: st.Message}
	}
	failed.Error = fmt.Sprintf("it did not end within %s", a.Template.Timeout)
	if st.Message != "" {
		failed.Error += ": " + st.Message
	}
	return lifecycle.Ended{Ref: a.Ref, Result: failed}
}

func executeAttempt(ctx context.Context, p *reconciliation, a Attempt, r *lifecycle.Record) (run.Status, error) {
	if a.Kind == lifecycle.RunDestroy {
		if err := p.c.checkUntaken(ctx, a.Namespace, a.UID); err != nil {
			return run.Status{}, err
		}
		return p.c.Executor.Destroy(ctx, a)
	}
	// The error is a [*fluxobj.TakenError] for another's namespace.
	if err := fluxobj.EnsureNamespace(ctx, p.c.live, a.Namespace, v1alpha1.UIDOf(p.byID[r.ID]), workspaceLabels(r)); err != nil {
		return run.Status{}, err
	}
	if a.Cancelled {
		if err := p.c.Executor.Cancel(ctx, a); err != nil {
			return run.Status{}, err
		}
	}
	return p.c.Executor.Run(ctx, a)
}

func newAttempt(p *reconciliation, r *lifecycle.Record) (Attempt, error) {
	n := r.Run
	o := p.byID[r.ID]
	a := Attempt{
		Ref: n.Ref(r.ID),
		UID: v1alpha1.UIDOf(o), Started: n.StartedAt,
		Source: n.Source, Approved: n.Approved, Cancelled: n.Cancel != "", Namespace: workspaceName(r), Template: &template.Template{},
	}
	t := p.before.Templates[cmp.Or(n.Snapshot, r.Snapshot)]
	if t == nil {
		return a, fmt.Errorf("the template of instance %s is no longer in its status", r.ID)
	}
	a.Template = t
	var err error
	if a.Variables, err = template.Render(t, run.ScopeOf(r, p.c.Config)); err != nil {
		return a, fmt.Errorf("variables of template %s: %w", r.Template, err)
	}
	return a, nil
}

// Attempt is one execution for an instance, with all that an executor needs.
type Attempt struct {
	lifecycle.Ref
	UID       types.UID // of the Instance
	Started   time.Time
	Namespace string // of what the instance makes in the cluster; exists when Run is called
	Template  *template.Template
	Source    template.Source
	Variables map[string]json.RawMessage
	Approved  string // the plan that was approved; "": none
	Cancelled bool   // a user asked to end it early
}

// Executor carries out attempts. Methods may be repeated: the same Ref is one run, done once.
type Executor interface {
	// Run advances an apply, plan or drift, and returns its status, without waiting.
	Run(ctx context.Context, a Attempt) (run.Status, error)
	// Destroy takes the next step to destroy; Ended with [lifecycle.Done]: not even the state is
	// left.
	Destroy(ctx context.Context, a Attempt) (run.Status, error)
	// Cancel asks an attempt to end early; Run reports when it has.
	Cancel(ctx context.Context, a Attempt) error
	// Release orphans what an instance made, and reports whether nothing manages it.
	Release(ctx context.Context, a Attempt) (bool, error)
}

// Preview returns the first attempt for an Instance of a module's version, and its namespace's
// labels, without effect. The error is for the author.
func (s Settings) Preview(tmpl *v1alpha1.Template, o *v1alpha1.Instance, version template.Source, m template.Module) (a Attempt, labels map[string]string, err error) {
	t, err := readTemplate(tmpl, s.knownConfig())
	if err != nil {
		return a, nil, err
	}
	if t.Chart != nil {
		return a, nil, fmt.Errorf("Template %s installs a chart: only instances of modules are rendered", tmpl.Name)
	}
	t = t.WithDefaults(s.Defaults)
	if err := t.CheckExpressions(s.knownConfig()); err != nil {
		return a, nil, err
	}
	schema, err := schemaOf(t, m.Inputs, m.Outputs)
	if err != nil {
		return a, nil, err
	}
	r := &lifecycle.Record{ID: s.idOf(o), Template: t.Name, Owner: s.Users.owner(o), Pooled: o.Spec.Owner == nil, Claims: map[string]string{}}
	for name, value := range o.Spec.Claims {
		r.Claims[name] = string(value)
	}
	if r.Parameters, err = schema.CheckParameters(rawValues(o.Spec.Parameters)); err != nil {
		return a, nil, err
	}
	version.Module = t.Module.Address
	version.Path = t.Module.Path
	a = Attempt{
		Ref: lifecycle.Ref{ID: r.ID, Kind: lifecycle.RunApply, N: 1, Attempt: 1, Nonce: "00000000"}, UID: o.UID, Namespace: workspaceName(r), Template: t, Source: version,
	}
	if t.Approval == template.ApprovalPlan {
		a.Kind = lifecycle.RunPlan
	}
	a.Variables, err = template.Render(t, run.ScopeOf(r, s.Config))
	return a, workspaceLabels(r), err
}
