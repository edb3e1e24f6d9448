// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// judgedWithin is how long the controller of a target may take to judge an Approval.
const judgedWithin = time.Minute

// unjudged marks Approvals that no controller judges, and deletes all after their lifetime.
type unjudged struct {
	client.Client
	now func() time.Time
}

func (r *unjudged) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("approvals").For(&v1alpha1.Approval{}).
		WithOptions(controller.Options{RateLimiter: newRateLimiter()}).Complete(r)
}

// Reconcile marks or deletes one Approval.
func (r *unjudged) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var a v1alpha1.Approval
	if err := r.Get(ctx, req.NamespacedName, &a); err != nil || !a.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	old := r.now().Sub(a.CreationTimestamp.Time)
	if old >= v1alpha1.ApprovalLife {
		return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, &a, client.Preconditions{UID: &a.UID}))
	}
	later := ctrl.Result{RequeueAfter: v1alpha1.ApprovalLife - old}
	if len(a.Status.Conditions) > 0 {
		return later, nil
	}
	if old < judgedWithin {
		return ctrl.Result{RequeueAfter: judgedWithin - old}, nil
	}
	if a.Spec.Target.Kind == kindVersion {
		err := r.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Spec.Target.Name}, &v1alpha1.Version{})
		if !apierrors.IsNotFound(err) {
			return later, err // the next run of its entry judges it
		}
	}
	return later, dropPassing(verdict.Update(ctx, r.Client, &a, func() {
		verdict.Decide(&a, "", fmt.Sprintf("it was not evaluated: is there a %s %s in this namespace, and is it waiting for an Approval?", a.Spec.Target.Kind, a.Spec.Target.Name))
	}))
}
