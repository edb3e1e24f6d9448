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
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/fluxrun"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

// Options say how attempts are carried out.
type Options struct {
	Client    client.Client // reads what is there now, not a cache
	Flux      *fluxexec.Executor
	Access    fluxrun.Access
	Registry  string      // HOST[:PORT] of modules
	Layout    addr.Layout // of their repositories
	PlainHTTP bool        // to the registry
	Instances string      // namespace of Instances
	Operator  string      // namespace of the operator, which has the Secrets that templates name
	Tofu      string      // namespace of tofu-controller; "": flux-system
	Gate      string      // URL of the plan gate; "": no plan can be approved
}

// Flux carries each attempt out by what its source needs: modules by Terraforms, charts by
// HelmReleases. It implements [instancectl.Executor].
type Flux struct {
	o      Options
	runner fluxrun.Runner
}

// New returns an executor. It makes no request.
func New(o Options) *Flux {
	return &Flux{o, fluxrun.Runner{Client: o.Client, Flux: o.Flux, Access: o.Access}}
}

const (
	// never is between two runs of a Terraform that nobody asked for.
	never = 30 * 24 * time.Hour
	// actions is how often helm-controller tries within an attempt: all of it takes no longer
	// than the attempt may.
	actions = 4
	// endTries is how often helm-controller may fail to uninstall before an attempt has failed.
	endTries = 3
	// valuesKey is what a Secret of a template's credentials has for a chart.
	valuesKey = "values.yaml"
	// useCredentials is what the annotation okara.dev/use of a Secret of the operator says of
	// those that templates may name.
	useCredentials = "instances"
)

// of is the run of an attempt.
func (x *Flux) of(a instancectl.Attempt) (r *fluxrun.Run, err error) {
	r = &fluxrun.Run{RunNamespace: &fluxobj.RunNamespace{Name: a.Namespace, UID: a.UID, Flux: x.o.Tofu, Charts: a.Source.Chart != ""}}
	for _, name := range a.Template.Credentials {
		r.Copies = append(r.Copies, fluxrun.Copy{
			From: client.ObjectKey{Namespace: x.o.Operator, Name: name}, Where: " of the operator's namespace", Use: useCredentials, Name: CopyOf(name), Env: true,
		})
	}
	if a.Source.Chart != "" {
		r.Chart, err = x.chart(a)
		return r, err
	}
	r.Module, err = x.module(a)
	r.Access = x.access(a, r.Module)
	return r, err
}

// CopyOf is the Secret of an instance that has what one of the operator's has.
func CopyOf(credential string) string { return "okara-credential-" + credential }

// module is what tofu-controller is to run.
func (x *Flux) module(a instancectl.Attempt) (*fluxexec.Spec, error) {
	m, err := addr.ParseModule(a.Source.Module)
	if err != nil {
		return &fluxexec.Spec{}, err
	}
	s := &fluxexec.Spec{
		Namespace: a.Namespace, Name: a.ID, UID: a.UID, Attempt: attemptOf(a),
		Labels: map[string]string{v1alpha1.LabelInstance: a.ID},
		Module: fluxexec.Module{
			Repository: x.o.Registry + "/" + x.o.Layout.Module(m), Digest: a.Source.Digest, Version: a.Source.Version, Size: a.Source.Size, Path: a.Source.Path,
			PlainHTTP: x.o.PlainHTTP,
		},
		ServiceAccountName: fluxobj.Account, Variables: a.Variables, Interval: metav1.Duration{Duration: never},
		Drift: fluxexec.DriftIgnore, Retries: 1, Outputs: a.Template.Outputs,
	}
	if len(s.Outputs) > 0 {
		s.OutputsSecret = a.ID + "-okara-raw"
	}
	switch {
	case a.Kind == lifecycle.RunDrift:
		s.Approval = fluxexec.ApprovalNone
		s.Drift = fluxexec.DriftReport
	case a.Kind == lifecycle.RunPlan, a.Approved != "":
		s.Approval = fluxexec.ApprovalManual
		s.Gate = x.o.Gate
	}
	return s, nil
}

// attemptOf names an attempt in the objects of Flux.
func attemptOf(a instancectl.Attempt) string {
	return fmt.Sprintf("%d-%d-%.8s", a.N, a.Ref.Attempt, a.Nonce)
}

// access is the run of an instance as okara serve knows it.
func (x *Flux) access(a instancectl.Attempt, s *fluxexec.Spec) runaccess.Run {
	return runaccess.Run{
		Namespace: x.o.Instances, UID: a.UID, Workspace: "instance." + a.ID, Module: a.Source.Module,
		RunNamespace: a.Namespace, Name: a.ID, Repository: s.Module.Repository,
	}
}

// chart is what helm-controller is to install. The attempt alone does what is to be done:
// nothing is looked at between two of them.
func (x *Flux) chart(a instancectl.Attempt) (*fluxexec.Release, error) {
	s := &fluxexec.Release{
		Namespace: a.Namespace, Name: a.ID, UID: a.UID, Attempt: attemptOf(a), Labels: map[string]string{v1alpha1.LabelInstance: a.ID},
		Chart: pinned(a.Source), ServiceAccountName: fluxobj.Account,
		Interval: metav1.Duration{Duration: never}, Timeout: metav1.Duration{Duration: a.Template.Timeout / actions}, Drift: fluxexec.DriftRepair,
	}
	if a.Source.Secret != "" {
		// Its source is beside the Templates: the Secret never comes near what is installed.
		s.ChartNamespace = x.o.Instances
		fetchedBy(s.Chart, a.Source.Secret)
	}
	insecure(s.Chart, x.o.Registry, x.o.PlainHTTP)
	if a.Kind == lifecycle.RunDrift {
		s.Drift = fluxexec.DriftReport
	}
	for _, name := range a.Template.Credentials {
		s.ValuesFrom = append(s.ValuesFrom, fluxexec.SecretKey{Secret: CopyOf(name), Key: valuesKey})
	}
	if a.Variables == nil {
		return s, nil
	}
	var err error
	s.Values, err = json.Marshal(a.Variables)
	return s, err
}

// Preview is what Flux runs for an attempt, without what is prepared for it, and the run
// as okara serve knows it. It makes no request.
func (o Options) Preview(a instancectl.Attempt) (fluxexec.Spec, runaccess.Run, error) {
	x := New(o)
	s, err := x.module(a)
	return *s, x.access(a, s), err
}

// Run brings an attempt further.
func (x *Flux) Run(ctx context.Context, a instancectl.Attempt) (run.Status, error) {
	r, err := x.of(a)
	if err != nil {
		return run.Status{}, err
	}
	before, err := x.o.Flux.Observe(ctx, r.Work())
	if err != nil {
		return run.Status{}, err
	}
	if a.Cancelled && before.Phase == fluxexec.Absent { // it has not begun, and need not be able to
		return x.status(ctx, r, a, fluxexec.Status{Phase: fluxexec.Suspended})
	}
	cancelled := before.Phase == fluxexec.Suspended && before.Attempt == attemptOf(a) // it stays suspended
	if r.Chart != nil {
		r.Chart.Suspend = cancelled
	} else {
		r.Module.Suspend = cancelled
	}
	now, err := x.runner.Apply(ctx, r)
	lost, ownershipLost := errors.AsType[*runaccess.NotOwnerError](err)
	switch {
	case ownershipLost: // a backup of the cluster brought the instance back
		return failed(r, lost.Error()), nil
	case err != nil && cancelled && a.Cancelled:
		return x.status(ctx, r, a, before)
	case err != nil:
		return run.Status{}, explained(err)
	case now.Phase == fluxexec.Planned && a.Approved != "":
		return x.approve(ctx, r, a)
	}
	return x.status(ctx, r, a, now.Status)
}

// explained says of an error of a Secret what templates call it.
func explained(err error) error {
	if p, ok := fluxrun.Explain(err); ok && slices.Contains([]string{v1alpha1.ReasonSecretMissing, v1alpha1.ReasonSecretNotAllowed}, p.Reason) {
		return fmt.Errorf("credentials: %w", err)
	}
	return err
}

func (x *Flux) approve(ctx context.Context, r *fluxrun.Run, a instancectl.Attempt) (run.Status, error) {
	err := x.o.Flux.Approve(ctx, *r.Module, a.Approved)
	if _, stale := errors.AsType[*fluxexec.StaleError](err); stale {
		return ended(lifecycle.Result{Outcome: lifecycle.Stale, Error: err.Error(), Resources: -1}), nil
	}
	return run.Status{State: run.Running}, err
}

// status is what the machine is told of what Flux says.
func (x *Flux) status(ctx context.Context, r *fluxrun.Run, a instancectl.Attempt, st fluxexec.Status) (run.Status, error) {
	switch st.Phase {
	case fluxexec.Applied:
		return x.applied(ctx, r, a)
	case fluxexec.Drifted:
		if a.Kind == lifecycle.RunDrift {
			return ended(lifecycle.Result{Outcome: lifecycle.Done, Counts: &lifecycle.Counts{Change: 1}, Resources: -1}), nil
		}
	case fluxexec.Planned:
		return planned(a, st)
	case fluxexec.Failed:
		return failed(r, st.Message), nil
	case fluxexec.Suspended:
		return ended(lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1, State: r.Module != nil}), nil
	case fluxexec.Waiting:
		return waiting(lifecycle.WaitStateLocked, st.Message), nil
	}
	return running(st), nil
}

// planned is a plan that waits for somebody.
func planned(a instancectl.Attempt, st fluxexec.Status) (run.Status, error) {
	if st.Plan == nil || st.Plan.Reason == fluxexec.PlanGateMissing {
		return waiting(fluxexec.PlanGateMissing, "the plan gate has not seen the plan: start the operator with --plan-gate-address"), nil
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
func (x *Flux) applied(ctx context.Context, r *fluxrun.Run, a instancectl.Attempt) (run.Status, error) {
	res := lifecycle.Result{Outcome: lifecycle.Done, Resources: -1, State: r.Module != nil}
	if r.Module == nil {
		return ended(res), nil
	}
	all, err := x.o.Flux.Outputs(ctx, *r.Module)
	if err != nil {
		return run.Status{}, err
	}
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

func failed(r *fluxrun.Run, why string) run.Status {
	return ended(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: why, Resources: -1, State: r.Module != nil})
}

func waiting(reason, message string) run.Status {
	return run.Status{State: run.Running, Waiting: reason, Message: message}
}

// running is what the machine is told of what goes on.
func running(st fluxexec.Status) run.Status {
	if st.Failure == (fluxexec.Failure{}) {
		return run.Status{State: run.Running}
	}
	return waiting(lifecycle.WaitRetry, st.Failure.Message)
}

// Cancel keeps Flux from beginning another run of an attempt. The one that goes on ends.
func (x *Flux) Cancel(ctx context.Context, a instancectl.Attempt) error {
	r, err := x.of(a)
	if err != nil {
		return err
	}
	return x.o.Flux.Cancel(ctx, r.Work())
}

// Destroy takes the next step to the end of what an instance made.
func (x *Flux) Destroy(ctx context.Context, a instancectl.Attempt) (run.Status, error) {
	return x.end(ctx, a, false)
}

// Release orphans what an instance made: nobody runs it any more, and the state
// stays. Where nothing was applied there is no state.
func (x *Flux) Release(ctx context.Context, a instancectl.Attempt) (bool, error) {
	st, err := x.end(ctx, a, true)
	return st.State == run.Ended, err
}

func (x *Flux) end(ctx context.Context, a instancectl.Attempt, keep bool) (run.Status, error) {
	r, err := x.of(a)
	if err != nil {
		return run.Status{}, err
	}
	if r.Chart != nil {
		r.Chart.Keep = keep
	} else {
		r.Module.Keep = keep
	}
	gone, now, err := x.runner.End(ctx, r)
	if kept, ok := errors.AsType[*runaccess.KeptError](err); ok {
		return ended(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: kept.Error(), Resources: 1, State: true}), nil
	}
	switch {
	case err != nil:
		return run.Status{}, explained(err)
	case gone:
		return ended(lifecycle.Result{Outcome: lifecycle.Done}), nil
	case r.Chart != nil:
		return uninstalling(r, now), nil
	}
	return destroying(r, a, now), nil
}

// uninstalling tells how a release goes that is deleted. One that cannot be uninstalled
// fails the attempt; helm-controller goes on trying, and the next attempt looks again.
func uninstalling(r *fluxrun.Run, st fluxexec.Status) run.Status {
	switch {
	case st.Phase != fluxexec.Destroying || st.Failures == 0:
		return run.Status{State: run.Running}
	case st.Failures >= endTries:
		return failed(r, st.Message)
	}
	return waiting(lifecycle.WaitRetry, st.Message)
}

// destroying tells how a Terraform goes that is deleted. One that failed to destroy since
// the attempt began fails it; the Terraform stays, and the next attempt looks again. A lock
// of somebody else is no failure.
func destroying(r *fluxrun.Run, a instancectl.Attempt, st fluxexec.Status) run.Status {
	if st.Reason == fluxexec.StateLocked {
		return waiting(lifecycle.WaitStateLocked, st.Message)
	}
	// A condition has whole seconds.
	if at, err := time.Parse(time.RFC3339, st.FailedAt); err == nil && !at.Before(a.Started.Truncate(time.Second)) {
		return failed(r, cmp.Or(st.Failure.Message, st.Message))
	}
	return running(st)
}
