// SPDX-License-Identifier: Apache-2.0

package instancerun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// Options configure the executor.
type Options struct {
	Client    client.Client // not cached
	Flux      *fluxexec.Executor
	Access    fluxrun.Access
	Registry  string      // HOST[:PORT] of modules
	Layout    addr.Layout // of their repositories
	PlainHTTP bool        // to the registry
	Instances string      // namespace of Templates, which names states
	Operator  string      // namespace of the operator, with the Secrets that templates name
	Network   fluxobj.RunNetwork
	Gate      string // URL of the plan gate; "": no plan can be approved
}

// Flux carries out each attempt according to its source: modules by Terraforms, charts by
// HelmReleases. It implements [run.ClusterExecutor].
type Flux struct {
	o      Options
	runner fluxrun.Runner
}

// New returns an executor. It makes no request.
func New(o Options) *Flux {
	return &Flux{o, fluxrun.Runner{Client: o.Client, Flux: o.Flux, Access: o.Access}}
}

const (
	// never is the interval between runs of a Terraform without a request.
	never = 30 * 24 * time.Hour
	// actions of helm-controller fit into an attempt's timeout.
	actions = 4
	// endTries is how often an uninstall may fail before its attempt has failed.
	endTries = 3
	// valuesKey is the key with values for a chart in a Secret of a template's credentials.
	valuesKey = "values.yaml"
)

func (x *Flux) runOf(a run.Attempt) (r *fluxrun.Run, err error) {
	r = &fluxrun.Run{RunNamespace: &fluxobj.RunNamespace{Name: a.Namespace, UID: types.UID(a.UID), Network: x.o.Network, Charts: a.Source.Chart != ""}}
	for _, name := range a.Credentials {
		r.Copies = append(r.Copies, fluxrun.Copy{
			From: client.ObjectKey{Namespace: x.o.Operator, Name: name}, Where: instancectl.OfOperator, Use: instancectl.UseCredentials, Name: CopyOf(name), Env: true,
		})
	}
	if a.Source.Chart != "" {
		r.Chart, err = x.chartRelease(a)
		return r, err
	}
	r.Module, err = x.moduleSpec(a)
	r.Access = x.describeAccess(a, r.Module)
	return r, err
}

// CopyOf is the name of an instance's copy of a Secret of the operator.
func CopyOf(credential string) string { return "okara-credential-" + credential }

// moduleSpec returns what tofu-controller is to run.
func (x *Flux) moduleSpec(a run.Attempt) (*fluxexec.Spec, error) {
	m, err := addr.ParseModule(a.Source.Module)
	if err != nil {
		return &fluxexec.Spec{}, err
	}
	s := &fluxexec.Spec{
		Namespace: a.Namespace, Name: a.ID, UID: types.UID(a.UID), Attempt: attemptOf(a),
		Labels: map[string]string{v1alpha1.LabelInstance: a.ID},
		Module: fluxexec.Module{
			Repository: x.o.Registry + "/" + x.o.Layout.Module(m), Digest: a.Source.Digest, Version: a.Source.Version, Size: a.Source.Size, Path: a.Source.Path,
			PlainHTTP: x.o.PlainHTTP,
		},
		ServiceAccountName: fluxobj.Account, Variables: a.Variables, Interval: metav1.Duration{Duration: never},
		Drift: fluxexec.DriftIgnore, Retries: 1, Outputs: a.Outputs,
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

// attemptOf is the name of an attempt in the objects of Flux.
func attemptOf(a run.Attempt) string {
	return fmt.Sprintf("%d-%d-%.8s", a.N, a.Ref.Attempt, a.Nonce)
}

func (x *Flux) describeAccess(a run.Attempt, s *fluxexec.Spec) runaccess.Run {
	return runaccess.Run{
		Namespace: x.o.Instances, UID: types.UID(a.UID), Workspace: "instance." + a.ID, Module: a.Source.Module,
		RunNamespace: a.Namespace, Name: a.ID, Repository: s.Module.Repository,
	}
}

// chartRelease returns what helm-controller installs; only attempts change it.
func (x *Flux) chartRelease(a run.Attempt) (*fluxexec.Release, error) {
	s := &fluxexec.Release{
		Namespace: a.Namespace, Name: a.ID, UID: types.UID(a.UID), Attempt: attemptOf(a), Labels: map[string]string{v1alpha1.LabelInstance: a.ID},
		Chart: pinnedChart(a.Source), ServiceAccountName: fluxobj.Account,
		Interval: metav1.Duration{Duration: never}, Timeout: metav1.Duration{Duration: a.Limits.Timeout / actions}, Drift: fluxexec.DriftRepair,
	}
	if a.Source.Secret != "" {
		// The source is beside the Templates: the Secret stays out of the run's namespace.
		s.ChartNamespace = x.o.Instances
	}
	s.PlainHTTP = x.o.PlainHTTP && isIn(x.o.Registry, &s.Chart)
	if a.Kind == lifecycle.RunDrift {
		s.Drift = fluxexec.DriftReport
	}
	for _, name := range a.Credentials {
		s.ValuesFrom = append(s.ValuesFrom, fluxexec.SecretKey{Secret: CopyOf(name), Key: valuesKey})
	}
	if a.Variables == nil {
		return s, nil
	}
	var err error
	s.Values, err = json.Marshal(a.Variables)
	return s, err
}

// Preview returns what Flux runs for an attempt, and the run for okara serve, without a request.
func (o Options) Preview(a run.Attempt) (fluxexec.Spec, runaccess.Run, error) {
	x := New(o)
	s, err := x.moduleSpec(a)
	return *s, x.describeAccess(a, s), err
}

// Advance takes the next step of an attempt: to destroy, or after a cancellation to run.
func (x *Flux) Advance(ctx context.Context, a run.Attempt) (run.Status, error) {
	if a.Kind == lifecycle.RunDestroy {
		return x.endRun(ctx, a, false)
	}
	if a.Cancelled {
		if err := x.Cancel(ctx, a, false); err != nil {
			return run.Status{}, err
		}
	}
	r, err := x.runOf(a)
	if err != nil {
		return run.Status{}, err
	}
	before, err := x.o.Flux.Observe(ctx, r.Work())
	if err != nil {
		return run.Status{}, err
	}
	if a.Cancelled && before.Phase == fluxexec.Absent { // it has not begun, so errors of beginning it do not matter
		return x.translateStatus(ctx, r, a, fluxexec.Status{Phase: fluxexec.Suspended})
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
	case ownershipLost: // the instance was restored from a backup of the cluster
		return failedStatus(r, lost.Error()), nil
	case err != nil && cancelled && a.Cancelled:
		return x.translateStatus(ctx, r, a, before)
	case err != nil:
		return run.Status{}, explainSecret(err)
	case now.Phase == fluxexec.Planned && a.Approved != "":
		return x.approve(ctx, r, a)
	}
	return x.translateStatus(ctx, r, a, now.Status)
}

// explainSecret names in an error of a Secret the field of templates that it is from.
func explainSecret(err error) error {
	if p, ok := fluxrun.Explain(err); ok && slices.Contains([]string{v1alpha1.ReasonSecretMissing, v1alpha1.ReasonSecretNotAllowed}, p.Reason) {
		return fmt.Errorf("credentials: %w", err)
	}
	return err
}

func (x *Flux) approve(ctx context.Context, r *fluxrun.Run, a run.Attempt) (run.Status, error) {
	err := x.o.Flux.Approve(ctx, *r.Module, a.Approved)
	if _, stale := errors.AsType[*fluxexec.StaleError](err); stale {
		return endedStatus(lifecycle.Result{Outcome: lifecycle.Stale, Error: err.Error(), Resources: -1}), nil
	}
	return run.Status{State: run.Running}, err
}

func (x *Flux) translateStatus(ctx context.Context, r *fluxrun.Run, a run.Attempt, st fluxexec.Status) (run.Status, error) {
	switch st.Phase {
	case fluxexec.Applied:
		return x.readApplied(ctx, r, a)
	case fluxexec.Drifted:
		if a.Kind == lifecycle.RunDrift {
			return endedStatus(lifecycle.Result{Outcome: lifecycle.Done, Counts: &lifecycle.Counts{Change: 1}, Resources: -1}), nil
		}
	case fluxexec.Planned:
		return plannedStatus(a, st)
	case fluxexec.Failed:
		over := failedStatus(r, st.Message)
		over.Result.Untouched = strings.HasSuffix(st.Reason, "InitFailed")
		return over, nil
	case fluxexec.Suspended:
		return endedStatus(lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1, State: r.Module != nil}), nil
	case fluxexec.Waiting:
		return waitingStatus(lifecycle.WaitStateLocked, st.Message), nil
	}
	return runningStatus(st), nil
}

func plannedStatus(a run.Attempt, st fluxexec.Status) (run.Status, error) {
	if st.Plan == nil || st.Plan.Reason == fluxexec.PlanGateMissing {
		return waitingStatus(fluxexec.PlanGateMissing, "the plan gate has not seen the plan: start the operator with --plan-gate-address"), nil
	}
	if a.Kind != lifecycle.RunPlan {
		return run.Status{State: run.Running}, nil
	}
	p := st.Plan
	over := lifecycle.Result{Outcome: lifecycle.Done, Plan: p.ID, Counts: new(countsOf(p)), Resources: -1}
	for _, n := range p.Notes {
		over.Notes = append(over.Notes, lifecycle.Note(n))
	}
	return endedStatus(over), nil
}

func countsOf(p *fluxexec.Plan) lifecycle.Counts {
	return lifecycle.Counts{Add: p.Adds, Change: p.Changes, Remove: p.Removes, Import: p.Imports, Forget: p.Forgets}
}

// readApplied reads the outputs that the template lists.
func (x *Flux) readApplied(ctx context.Context, r *fluxrun.Run, a run.Attempt) (run.Status, error) {
	res := lifecycle.Result{Outcome: lifecycle.Done, Resources: -1, State: r.Module != nil}
	if r.Module == nil {
		return endedStatus(res), nil
	}
	all, err := x.o.Flux.Outputs(ctx, *r.Module)
	if err != nil {
		return run.Status{}, err
	}
	for name, output := range all {
		if !slices.Contains(a.Outputs, name) {
			continue
		}
		if res.Outputs == nil {
			res.Outputs = map[string]json.RawMessage{}
		}
		res.Outputs[name] = output.Value
	}
	return endedStatus(res), nil
}

func endedStatus(r lifecycle.Result) run.Status { return run.Status{State: run.Ended, Result: r} }

func failedStatus(r *fluxrun.Run, why string) run.Status {
	return endedStatus(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: why, Resources: -1, State: r.Module != nil})
}

func waitingStatus(reason, message string) run.Status {
	return run.Status{State: run.Running, Waiting: reason, Message: message}
}

// runningStatus is the status of an attempt that is under way.
func runningStatus(st fluxexec.Status) run.Status {
	if st.Failure == (fluxexec.Failure{}) {
		return run.Status{State: run.Running}
	}
	return waitingStatus(lifecycle.WaitRetry, st.Failure.Message)
}

// Cancel keeps Flux from beginning another run of an attempt. A run under way continues.
func (x *Flux) Cancel(ctx context.Context, a run.Attempt, _ bool) error {
	r, err := x.runOf(a)
	if err != nil {
		return err
	}
	return x.o.Flux.Cancel(ctx, r.Work())
}

// Release orphans what an instance made; the state stays, if there is one.
func (x *Flux) Release(ctx context.Context, a run.Attempt) (bool, error) {
	st, err := x.endRun(ctx, a, true)
	return st.State == run.Ended, err
}

func (x *Flux) endRun(ctx context.Context, a run.Attempt, keep bool) (run.Status, error) {
	r, err := x.runOf(a)
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
		return endedStatus(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: kept.Error(), Resources: 1, State: true}), nil
	}
	switch {
	case err != nil:
		return run.Status{}, explainSecret(err)
	case gone:
		return endedStatus(lifecycle.Result{Outcome: lifecycle.Done}), nil
	case r.Chart != nil:
		return uninstallStatus(r, now), nil
	}
	return destroyStatus(r, a, now), nil
}

// uninstallStatus is the status of a release that is being deleted. One that cannot be
// uninstalled fails the attempt; helm-controller keeps trying, and the next attempt checks.
func uninstallStatus(r *fluxrun.Run, st fluxexec.Status) run.Status {
	switch {
	case st.Phase != fluxexec.Destroying || st.Failures == 0:
		return run.Status{State: run.Running}
	case st.Failures >= endTries:
		return failedStatus(r, st.Message)
	}
	return waitingStatus(lifecycle.WaitRetry, st.Message)
}

// destroyStatus is the status of a Terraform that is being deleted. A failure since the attempt
// began fails it, and the Terraform stays; a state that another locks is no failure.
func destroyStatus(r *fluxrun.Run, a run.Attempt, st fluxexec.Status) run.Status {
	if st.Reason == fluxexec.StateLocked {
		return waitingStatus(lifecycle.WaitStateLocked, st.Message)
	}
	// The time of a condition has whole seconds.
	if at, err := time.Parse(time.RFC3339, st.FailedAt); err == nil && !at.Before(a.Started.Truncate(time.Second)) {
		over := failedStatus(r, cmp.Or(st.Failure.Message, st.Message))
		over.Result.Left = st.Left
		return over
	}
	return runningStatus(st)
}
