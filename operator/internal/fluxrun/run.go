// SPDX-License-Identifier: Apache-2.0

package fluxrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// Access manages the access of runs to okara serve: [*runaccess.Access].
type Access interface {
	Prepare(ctx context.Context, r runaccess.Run) (runaccess.Ready, error)
	Check(ctx context.Context, r runaccess.Run) error
	ListLeaves(ctx context.Context, r runaccess.Run) ([]string, error)
	Release(ctx context.Context, r runaccess.Run) error
	Clean(ctx context.Context, r runaccess.Run) (gone bool, err error)
}

// Runner carries out runs. It is safe for concurrent use on different runs.
type Runner struct {
	Client client.Client // reads the current objects, without a cache
	Flux   *fluxexec.Executor
	Access Access
}

// Run is a run of either a module or a chart.
type Run struct {
	Module       *fluxexec.Spec        // nil for a chart; with Keep nothing is destroyed, and the state stays
	Chart        *fluxexec.Release     // nil for a module
	Access       runaccess.Run         // of a module
	RunNamespace *fluxobj.RunNamespace // to provision for the run; nil: an administrator provisions it
	Copies       []Copy                // of Secrets that the run reads

	// EnsureNamespace creates the namespace of the run. nil means that it exists.
	EnsureNamespace func(ctx context.Context) error
	// Adopts reports whether to adopt a state that already exists. nil means no.
	Adopts func(ctx context.Context) bool
	// Request combines what changes with the token and with the copies; nil: only the first counts.
	Request func(ready, copies string) string
	// Hold is called before each step of a destroy; an error delays it. nil: never.
	Hold func(ctx context.Context, now fluxexec.Status) error

	ends bool
}

// Work returns what Flux carries out.
func (r *Run) Work() fluxexec.Work {
	if r.Chart != nil {
		return r.Chart
	}
	return r.Module
}

// Copy is a copy of a Secret that a run reads under another name, in the run's namespace.
type Copy struct {
	From  client.ObjectKey
	Where string   // added to its name in messages
	Use   string   // the use that the Secret has to allow with okara.dev/use
	Name  string   // of the copy
	Keys  []string // nil: all
	Env   bool     // each key is also an environment variable of the run
}

// soon is the retry delay after errors that a user may be about to correct.
const soon = 5 * time.Second

// Prepare ensures what a run reads, and returns when it must be called again; 0: nothing expires.
func (r *Runner) Prepare(ctx context.Context, run *Run) (renew time.Duration, err error) {
	if run.EnsureNamespace != nil {
		if err := run.EnsureNamespace(ctx); err != nil {
			return 0, err
		}
	}
	if run.RunNamespace != nil {
		if err := run.RunNamespace.Provision(ctx, r.Client); err != nil {
			return 0, err
		}
	}
	if run.Chart != nil {
		if !run.ends { // values are only for installing
			_, err = r.copySecrets(ctx, run)
		}
		return 0, err
	}
	ready, err := r.Access.Prepare(ctx, run.Access)
	if _, exists := errors.AsType[*runaccess.StateExistsError](err); exists && run.Adopts != nil && run.Adopts(ctx) {
		run.Access.Adopt = true
		ready, err = r.Access.Prepare(ctx, run.Access)
	}
	if err != nil {
		return 0, err
	}
	ready.Into(run.Module)
	versions, err := r.copySecrets(ctx, run)
	if run.Request != nil {
		run.Module.Request = run.Request(ready.Request, versions)
	}
	return ready.Renew, err
}

// Applied is the status of a run after Apply.
type Applied struct {
	fluxexec.Status
	Changed bool          // the run was just changed
	Renew   time.Duration // the delay after which it has to be prepared again
}

// Apply prepares a run, writes its objects, and returns its status. If the state is another's by
// now, no further run starts, and the error is a [*runaccess.NotOwnerError].
func (r *Runner) Apply(ctx context.Context, run *Run) (now Applied, err error) {
	if now.Renew, err = r.Prepare(ctx, run); err != nil {
		return now, r.stop(ctx, run, err)
	}
	if now.Changed, err = r.Flux.Apply(ctx, run.Work()); err != nil {
		return now, err
	}
	if now.Status, err = r.Flux.Observe(ctx, run.Work()); err != nil {
		return now, err
	}
	if run.Module != nil && now.TurnedAway() {
		err = r.stop(ctx, run, r.Access.Check(ctx, run.Access))
	}
	return now, err
}

// stop suspends a run whose state belongs to another owner, and returns the error.
func (r *Runner) stop(ctx context.Context, run *Run, err error) error {
	if ownershipLost(err) {
		return errors.Join(err, r.Flux.Cancel(ctx, run.Work()))
	}
	return err
}

func ownershipLost(err error) bool {
	_, ok := errors.AsType[*runaccess.NotOwnerError](err)
	return ok
}

// copySecrets copies a run's Secrets, and returns a value that changes with them.
func (r *Runner) copySecrets(ctx context.Context, run *Run) (versions string, err error) {
	var all []string
	for _, c := range run.Copies {
		s, err := r.copy(ctx, run, c)
		if err != nil {
			return "", err
		}
		all = append(all, s.ResourceVersion)
		if c.Env && run.Module != nil {
			withEnv(run.Module, s)
		}
	}
	return strings.Join(all, "."), nil
}

// withEnv adds the keys of a Secret to the environment variables of a run.
func withEnv(m *fluxexec.Spec, s *corev1.Secret) {
	if m.Runner == nil {
		m.Runner = &fluxexec.Runner{}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		m.Runner.Env = append(m.Runner.Env, corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: s.Name}, Key: key},
		}})
	}
}

// copy copies a Secret; a destroy uses the copy of a deleted one.
func (r *Runner) copy(ctx context.Context, run *Run, c Copy) (*corev1.Secret, error) {
	work := run.Work()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fluxexec.Namespace(work), Name: c.Name}}
	data, err := r.values(ctx, c)
	if _, lacks := errors.AsType[*verdict.Problem](err); run.ends && (lacks || apierrors.IsForbidden(err)) {
		if r.Client.Get(ctx, client.ObjectKeyFromObject(s), s) == nil && fluxobj.Ours(s, fluxexec.UID(work)) {
			return s, nil
		}
	}
	if err != nil {
		return nil, err
	}
	_, err = fluxobj.Write(ctx, r.Client, s, fluxexec.UID(work), func(s *corev1.Secret) error {
		s.Data = data
		return nil
	})
	return s, err
}

// values returns the values of the keys of a Secret that allows this use.
func (r *Runner) values(ctx context.Context, c Copy) (map[string][]byte, error) {
	from, err := verdict.ReadSecret(ctx, r.Client, c.From, c.Where, c.Use)
	if err != nil || c.Keys == nil {
		return from.Data, err
	}
	data := map[string][]byte{}
	for _, key := range c.Keys {
		value, ok := from.Data[key]
		if !ok {
			return nil, &verdict.Problem{Reason: v1alpha1.ReasonSecretMissing, Message: fmt.Sprintf("Secret %s has no key %s", c.From.Name, key), After: soon, Retry: true}
		}
		data[key] = value
	}
	return data, nil
}

// Explain returns what an error means for users; false: it is just retried.
func Explain(err error) (*verdict.Problem, bool) {
	if p, ok := errors.AsType[*verdict.Problem](err); ok {
		return p, true
	}
	if e, ok := errors.AsType[*runaccess.StateExistsError](err); ok {
		return &verdict.Problem{Reason: v1alpha1.ReasonStateExists, Message: e.Error(), After: time.Minute}, true
	}
	if e, ok := errors.AsType[*runaccess.NotOwnerError](err); ok {
		return &verdict.Problem{Reason: v1alpha1.ReasonStateNotOwned, Message: e.Error()}, true
	}
	if e, ok := errors.AsType[*fluxobj.NotAllowedError](err); ok {
		return &verdict.Problem{Reason: v1alpha1.ReasonNamespaceNotAllowed, Message: e.Error(), After: soon}, true
	}
	if e, ok := errors.AsType[*fluxobj.TakenError](err); ok {
		return &verdict.Problem{Reason: v1alpha1.ReasonNameTaken, Message: e.Error(), After: time.Minute}, true
	}
	if e, ok := errors.AsType[*fluxobj.MissingError](err); ok {
		return &verdict.Problem{Reason: v1alpha1.ReasonExecutorMissing, Message: e.Error(), After: time.Minute, Retry: true}, true
	}
	if e, ok := errors.AsType[*fluxexec.FieldError](err); ok {
		reason := v1alpha1.ReasonInvalid
		if e.Field == "module.size" {
			reason = v1alpha1.ReasonModuleTooLarge
		}
		return &verdict.Problem{Reason: reason, Message: e.Error()}, true
	}
	return nil, false
}
