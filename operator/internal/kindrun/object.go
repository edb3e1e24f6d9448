// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/owned"
	"github.com/seed-141914ff/okara/operator/internal/records"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
)

// Options say what objects are carried out with.
type Options struct {
	Client   client.Client // reads what is there now, not a cache
	Access   *runaccess.Access
	Records  records.Store
	Executor *fluxexec.Executor
	// Want is pure: the definition and the object say what runs. Its error is for who
	// wrote the object.
	Want func(def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (Wanted, error)
	// Readers lets the readers of a definition read exactly a Secret and a ConfigMap, each
	// where it is not "", beside the object. Both are nil where there is no reader.
	Readers func(def *v1alpha1.ModuleKind, o metav1.Object, secret, plan string) (*rbacv1.Role, *rbacv1.RoleBinding)
	Gate    string // where tofu-controller shows plans; "": plans cannot be approved
	// FluxNamespace has tofu-controller, which alone reaches runners; "": flux-system.
	FluxNamespace string
	Events        events.EventRecorder
	Now           func() time.Time // nil: time.Now
}

// Objects carries objects out. It is safe for concurrent use, on different objects.
type Objects struct{ Options }

// New returns what carries objects out.
func New(o Options) *Objects { return &Objects{o} }

func (c *Objects) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// pending is how soon something is looked at that is under way.
const pending = 5 * time.Second

// one is an object that is looked at.
type one struct {
	*Objects
	def    *v1alpha1.ModuleKind
	o      *unstructured.Unstructured
	want   Wanted
	access runaccess.Run
	renew  time.Duration // after which the token is to be made anew
	before status        // as it is in the cluster
	status status        // as it becomes
}

// What is done for an object beside making what it names.
type (
	// ending takes away what an object that is deleted had.
	ending struct{ *one }
	// published are the outputs and the plan in the cluster.
	published struct{ *one }
)

func (x *one) ending() ending       { return ending{x} }
func (x *one) published() published { return published{x} }

// Reconcile does the next steps for an object, writes its status, and says when to look
// again. Errors are for another try.
func (c *Objects) Reconcile(ctx context.Context, def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (time.Duration, error) {
	x := &one{Objects: c, def: def, o: o.DeepCopy()}
	if o.GetDeletionTimestamp() != nil && !controllerutil.ContainsFinalizer(o, v1alpha1.FinalizerRun) {
		return 0, nil
	}
	var err error
	if x.before, err = readStatus(o); err != nil {
		return 0, err
	}
	x.status = x.before.clone()
	after, err := x.step(ctx)
	wrong, told := problemOf(err)
	if err != nil && !told && passing(ctx, err) {
		return 0, err
	}
	switch {
	case err == nil:
	case told:
		x.status.refuse(wrong, x.o.GetGeneration())
		after = max(after, wrong.after)
	default:
		x.status.fails(err, x.o.GetGeneration())
	}
	if err := x.describe(ctx); err != nil {
		return 0, err
	}
	if !told {
		return 0, err // nil, or for another try
	}
	return after, nil
}

// Report writes into the status of an object that an error keeps it from being carried out,
// and returns the error.
func (c *Objects) Report(ctx context.Context, o *unstructured.Unstructured, err error) error {
	if passing(ctx, err) {
		return err
	}
	x := &one{Objects: c, o: o.DeepCopy()}
	var wrong error
	if x.before, wrong = readStatus(o); wrong != nil {
		return errors.Join(err, wrong)
	}
	x.status = x.before.clone()
	x.status.fails(err, o.GetGeneration())
	return errors.Join(err, x.describe(ctx))
}

// passing reports errors that say nothing of an object: somebody else wrote it first, or
// this process ends.
func passing(ctx context.Context, err error) bool {
	return ctx.Err() != nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

func (x *one) step(ctx context.Context) (time.Duration, error) {
	x.status.Namespace = x.home()
	want, err := x.Want(x.def, x.o)
	if err != nil && !x.ends() {
		return 0, &problem{reason: v1alpha1.ReasonInvalid, message: err.Error()}
	}
	x.want = want
	x.place()
	if x.ends() {
		return x.ending().end(ctx)
	}
	return x.run(ctx)
}

// home is the namespace of the run.
func (x *one) home() string { return homeOf(x.def, x.o) }

// uid is the one by which all that is made for the object is known.
func (x *one) uid() types.UID { return v1alpha1.UIDOf(x.o) }

// ends reports whether the object is being deleted.
func (x *one) ends() bool { return x.o.GetDeletionTimestamp() != nil }

func (x *one) dedicated() bool { return x.home() != x.o.GetNamespace() }

// place fills in what depends on where the object runs.
func (x *one) place() {
	x.want.Run.Gate = x.Gate
	x.access = x.want.Place(x.def, x.o)
}

// run makes the run of an object as it should be.
func (x *one) run(ctx context.Context) (time.Duration, error) {
	if controllerutil.AddFinalizer(x.o, v1alpha1.FinalizerRun) {
		if err := x.Client.Update(ctx, x.o); err != nil {
			return 0, err
		}
	}
	if err := x.settle(ctx); err != nil {
		return 0, err
	}
	err := x.supply(ctx)
	if _, lost := errors.AsType[*runaccess.NotOwnerError](err); lost {
		return 0, errors.Join(err, x.Executor.Cancel(ctx, x.want.Run))
	}
	if err != nil {
		return 0, err
	}
	x.want.Run.ForceUnlock = x.o.GetAnnotations()[v1alpha1.AnnotationUnlock]
	if asked := x.o.GetAnnotations()[v1alpha1.AnnotationRequest]; asked != "" {
		x.status.LastHandledRequest = asked
	}
	changed, err := x.Executor.Apply(ctx, x.want.Run)
	if err != nil {
		return 0, err
	}
	now, err := x.Executor.Observe(ctx, x.want.Run)
	if err != nil {
		return 0, err
	}
	if err := x.owned(ctx, now); err != nil {
		return 0, err
	}
	if err := x.decide(ctx, &now); err != nil {
		return 0, err
	}
	x.status.project(now, changed, x.o.GetGeneration(), x.now())
	if err := x.published().publish(ctx, now); err != nil {
		return 0, err
	}
	if now.Phase != fluxexec.Applied && now.Phase != fluxexec.Suspended {
		return min(pending, x.renew), nil
	}
	return max(pending, min(x.interval(), x.renew)), nil
}

// supply prepares what the run reads: its state and token, and copies of Secrets.
func (x *one) supply(ctx context.Context) error {
	ready, err := x.Access.Prepare(ctx, x.access)
	if _, exists := errors.AsType[*runaccess.StateExistsError](err); exists && x.adoptsAll(ctx) {
		x.access.Adopt = true
		ready, err = x.Access.Prepare(ctx, x.access)
	}
	if err != nil {
		return err
	}
	ready.Into(&x.want.Run)
	versions, err := x.copies(ctx)
	if err != nil {
		return err
	}
	if x.status.Plan.old(x.now()) {
		x.status.Replanned = x.now().UTC().Format(time.RFC3339)
	}
	x.want.Run.Request = strings.Join([]string{x.o.GetAnnotations()[v1alpha1.AnnotationRequest], ready.Request, versions + x.status.Replanned}, "/")
	x.renew = ready.Renew
	return nil
}

// adoptsAll reports whether the namespace of the object says that its objects may have
// states that exist. Only an administrator can say so.
func (x *one) adoptsAll(ctx context.Context) bool {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(namespaces())
	err := x.Client.Get(ctx, client.ObjectKey{Name: x.o.GetNamespace()}, ns)
	return err == nil && ns.Annotations[v1alpha1.AnnotationAdopt] == "true"
}

func (x *one) interval() time.Duration {
	if d := x.want.Run.Interval.Duration; d > 0 {
		return d
	}
	return 10 * time.Minute
}

// owned makes sure of the state where okara serve turned the run away, and keeps another
// run from beginning where it is not the object's.
func (x *one) owned(ctx context.Context, now fluxexec.Status) error {
	if !now.TurnedAway() {
		return nil
	}
	err := x.Access.Check(ctx, x.access)
	if _, lost := errors.AsType[*runaccess.NotOwnerError](err); lost {
		return errors.Join(err, x.Executor.Cancel(ctx, x.want.Run))
	}
	return err
}

// problem is something that somebody has to mend.
type problem struct {
	reason, message string
	after           time.Duration // look again; 0: when something changes
	retry           bool          // it may mend itself
}

func (e *problem) Error() string { return e.message }

// problemOf says what an error means for the status; false: it is for another try.
func problemOf(err error) (*problem, bool) {
	if err == nil {
		return nil, true
	}
	if p, ok := errors.AsType[*problem](err); ok {
		return p, true
	}
	if e, ok := errors.AsType[*runaccess.StateExistsError](err); ok {
		return &problem{reason: v1alpha1.ReasonStateExists, message: e.Error(), after: time.Minute}, true
	}
	if e, ok := errors.AsType[*runaccess.NotOwnerError](err); ok {
		return &problem{reason: v1alpha1.ReasonStateNotOwned, message: e.Error()}, true
	}
	if e, ok := errors.AsType[*runhome.NotAllowedError](err); ok {
		return &problem{reason: v1alpha1.ReasonNamespaceNotAllowed, message: e.Error(), after: pending}, true
	}
	if e, ok := errors.AsType[*owned.TakenError](err); ok {
		return &problem{reason: v1alpha1.ReasonNameTaken, message: e.Error(), after: time.Minute}, true
	}
	if e, ok := errors.AsType[*fluxobj.MissingError](err); ok {
		return &problem{reason: v1alpha1.ReasonExecutorMissing, message: e.Error(), after: time.Minute, retry: true}, true
	}
	if e, ok := errors.AsType[*fluxexec.FieldError](err); ok {
		reason := v1alpha1.ReasonInvalid
		if e.Field == "module.size" {
			reason = v1alpha1.ReasonModuleTooLarge
		}
		return &problem{reason: reason, message: e.Error()}, true
	}
	return nil, false
}

// tell tells an event about the object.
func (x *one) tell(reason, note string, args ...any) {
	if x.Events != nil {
		x.Events.Eventf(x.o, nil, corev1.EventTypeNormal, reason, "Run", note, args...)
	}
}
