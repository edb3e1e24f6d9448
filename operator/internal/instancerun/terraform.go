// SPDX-License-Identifier: Apache-2.0

package instancerun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec/helm"
	"github.com/seed-141914ff/okara/operator/internal/fluxrun"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
	"github.com/seed-141914ff/okara/operator/internal/runtoken"
)

// Access prepares what runs need and gives it back: [*runaccess.Access].
type Access interface {
	Prepare(ctx context.Context, r runaccess.Run) (runaccess.Ready, error)
	Check(ctx context.Context, r runaccess.Run) error
	Release(ctx context.Context, r runaccess.Run, destroyed bool) error
	Clean(ctx context.Context, r runaccess.Run) (gone bool, err error)
}

// Options say how attempts are carried out.
type Options struct {
	Client    client.Client // reads what is there now, not a cache
	Flux      *fluxexec.Executor
	Helm      *helm.Executor
	Access    Access
	Registry  string      // HOST[:PORT] of modules
	Layout    addr.Layout // of their repositories
	PlainHTTP bool        // to the registry
	Instances string      // namespace of Instances
	Operator  string      // namespace of the operator, which has the Secrets that templates name
	Tofu      string      // namespace of tofu-controller; "": flux-system
	Gate      string      // URL of the plan gate; "": no plan can be approved
}

// Terraform runs the module of an instance. It implements [instancectl.Executor].
type Terraform struct{ o Options }

// New returns an executor. It makes no request.
func New(o Options) *Terraform { return &Terraform{o} }

// never is between two runs of a Terraform that nobody asked for.
const never = 30 * 24 * time.Hour

// spec is what Flux is to run.
func (x *Terraform) spec(a instancectl.Attempt) (fluxexec.Spec, error) {
	m, err := addr.ParseModule(a.Source.Module)
	if err != nil {
		return fluxexec.Spec{}, err
	}
	s := fluxexec.Spec{
		Namespace: a.Namespace, Name: a.ID, UID: a.UID, Attempt: attemptOf(a),
		Labels: map[string]string{v1alpha1.LabelInstance: a.ID},
		Module: fluxexec.Module{
			Repository: x.o.Registry + "/" + x.o.Layout.Module(m), Digest: a.Source.Digest, Version: a.Source.Version, Size: a.Source.Size, Path: a.Source.Path,
			PlainHTTP: x.o.PlainHTTP,
		},
		ServiceAccountName: runhome.Account, Variables: a.Variables, Interval: metav1.Duration{Duration: never},
		Drift: fluxexec.DriftIgnore, Retries: 1, Outputs: a.Template.Outputs,
	}
	if len(s.Outputs) > 0 {
		s.OutputsSecret = a.ID + "-okara-raw"
	}
	switch {
	case a.Kind == lifecycle.RunDrift:
		s.Approval, s.Drift = fluxexec.ApprovalNone, fluxexec.DriftReport
	case a.Kind == lifecycle.RunPlan, a.Approved != "":
		s.Approval, s.Gate = fluxexec.ApprovalManual, x.o.Gate
	}
	return s, nil
}

// attemptOf names an attempt in the objects of Flux.
func attemptOf(a instancectl.Attempt) string {
	return fmt.Sprintf("%d-%d-%.8s", a.N, a.Ref.Attempt, a.Nonce)
}

// access is the run of an instance as okara serve knows it.
func (x *Terraform) access(a instancectl.Attempt, s fluxexec.Spec) runaccess.Run {
	return runaccess.Run{
		Run:  runtoken.Run{Namespace: x.o.Instances, UID: a.UID, Workspace: "instance." + a.ID, Module: a.Source.Module},
		Home: a.Namespace, Name: a.ID, Repository: s.Module.Repository,
	}
}

// prepare makes sure of all that a run needs.
func (x *Terraform) prepare(ctx context.Context, a instancectl.Attempt) (fluxexec.Spec, error) {
	s, err := x.spec(a)
	if err != nil {
		return s, err
	}
	home := runhome.Home{Name: a.Namespace, UID: a.UID, Flux: x.o.Tofu}
	if err := home.Furnish(ctx, x.o.Client); err != nil {
		return s, err
	}
	ready, err := x.o.Access.Prepare(ctx, x.access(a, s))
	if err != nil {
		return s, err
	}
	ready.Into(&s)
	return s, x.credentials(ctx, a, &s)
}

// Run brings an attempt further.
func (x *Terraform) Run(ctx context.Context, a instancectl.Attempt) (run.Status, error) {
	s, err := x.prepare(ctx, a)
	if err != nil {
		return run.Status{}, err
	}
	if s.Suspend, err = x.cancelled(ctx, s); err != nil {
		return run.Status{}, err
	}
	if _, err := x.o.Flux.Apply(ctx, s); err != nil {
		return run.Status{}, err
	}
	st, err := x.o.Flux.Observe(ctx, s)
	if err != nil {
		return run.Status{}, err
	}
	if st.TurnedAway() {
		if lost, err := x.lost(ctx, a, s); lost != nil || err != nil {
			return x.brought(ctx, s, lost, err)
		}
	}
	if st.Phase == fluxexec.Planned && a.Approved != "" {
		return x.approve(ctx, s, a)
	}
	return x.status(ctx, s, a, st)
}

// lost is why the state of an instance is not its own any more: a backup of the cluster
// brought the instance back. nil: it is.
func (x *Terraform) lost(ctx context.Context, a instancectl.Attempt, s fluxexec.Spec) (*runaccess.NotOwnerError, error) {
	err := x.o.Access.Check(ctx, x.access(a, s))
	if lost, ok := errors.AsType[*runaccess.NotOwnerError](err); ok {
		return lost, nil
	}
	return nil, err
}

// brought ends an attempt of an instance that was brought back, and begins no other run.
func (x *Terraform) brought(ctx context.Context, s fluxexec.Spec, lost *runaccess.NotOwnerError, err error) (run.Status, error) {
	if err == nil {
		err = x.o.Flux.Cancel(ctx, s)
	}
	if err != nil {
		return run.Status{}, err
	}
	return ended(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: lost.Error(), Resources: -1, State: true}), nil
}

// cancelled reports whether an attempt was asked to end early: then it stays suspended.
func (x *Terraform) cancelled(ctx context.Context, s fluxexec.Spec) (bool, error) {
	st, err := x.o.Flux.Observe(ctx, s)
	return err == nil && st.Phase == fluxexec.Suspended && st.Attempt == s.Attempt, err
}

func (x *Terraform) approve(ctx context.Context, s fluxexec.Spec, a instancectl.Attempt) (run.Status, error) {
	err := x.o.Flux.Approve(ctx, s, a.Approved)
	if _, stale := errors.AsType[*fluxexec.StaleError](err); stale {
		return ended(lifecycle.Result{Outcome: lifecycle.Stale, Error: err.Error(), Resources: -1}), nil
	}
	return run.Status{State: run.Running}, err
}

// status is what the machine is told of what Flux says.
func (x *Terraform) status(ctx context.Context, s fluxexec.Spec, a instancectl.Attempt, st fluxexec.Status) (run.Status, error) {
	switch st.Phase {
	case fluxexec.Applied:
		return x.applied(ctx, s, a)
	case fluxexec.Drifted:
		if a.Kind == lifecycle.RunDrift {
			return ended(lifecycle.Result{Outcome: lifecycle.Done, Counts: &lifecycle.Counts{Change: 1}, Resources: -1}), nil
		}
	case fluxexec.Planned:
		return planned(a, st)
	case fluxexec.Failed:
		return ended(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: st.Message, Resources: -1, State: true}), nil
	case fluxexec.Suspended:
		return ended(lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1, State: true}), nil
	case fluxexec.Waiting:
		return run.Status{State: run.Running, Waiting: lifecycle.WaitStateLocked, Message: st.Message}, nil
	}
	return running(st), nil
}

// planned is a plan that waits for somebody.
func planned(a instancectl.Attempt, st fluxexec.Status) (run.Status, error) {
	if st.Plan == nil || st.Plan.Reason == fluxexec.PlanGateMissing {
		return run.Status{State: run.Running, Waiting: fluxexec.PlanGateMissing, Message: "the plan gate has not seen the plan: start the operator with --plan-gate-address"}, nil
	}
	if a.Kind != lifecycle.RunPlan {
		return run.Status{State: run.Running}, nil
	}
	p := st.Plan
	return ended(lifecycle.Result{
		Outcome: lifecycle.Done, Plan: p.ID, Counts: &lifecycle.Counts{Add: p.Adds, Change: p.Changes, Remove: p.Removes}, Resources: -1,
	}), nil
}

// applied reads the outputs that the template lists.
func (x *Terraform) applied(ctx context.Context, s fluxexec.Spec, a instancectl.Attempt) (run.Status, error) {
	all, err := x.o.Flux.Outputs(ctx, s)
	if err != nil {
		return run.Status{}, err
	}
	res := lifecycle.Result{Outcome: lifecycle.Done, Resources: -1, State: true}
	for name, output := range all {
		if !slices.Contains(a.Template.Outputs, name) {
			continue
		}
		if res.Outputs == nil {
			res.Outputs = map[string]json.RawMessage{}
		}
		res.Outputs[name] = output.Value
	}
	return ended(res), nil
}

func ended(r lifecycle.Result) run.Status { return run.Status{State: run.Ended, Result: r} }

// Cancel keeps Flux from beginning another run of an attempt. The one that goes on ends.
func (x *Terraform) Cancel(ctx context.Context, a instancectl.Attempt) error {
	s, err := x.spec(a)
	if err != nil {
		return err
	}
	return x.o.Flux.Cancel(ctx, s)
}

// Destroy takes the next step to the end of what an instance made.
func (x *Terraform) Destroy(ctx context.Context, a instancectl.Attempt) (run.Status, error) {
	return x.end(ctx, a, false)
}

// Release leaves what an instance made to people: nobody runs it any more, and the state
// stays. Where nothing was applied there is no state.
func (x *Terraform) Release(ctx context.Context, a instancectl.Attempt) (bool, error) {
	st, err := x.end(ctx, a, true)
	return st.State == run.Ended, err
}

func (x *Terraform) end(ctx context.Context, a instancectl.Attempt, keep bool) (run.Status, error) {
	s, err := x.spec(a)
	if err != nil {
		return run.Status{}, err
	}
	s.Keep = keep
	runner := fluxrun.Runner{Client: x.o.Client, Flux: x.o.Flux, Access: x.o.Access}
	gone, err := runner.End(ctx, &fluxrun.Run{
		Spec: s, Access: x.access(a, s), Copies: copies(a),
		Prepare: func(ctx context.Context) (fluxexec.Spec, error) { return x.prepare(ctx, a) },
	})
	if kept, ok := errors.AsType[*runaccess.KeptError](err); ok {
		return ended(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: kept.Error(), Resources: 1, State: true}), nil
	}
	if err != nil {
		return run.Status{}, err
	}
	if gone {
		return ended(lifecycle.Result{Outcome: lifecycle.Done}), nil
	}
	return x.ending(ctx, a, s), nil
}

// ending tells how a Terraform goes that is deleted. One that failed to destroy since the
// attempt began fails it; the Terraform stays, and the next attempt looks again.
func (x *Terraform) ending(ctx context.Context, a instancectl.Attempt, s fluxexec.Spec) run.Status {
	st, err := x.o.Flux.Observe(ctx, s)
	if err != nil {
		return run.Status{State: run.Running}
	}
	// A condition has whole seconds.
	if at, err := time.Parse(time.RFC3339, st.FailedAt); err == nil && !at.Before(a.Started.Truncate(time.Second)) {
		return ended(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: cmp.Or(st.Failure.Message, st.Message), Resources: -1, State: true})
	}
	if st.Reason == fluxexec.StateLocked {
		return run.Status{State: run.Running, Waiting: lifecycle.WaitStateLocked, Message: st.Message}
	}
	return running(st)
}
