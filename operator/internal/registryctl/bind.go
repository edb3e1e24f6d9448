// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
)

// AddToScheme tells a scheme all kinds that the controllers read and write.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(v1alpha1.AddToScheme(s), runhome.AddToScheme(s))
}

// mayRead is nil where the operator may read the Secrets of a namespace: an administrator
// marked it as one of a tenant. Its own needs no mark.
func (r *entries) mayRead(ns *metav1.PartialObjectMetadata) error {
	if _, marked := ns.Labels[v1alpha1.LabelTenant]; marked || ns.Name == r.Namespace {
		return nil
	}
	return &problem{v1alpha1.ReasonNamespaceNotAllowed, (&runhome.NotAllowedError{Namespace: ns.Name}).Error()}
}

// tenants takes the right to the Secrets of a namespace back that has lost its mark.
type tenants struct {
	client.Client
	own    string        // namespace of the operator
	reader client.Reader // reads what is there now
}

func (r *tenants) setup(mgr ctrl.Manager) error {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(namespaceKind())
	return ctrl.NewControllerManagedBy(mgr).Named("tenants").For(ns, builder.WithPredicates(rightsGone())).
		WithOptions(controller.Options{RateLimiter: limits()}).Complete(r)
}

// rightsGone is about namespaces that are nobody's, at the start or from now on.
func rightsGone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !marked(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return marked(e.ObjectOld) && !marked(e.ObjectNew) },
		DeleteFunc: no[event.DeleteEvent],
	}
}

// marked reports whether the operator may have Secrets in a namespace.
func marked(ns client.Object) bool {
	_, tenant := ns.GetLabels()[v1alpha1.LabelTenant]
	return tenant || made(ns)
}

// Reconcile looks at one namespace.
func (r *tenants) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(namespaceKind())
	if err := r.Get(ctx, req.NamespacedName, ns); err != nil || marked(ns) || ns.Name == r.own {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, runhome.Unbind(ctx, r.reader, r.Client, ns.Name)
}
