// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"cmp"
	"context"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/records"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// Objects reconciles objects: [*kindrun.Objects].
type Objects interface {
	// Reconcile takes the next steps for an object, and returns when to reconcile again.
	Reconcile(ctx context.Context, def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (time.Duration, error)
	// Report writes to the status of an object that an error stops it, and returns the error.
	Report(ctx context.Context, o *unstructured.Unstructured, err error) error
}

// Options configure the controllers.
type Options struct {
	Client    client.Client // not cached
	Modules   Modules
	Objects   Objects
	Tool      string // of tofu-controller's own runner: opentofu, terraform, or "": not known
	Namespace string // of the operator, for the revisions that objects have
	Gate      string // where tofu-controller shows plans; "": plans cannot be approved
	// Every is the time between two checks of the registry; 0: a minute.
	Every time.Duration
}

// soon is when a definition is reconciled that waits.
const soon = time.Second

// definitions creates kinds from ModuleKinds.
type definitions struct {
	Options
	kinds  *kinds
	events events.EventRecorder
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	made   map[string]made      // by name; used by one worker only
	heirs  map[string]types.UID // by name: definitions that have inherited from earlier ones
}

// Setup adds the controller of ModuleKinds, which runs those of their objects.
func Setup(mgr ctrl.Manager, o Options) error {
	o.Every = cmp.Or(o.Every, time.Minute)
	d := &definitions{Options: o, events: mgr.GetEventRecorder("okara-operator"), made: map[string]made{}, heirs: map[string]types.UID{}}
	d.kinds = &kinds{
		client: o.Client, records: records.Store{Client: o.Client, Namespace: o.Namespace}, cache: mgr.GetCache(), mapper: mgr.GetRESTMapper(), objects: o.Objects, modules: o.Modules,
		log:     func(err error, what, definition string) { mgr.GetLogger().Error(err, what, "definition", definition) },
		changed: d.wake, running: map[string]*kind{}, ready: make(chan struct{}),
	}
	if err := mgr.Add(manager.RunnableFunc(d.kinds.run)); err != nil {
		return err
	}
	asked := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).Named("modulekinds").
		For(&v1alpha1.ModuleKind{}, builder.WithPredicates(asked)).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			d.queue = q // before any worker starts
			return nil
		})).
		Complete(d)
}

// wake reconciles a definition soon, because its objects changed.
func (d *definitions) wake(name string) {
	d.queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}, soon)
}

// Reconcile reconciles one definition.
func (d *definitions) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	before := &v1alpha1.ModuleKind{}
	if err := d.Client.Get(ctx, req.NamespacedName, before); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if before.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(before, v1alpha1.FinalizerDefinition) {
		return reconcile.Result{}, nil
	}
	def := before.DeepCopy()
	if before.DeletionTimestamp == nil && controllerutil.AddFinalizer(def, v1alpha1.FinalizerDefinition) {
		if err := d.Client.Patch(ctx, def, verdict.Since(before)); err != nil {
			return reconcile.Result{}, err
		}
		before = def.DeepCopy()
	}
	wrong := d.inheritObjects(ctx, def)
	switch {
	case wrong != nil:
	case def.DeletionTimestamp != nil:
		wrong = d.remove(ctx, def)
	default:
		wrong = d.establishKind(ctx, def)
	}
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	if def.DeletionTimestamp != nil && wrong == nil {
		return reconcile.Result{}, d.release(ctx, def)
	}
	if apierrors.IsConflict(wrong) { // another client wrote first, which says nothing about the definition
		return reconcile.Result{}, wrong
	}
	after, reason := d.writeConditions(def, wrong)
	if !equality.Semantic.DeepEqual(before.Status, def.Status) {
		if err := d.Client.Status().Patch(ctx, def, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
	}
	if !reason {
		return reconcile.Result{}, wrong
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// establishKind establishes a definition as far as possible, and returns what stopped it.
func (d *definitions) establishKind(ctx context.Context, def *v1alpha1.ModuleKind) error {
	crd := &apiextensions.CustomResourceDefinition{}
	switch err := d.Client.Get(ctx, client.ObjectKey{Name: kindspec.CRDName(def)}, crd); {
	case apierrors.IsNotFound(err):
		crd = nil
	case err != nil:
		return err
	}
	n, wrong := d.resolveCurrent(ctx, def, keptVersion(def, crd))
	crd, err := d.serveKind(ctx, def, n, crd)
	if wrong == nil || err != nil && !isProblem(err) {
		wrong = err
	}
	if crd == nil {
		return wrong
	}
	if wrong == nil {
		def.Status.Module = new(n.found.ResolvedModule) // for new objects
		def.Status.Example = n.kind.Example()
	}
	k, err := d.kinds.startWatch(ctx, def)
	if err != nil {
		return err
	}
	if err := d.keepRevisions(ctx, def, k); err != nil {
		return err
	}
	stopped, err := d.rollOut(ctx, def, k, &n)
	switch {
	case err != nil:
		return err
	case wrong != nil:
		return wrong
	}
	wrong = cmp.Or(stopped, fluxexec.CheckInstalled(d.kinds.mapper, false, def.Spec.Run.Approval.Mode == v1alpha1.ApprovalPlan, d.Gate))
	if wrong == nil && n.passed != nil {
		return n.passed
	}
	return wrong
}
