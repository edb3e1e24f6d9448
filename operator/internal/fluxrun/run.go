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

// Access is what runs have at okara serve: [*runaccess.Access].
type Access interface {
	Prepare(ctx context.Context, r runaccess.Run) (runaccess.Ready, error)
	Check(ctx context.Context, r runaccess.Run) error
	Release(ctx context.Context, r runaccess.Run) error
	Clean(ctx context.Context, r runaccess.Run) (gone bool, err error)
}

// Runner carries runs out. It is safe for concurrent use, on different runs.
type Runner struct {
	Client client.Client // reads what is there now, not a cache
	Flux   *fluxexec.Executor
	Access Access
}

// Run is one of a module or of a chart.
type Run struct {
	Module       *fluxexec.Spec        // nil: it is of a chart; with Keep nothing is destroyed, and the state stays
	Chart        *fluxexec.Release     // nil: it is of a module
	Access       runaccess.Run         // of a module
	RunNamespace *fluxobj.RunNamespace // that is provisioned for it; nil: an administrator does that
	Copies       []Copy                // of Secrets that it reads

	// EnsureNamespace makes the namespace of the run; nil: it is there.
	EnsureNamespace func(ctx context.Context) error
	// Adopts is asked where the state exists already, and is not known to be adopted. nil: no.
	Adopts func(ctx context.Context) bool
	// Request makes the request of a module of what changes with its token and with the
	// copies; nil: the first of them.
	Request func(ready, copies string) string
	// Hold is asked before each step of a destroy, with what is known of it. Its error
	// holds the destroy; nil: nothing does.
	Hold func(ctx context.Context, now fluxexec.Status) error

	ends bool
}

// Work is what Flux carries out.
func (r *Run) Work() fluxexec.Work {
	if r.Chart != nil {
		return r.Chart
	}
	return r.Module
}

// Copy is a Secret that a run reads under another name, in its own namespace.
type Copy struct {
	From  client.ObjectKey
	Where string   // what messages say of it beside its name
	Use   string   // what the Secret has to agree to, by okara.dev/use
	Name  string   // of the copy
	Keys  []string // nil: all
	Env   bool     // each key is a variable of the environment of the run, too
}

// soon is when something is looked at again that somebody may be about to mend.
const soon = 5 * time.Second

// Prepare makes sure of all that a run reads, as far as it is not there and fresh, and
// returns after how long it has to be prepared again; 0: nothing of it ends.
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
		if !run.ends { // values are for what is installed
			_, err = r.copies(ctx, run)
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
	versions, err := r.copies(ctx, run)
	if run.Request != nil {
		run.Module.Request = run.Request(ready.Request, versions)
	}
	return ready.Renew, err
}

// Applied is how a run goes.
type Applied struct {
	fluxexec.Status
	Changed bool          // it was just asked for something else
	Renew   time.Duration // after which it has to be prepared again
}

// Apply prepares a run, makes its objects as they should be, and tells how it goes. Where
// the state is another's by now it begins no further run, and the error is a
// [*runaccess.NotOwnerError].
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

// stop keeps a run from beginning whose state is another's, and returns the error.
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

// copies brings the Secrets that a run reads into its namespace, and returns what changes
// with them.
func (r *Runner) copies(ctx context.Context, run *Run) (versions string, err error) {
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

// withEnv gives a run the keys of a Secret as variables of its environment.
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

// copy brings one Secret. What destroys does with the copy that was there, where the
// Secret itself went first.
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

// values are those of the keys of a Secret that agrees to be read.
func (r *Runner) values(ctx context.Context, c Copy) (map[string][]byte, error) {
	lacks := func(format string, args ...any) error {
		return &verdict.Problem{Reason: v1alpha1.ReasonSecretMissing, Message: fmt.Sprintf(format, args...), After: soon, Retry: true}
	}
	from := &corev1.Secret{}
	err := r.Client.Get(ctx, c.From, from)
	if apierrors.IsNotFound(err) {
		return nil, lacks("Secret %s%s is not there", c.From.Name, c.Where)
	}
	if err != nil {
		return nil, err
	}
	agrees := func(use string) bool { return strings.TrimSpace(use) == c.Use }
	if !slices.ContainsFunc(strings.Split(from.Annotations[v1alpha1.AnnotationUse], ","), agrees) {
		return nil, &verdict.Problem{
			Reason: v1alpha1.ReasonSecretNotAllowed, Message: fmt.Sprintf("Secret %s does not agree: annotate it %s=%s", c.From.Name, v1alpha1.AnnotationUse, c.Use), After: soon,
		}
	}
	if c.Keys == nil {
		return from.Data, nil
	}
	data := map[string][]byte{}
	for _, key := range c.Keys {
		value, ok := from.Data[key]
		if !ok {
			return nil, lacks("Secret %s has no key %s", c.From.Name, key)
		}
		data[key] = value
	}
	return data, nil
}

// Explain says what an error of a run means for who made it; false: it is for another try.
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
