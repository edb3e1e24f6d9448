// SPDX-License-Identifier: Apache-2.0

package instancerun

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec/helm"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
)

// Helm installs the chart of an instance. It implements [instancectl.Executor].
type Helm struct{ o Options }

// NewHelm returns an executor. It makes no request.
func NewHelm(o Options) *Helm { return &Helm{o} }

// actions is how often helm-controller tries within an attempt: all of it takes no longer
// than the attempt may.
const actions = 4

// valuesKey is what a Secret of a template's credentials has for a chart.
const valuesKey = "values.yaml"

// spec is what Flux is to install. The attempt alone does what is to be done: nothing is
// looked at between two of them.
func (x *Helm) spec(a instancectl.Attempt) (helm.Spec, error) {
	values, err := json.Marshal(a.Variables)
	if err != nil {
		return helm.Spec{}, err
	}
	s := helm.Spec{
		Namespace: a.Namespace, Name: a.ID, UID: a.UID, Attempt: attemptOf(a), Labels: map[string]string{v1alpha1.LabelInstance: a.ID},
		Chart: pinned(a.Source), Values: values, ServiceAccountName: runhome.Account,
		Interval: metav1.Duration{Duration: never}, Timeout: metav1.Duration{Duration: a.Template.Timeout / actions}, Drift: fluxexec.DriftRepair,
	}
	if a.Source.Secret != "" {
		// Its source is beside the Templates: the Secret never comes near what is installed.
		s.ChartNamespace = x.o.Instances
		fetchedBy(s.Chart, a.Source.Secret)
	}
	insecure(s.Chart, x.o.Registry, x.o.PlainHTTP)
	if a.Variables == nil {
		s.Values = nil
	}
	if a.Kind == lifecycle.RunDrift {
		s.Drift = fluxexec.DriftReport
	}
	for _, name := range a.Template.Credentials {
		s.ValuesFrom = append(s.ValuesFrom, helm.ValuesFrom{Secret: copyOf(name), Key: valuesKey})
	}
	return s, nil
}

// furnish makes sure of the account and its rights: without them nothing is installed, and
// nothing uninstalled either.
func (x *Helm) furnish(ctx context.Context, a instancectl.Attempt) error {
	home := runhome.Home{Name: a.Namespace, UID: a.UID, Charts: true}
	return home.Furnish(ctx, x.o.Client)
}

// Run brings an attempt further.
func (x *Helm) Run(ctx context.Context, a instancectl.Attempt) (run.Status, error) {
	s, err := x.spec(a)
	if err != nil {
		return run.Status{}, err
	}
	if err := x.furnish(ctx, a); err != nil {
		return run.Status{}, err
	}
	if _, err := copyCredentials(ctx, x.o, a); err != nil {
		return run.Status{}, err
	}
	before, err := x.o.Helm.Observe(ctx, s)
	if err != nil {
		return run.Status{}, err
	}
	s.Suspend = before.Phase == fluxexec.Suspended && before.Attempt == s.Attempt // it was cancelled
	if _, err := x.o.Helm.Apply(ctx, s); err != nil {
		return run.Status{}, err
	}
	st, err := x.o.Helm.Observe(ctx, s)
	return released(st), err
}

// released is what the machine is told of what helm-controller says.
func released(st fluxexec.Status) run.Status {
	switch st.Phase {
	case fluxexec.Applied:
		return ended(lifecycle.Result{Outcome: lifecycle.Done, Resources: -1})
	case fluxexec.Drifted:
		return ended(lifecycle.Result{Outcome: lifecycle.Done, Counts: &lifecycle.Counts{Change: 1}, Resources: -1})
	case fluxexec.Failed:
		return ended(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: st.Message, Resources: -1})
	case fluxexec.Suspended:
		return ended(lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1})
	}
	return running(st)
}

// running is what the machine is told of what goes on.
func running(st fluxexec.Status) run.Status {
	if st.Failure == (fluxexec.Failure{}) {
		return run.Status{State: run.Running}
	}
	return run.Status{State: run.Running, Waiting: lifecycle.WaitRetry, Message: st.Failure.Message}
}

// Cancel keeps helm-controller from beginning another action. The one that goes on ends.
func (x *Helm) Cancel(ctx context.Context, a instancectl.Attempt) error {
	s, err := x.spec(a)
	if err != nil {
		return err
	}
	return x.o.Helm.Cancel(ctx, s)
}

// Destroy takes the next step to the end of what an instance installed.
func (x *Helm) Destroy(ctx context.Context, a instancectl.Attempt) (run.Status, error) {
	return x.end(ctx, a, false)
}

// Release leaves what an instance installed to people: nobody runs it any more.
func (x *Helm) Release(ctx context.Context, a instancectl.Attempt) (bool, error) {
	st, err := x.end(ctx, a, true)
	return st.State == run.Ended, err
}

func (x *Helm) end(ctx context.Context, a instancectl.Attempt, keep bool) (run.Status, error) {
	s, err := x.spec(a)
	if err != nil {
		return run.Status{}, err
	}
	s.Keep = keep
	before, err := x.o.Helm.Observe(ctx, s)
	if err != nil {
		return run.Status{}, err
	}
	if before.Phase != fluxexec.Absent {
		if err := x.furnish(ctx, a); err != nil {
			return run.Status{}, err
		}
		if gone, err := x.o.Helm.Destroy(ctx, s); err != nil || !gone {
			return ending(before), err
		}
	}
	gone, err := x.o.Helm.Clean(ctx, s)
	if err != nil || !gone {
		return run.Status{State: run.Running}, err
	}
	return ended(lifecycle.Result{Outcome: lifecycle.Done}), nil
}

// endTries is how often helm-controller may fail to uninstall before an attempt has failed.
const endTries = 3

// ending tells how a release goes that is deleted. One that cannot be uninstalled fails the
// attempt; helm-controller goes on trying, and the next attempt looks again.
func ending(st fluxexec.Status) run.Status {
	switch {
	case st.Phase != fluxexec.Destroying || st.Failures == 0:
		return run.Status{State: run.Running}
	case st.Failures >= endTries:
		return ended(lifecycle.Result{Outcome: lifecycle.RunFailed, Error: st.Message, Resources: -1})
	}
	return run.Status{State: run.Running, Waiting: lifecycle.WaitRetry, Message: st.Message}
}
