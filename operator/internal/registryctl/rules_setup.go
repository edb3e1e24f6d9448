// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// Cached says what the manager of an operator in a namespace caches of kinds of which
// it must not read everything: of ConfigMaps the one that it writes.
func Cached(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Namespaces: map[string]cache.Config{namespace: {}},
		Field:      fields.OneTermEqualSelector(metav1.ObjectNameField, RulesConfigMap),
	}}
}

// setup has every change that matters lead to one and the same request.
func (r *rules) setup(mgr ctrl.Manager) error {
	all := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: RulesConfigMap}}
	later := func(q workqueue.TypedRateLimitingInterface[reconcile.Request]) { q.AddAfter(all, rulesPause) }
	wake := handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			later(q)
		},
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			later(q)
		},
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			later(q)
		},
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(namespaceKind())
	return ctrl.NewControllerManagedBy(mgr).Named("accessrule").WithOptions(controller.Options{RateLimiter: limits()}).
		Watches(&v1alpha1.AccessRule{}, wake, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, wake).
		WatchesMetadata(ns, wake, builder.WithPredicates(rightsChanged())).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			later(q) // there may be no rule, and the front-end waits for the file
			return nil
		})).
		Complete(r)
}
