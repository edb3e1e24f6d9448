// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/records"
)

const (
	// atOnce is how many objects of a kind are reconciled at once.
	atOnce = 8
	// A failed object is tried again after 1 s to 10 min, all objects of a kind 20 times a second.
	minBackOff, maxBackOff   = time.Second, 10 * time.Minute
	maxStarts, maxStartBurst = 20, 100
)

// kinds are the definitions whose objects are watched.
type kinds struct {
	client  client.Client
	cache   cache.Cache
	mapper  meta.RESTMapper
	objects Objects
	records records.Store
	modules Modules
	log     func(err error, what, definition string)
	changed func(definition string) // called when objects of a definition changed

	ready   chan struct{} // closed when base is set
	base    context.Context
	ending  sync.WaitGroup
	mu      sync.Mutex // guards the field below
	running map[string]*kind
}

// run allows watches until the context ends, and then waits for running reconciles.
func (s *kinds) run(ctx context.Context) error {
	s.base = ctx
	close(s.ready)
	<-ctx.Done()
	s.ending.Wait()
	return nil
}

// kindOfDefinition returns the kind of a definition, nil while its objects are not watched.
func (s *kinds) kindOfDefinition(definition string) *kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.running[definition]
	if k == nil || isClosed(k.done) {
		return nil
	}
	return k
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// startWatch watches the objects of a definition whose CRD is served, if it does not yet.
func (s *kinds) startWatch(ctx context.Context, def *v1alpha1.ModuleKind) (*kind, error) {
	if k := s.kindOfDefinition(def.Name); k != nil {
		return k, k.followTerraforms()
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k := &kind{kinds: s, name: def.Name, gvk: kindspec.GroupVersionKind(def), done: make(chan struct{}), known: map[string]client.ObjectKey{}}
	limit := workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackOff, maxBackOff),
		&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(maxStarts, maxStartBurst)},
	)
	c, err := controller.NewUnmanaged("kind-"+def.Name, controller.Options{
		Reconciler: k, MaxConcurrentReconciles: atOnce, RateLimiter: limit, SkipNameValidation: new(true),
	})
	if err != nil {
		return nil, err
	}
	k.controller = c
	for _, from := range []source.Source{
		source.Kind(s.cache, k.object(), k.handler()),
		source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			k.queue = q
			return nil
		}),
	} {
		if err := c.Watch(from); err != nil {
			return nil, err
		}
	}
	under, cancel := context.WithCancel(s.base)
	k.cancel = cancel
	s.ending.Go(func() {
		defer close(k.done)
		if err := c.Start(under); err != nil {
			s.log(err, "stopped watching the objects of a kind", def.Name)
		}
	})
	s.mu.Lock()
	s.running[def.Name] = k
	s.mu.Unlock()
	return k, k.followTerraforms()
}

// stop ends the watch of a definition, and waits for running reconciles of its objects.
func (s *kinds) stop(ctx context.Context, def *v1alpha1.ModuleKind) error {
	s.mu.Lock()
	k := s.running[def.Name] // even if its watch has failed
	s.mu.Unlock()
	if k == nil {
		return nil
	}
	k.cancel()
	select {
	case <-k.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	delete(s.running, def.Name)
	s.mu.Unlock()
	return s.cache.RemoveInformer(ctx, k.object())
}

// kind is a definition whose objects are watched.
type kind struct {
	*kinds
	name       string // of the definition
	gvk        schema.GroupVersionKind
	controller controller.Controller
	queue      workqueue.TypedRateLimitingInterface[reconcile.Request]
	cancel     context.CancelFunc
	done       chan struct{}

	state sync.Mutex // guards the fields below
	def   *v1alpha1.ModuleKind
	now   string // name of the current revision
	all   map[string]revision
	known map[string]client.ObjectKey // objects by UID
	flux  bool                        // Terraforms are watched
}

func (k *kind) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(k.gvk)
	return o
}

// eachCached calls do with all objects in the cache of the watch.
func (k *kind) eachCached(ctx context.Context, do func(*unstructured.Unstructured) error) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(k.gvk)
	if err := k.cache.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		if err := do(&list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// handler queues an object that changed, and wakes its definition.
func (k *kind) handler() handler.TypedEventHandler[*unstructured.Unstructured, reconcile.Request] {
	ask := func(o *unstructured.Unstructured, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.TypedFuncs[*unstructured.Unstructured, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*unstructured.Unstructured], q queue) {
			ask(e.Object, q)
			k.changed(k.name)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*unstructured.Unstructured], q queue) {
			if mustReconcile(e.ObjectOld, e.ObjectNew) {
				ask(e.ObjectNew, q)
			}
			k.changed(k.name)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*unstructured.Unstructured], _ queue) {
			k.state.Lock()
			delete(k.known, string(v1alpha1.UIDOf(e.Object)))
			k.state.Unlock()
			k.changed(k.name)
		},
	}
}

// mustReconcile reports whether more than an object's status changed, or a rollout changed that.
func mustReconcile(before, now *unstructured.Unstructured) bool {
	a := before.GetAnnotations()
	b := now.GetAnnotations()
	marked := !maps.Equal(a, b) || !maps.Equal(before.GetLabels(), now.GetLabels())
	changed := before.GetGeneration() != now.GetGeneration() || changeOf(before) != changeOf(now)
	return changed || marked || now.GetDeletionTimestamp() != nil
}

// followTerraforms watches the Terraforms of objects, once their kind is installed.
func (k *kind) followTerraforms() error {
	k.state.Lock()
	defer k.state.Unlock()
	mapping, err := k.mapper.RESTMapping(fluxexec.Terraforms().GroupKind())
	if k.flux || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(mapping.GroupVersionKind)
	k.flux = true
	return k.controller.Watch(source.Kind(k.cache, o, handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o *metav1.PartialObjectMetadata) []reconcile.Request {
		k.state.Lock()
		defer k.state.Unlock()
		key, ok := k.known[o.GetLabels()[v1alpha1.LabelUID]]
		if !ok {
			return nil
		}
		return []reconcile.Request{{NamespacedName: key}}
	})))
}

// setDefinition sets the definition. A changed one may accept objects it refused before.
func (k *kind) setDefinition(def *v1alpha1.ModuleKind, now string, all map[string]revision) {
	k.state.Lock()
	defer k.state.Unlock()
	changed := k.def != nil && k.def.Generation != def.Generation
	k.def = def.DeepCopy()
	k.now = now
	k.all = all
	if !changed {
		return
	}
	for _, key := range k.known {
		k.queue.Add(reconcile.Request{NamespacedName: key})
	}
}
