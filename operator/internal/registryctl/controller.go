// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// atOnce is how many entries of a kind are reconciled at once, some of them without need of a run.
const atOnce = maxRuns + 4

// Options configure the controllers.
type Options struct {
	Depot     *depot.Depot // the registry that they fill
	Namespace string       // of the operator; its objects may use every address
	Issuers   []string     // whose tokens the front-end accepts
	// Origins returns access for an object, with its credential, never the operator's. may reports
	// which addresses of the registry its namespace may use.
	Origins func(ctx context.Context, secret supply.TenantSecret, may func(addr.Item) bool) (supply.Origins, error)
	Scanner Scanner
	Now     func() time.Time // nil: time.Now
}

// Scanner is the scanner for versions of entries with spec.scan.
type Scanner struct {
	Command  string // "trivy", or a command that writes SARIF to stdout; "": no scanner
	Database string // folder of its offline database
	Jobs     int    // how many runs of scanned entries there may be at once
}

// Setup adds the controllers to a manager.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Version{}, targetIndex, targetOf); err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Approval{}, approvalIndex, approvalOf); err != nil {
		return err
	}
	queued := newFairQueue(o.Scanner.Jobs)
	for kind, object := range entryKinds() {
		if err := mgr.GetFieldIndexer().IndexField(ctx, object, addressIndex, addressOf); err != nil {
			return err
		}
		r := &entries{Client: mgr.GetClient(), Options: o, reader: mgr.GetAPIReader(), events: mgr.GetEventRecorder("okara-operator"), kind: kind, runs: queued, backOff: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minBackOff, maxBackOff)}
		if err := r.setup(mgr); err != nil {
			return err
		}
	}
	if err := (&depots{mgr.GetClient(), mgr.GetEventRecorder("okara-operator")}).setup(mgr); err != nil {
		return err
	}
	if err := (&unjudged{mgr.GetClient(), o.Now}).setup(mgr); err != nil {
		return err
	}
	if err := (&tenants{mgr.GetClient(), o.Namespace, mgr.GetAPIReader()}).setup(mgr); err != nil {
		return err
	}
	return (&rules{Client: mgr.GetClient(), Options: o, reader: mgr.GetAPIReader(), events: mgr.GetEventRecorder("okara-operator")}).setup(mgr)
}

// newRateLimiter retries after 1 s to 10 min, 20 a second in all.
func newRateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackOff, maxBackOff),
		&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(maxStarts, maxStartBurst)},
	)
}

func (r *entries) setup(mgr ctrl.Manager) error {
	asked := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || !e.ObjectNew.GetDeletionTimestamp().IsZero() ||
			verdict.RequestOf(e.ObjectOld) != verdict.RequestOf(e.ObjectNew)
	}}
	entry := predicate.NewPredicateFuncs(isEntry)
	b := ctrl.NewControllerManagedBy(mgr).For(entryKinds()[r.kind], builder.WithPredicates(entry, asked)).
		WithOptions(controller.Options{MaxConcurrentReconciles: atOnce, RateLimiter: newRateLimiter()})
	for _, object := range entryKinds() {
		b.Watches(object, handler.EnqueueRequestsFromMapFunc(r.wakeWaiting), builder.WithPredicates(entry, predicate.Funcs{
			CreateFunc: alwaysFalse[event.CreateEvent], UpdateFunc: alwaysFalse[event.UpdateEvent], GenericFunc: alwaysFalse[event.GenericEvent],
		}))
	}
	return b.
		Watches(&v1alpha1.Version{}, handler.EnqueueRequestsFromMapFunc(r.targets), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return !isMade(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() },
		})).
		Watches(&v1alpha1.Approval{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request { return approvedEntries(ctx, r, o) }), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: alwaysFalse[event.UpdateEvent], DeleteFunc: alwaysFalse[event.DeleteEvent],
		})).
		WatchesMetadata(fluxobj.NamespaceMeta(""), handler.EnqueueRequestsFromMapFunc(r.wakeNamespace), builder.WithPredicates(rightsChanged())).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.queue = q // before any worker starts
			return nil
		})).
		Complete(r)
}

// rightsChanged matches updates of namespaces whose rights have changed.
func rightsChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: alwaysFalse[event.CreateEvent], DeleteFunc: alwaysFalse[event.DeleteEvent],
		UpdateFunc: func(e event.UpdateEvent) bool {
			_, before := e.ObjectOld.GetLabels()[v1alpha1.LabelTenant]
			_, now := e.ObjectNew.GetLabels()[v1alpha1.LabelTenant]
			return before != now || slices.ContainsFunc([]string{v1alpha1.AnnotationAddresses, v1alpha1.AnnotationTakeOver}, func(key string) bool {
				return e.ObjectOld.GetAnnotations()[key] != e.ObjectNew.GetAnnotations()[key]
			})
		},
	}
}

func alwaysFalse[E any](E) bool { return false }

func isMade(o client.Object) bool { _, ok := o.GetLabels()[v1alpha1.LabelManaged]; return ok }

// wakeWaiting wakes the entries that waited for the address of a deleted entry.
func (r *entries) wakeWaiting(ctx context.Context, o client.Object) []reconcile.Request {
	others, err := sameAddress(ctx, r, entryOf(o))
	if err != nil {
		return nil // the cache has stopped
	}
	var all []reconcile.Request
	for _, other := range others {
		if other.kind == r.kind {
			all = append(all, requestFor(other))
		}
	}
	return all
}

func (r *entries) targets(_ context.Context, o client.Object) []reconcile.Request {
	v, ok := o.(*v1alpha1.Version)
	if !ok || isEntry(v) || v.Spec.Target.Kind != r.kind {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: v.Namespace, Name: v.Spec.Target.Name}}}
}

// wakeNamespace wakes a namespace's entries, and those sharing addresses.
func (r *entries) wakeNamespace(ctx context.Context, ns client.Object) []reconcile.Request {
	var all []reconcile.Request
	for _, list := range entryLists() {
		if err := r.List(ctx, list, client.InNamespace(ns.GetName())); err != nil {
			return nil // the cache has stopped
		}
		for _, o := range itemsOf(list) {
			if entryOf(o).kind == r.kind {
				all = append(all, requestFor(o))
			}
			all = append(all, r.wakeWaiting(ctx, o)...)
		}
	}
	return all
}

func requestFor(o client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}

// AddToScheme adds all kinds that the controllers read and write to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(v1alpha1.AddToScheme(s), fluxobj.AddToScheme(s))
}

// mayRead returns nil if a namespace's Secrets may be read: a tenant's, or the operator's own.
func (r *entries) mayRead(ns *metav1.PartialObjectMetadata) error {
	if _, marked := ns.Labels[v1alpha1.LabelTenant]; marked || ns.Name == r.Namespace {
		return nil
	}
	return &verdict.Problem{Reason: v1alpha1.ReasonNamespaceNotAllowed, Message: (&fluxobj.NotAllowedError{Namespace: ns.Name}).Error()}
}

// tenants revokes the right to the Secrets of a namespace that has lost its label.
type tenants struct {
	client.Client
	own    string        // namespace of the operator
	reader client.Reader // not cached
}

func (r *tenants) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("tenants").For(fluxobj.NamespaceMeta(""), builder.WithPredicates(lostTenantLabel())).
		WithOptions(controller.Options{RateLimiter: newRateLimiter()}).Complete(r)
}

// lostTenantLabel matches namespaces that have no tenant label at the start, or lose it later.
func lostTenantLabel() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !isMarked(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return isMarked(e.ObjectOld) && !isMarked(e.ObjectNew) },
		DeleteFunc: alwaysFalse[event.DeleteEvent],
	}
}

// isMarked reports whether the operator may have the right to Secrets of a namespace.
func isMarked(ns client.Object) bool {
	_, tenant := ns.GetLabels()[v1alpha1.LabelTenant]
	return tenant || isMade(ns)
}

// Reconcile revokes the right to the Secrets of a namespace without a label.
func (r *tenants) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ns, err := fluxobj.Namespace(ctx, r.Client, req.Name)
	if err != nil || isMarked(ns) || ns.Name == r.own {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, fluxobj.Unbind(ctx, r.reader, r.Client, ns.Name)
}
