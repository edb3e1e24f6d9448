// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"fmt"

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
	a, err := run.New(p.before.Templates, r, p.c.Config)
	if err != nil {
		return lifecycle.Ended{Ref: a.Ref, Result: lifecycle.Result{Outcome: lifecycle.RunFailed, Error: err.Error(), Resources: -1}}
	}
	a.Begun = true // its objects tell
	a.Deadline = a.Started.Add(a.Limits.Timeout)
	a.Cluster = clusterOf(p.byID[r.ID], r)
	prepare := func(ctx context.Context) error {
		if a.Kind == lifecycle.RunDestroy {
			return p.c.checkUntaken(ctx, a.Namespace, types.UID(a.UID))
		}
		// The error is a [*fluxobj.TakenError] for another's namespace, which stays taken until a user changes something.
		return fluxobj.EnsureNamespace(ctx, p.c.live, a.Namespace, types.UID(a.UID), workspaceLabels(r))
	}
	event, _ := run.Advance(ctx, run.Carrier{Executor: p.c.Executor, Prepare: prepare, Lasts: fluxobj.IsTaken}, a, p.requests.now)
	return event
}

func clusterOf(o *v1alpha1.Instance, r *lifecycle.Record) run.Cluster {
	return run.Cluster{UID: string(v1alpha1.UIDOf(o)), Namespace: workspaceName(r)}
}

// Preview returns the first attempt for an Instance of a module's version, and its namespace's
// labels, without effect. The error is for the author.
func (s Settings) Preview(tmpl *v1alpha1.Template, o *v1alpha1.Instance, version template.Source, m template.Module) (a run.Attempt, labels map[string]string, err error) {
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
	r.Run = &lifecycle.Run{N: 1, Attempt: 1, Nonce: "00000000", Kind: lifecycle.RunApply, Source: version}
	if t.Approval == template.ApprovalPlan {
		r.Run.Kind = lifecycle.RunPlan
	}
	a, err = run.New(map[string]*template.Template{"": t}, r, s.Config)
	a.Cluster = run.Cluster{UID: string(o.UID), Namespace: workspaceName(r)}
	return a, workspaceLabels(r), err
}
