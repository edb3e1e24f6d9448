// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/owned"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

const (
	// manyFailures of a destroy are enough to say that it does not go by itself.
	manyFailures = 5
	// nextDestroy is when it is tried again all the same.
	nextDestroy = 24 * time.Hour
)

// end takes the next step of the deletion of an object.
func (x *one) end(ctx context.Context) (time.Duration, error) {
	if x.status.Phase != phaseDestroyFailed {
		x.status.Phase = phaseDestroying
	}
	x.status.PendingApproval, x.status.Plan = false, nil
	x.status.say(false, true, x.o.GetGeneration(), v1alpha1.ReasonDestroying, "the infrastructure of the object is destroyed first")
	if x.o.GetAnnotations()[v1alpha1.AnnotationAbandon] == x.o.GetName() {
		return x.abandon(ctx)
	}
	mine, gone, err := x.destroy(ctx)
	if err != nil || !gone {
		return pending, err
	}
	x.status.Destroy = nil
	if mine && !x.want.Run.Keep {
		err := x.Access.Release(ctx, x.access, true)
		if kept, ok := errors.AsType[*runaccess.KeptError](err); ok {
			return 0, x.failed(kept.Error())
		}
		if _, other := errors.AsType[*runaccess.NotOwnerError](err); err != nil && !other {
			return pending, err
		}
	}
	return x.clean(ctx)
}

// failed says that the infrastructure could not be destroyed.
func (x *one) failed(why string) error {
	x.status.Phase = phaseDestroyFailed
	return &problem{reason: v1alpha1.ReasonDestroyFailed, message: why, after: time.Hour}
}

// destroy deletes the Terraform, and reports whether it is absent, and whether its state
// is the object's: if not, nothing is destroyed, and it goes without a run. A run would
// be turned away, and begins only once its source is there, which a backup of the cluster
// does not bring back.
func (x *one) destroy(ctx context.Context) (mine, gone bool, err error) {
	now, err := x.Executor.Observe(ctx, x.want.Run)
	if err != nil && !isTaken(err) {
		return true, false, err
	}
	if err != nil || now.Phase == fluxexec.Absent {
		return true, true, nil
	}
	if err := x.settle(ctx); err != nil { // what its last run needs (T1)
		return true, false, err
	}
	err = x.Access.Check(ctx, x.access)
	_, lost := errors.AsType[*runaccess.NotOwnerError](err)
	switch {
	case lost:
		gone, err = x.Executor.Drop(ctx, x.want.Run)
		return false, gone, err
	case err != nil:
		return true, false, err
	}
	if err := x.supply(ctx); err != nil {
		return true, false, err
	}
	if err := x.tries(ctx, now); err != nil {
		return true, false, err
	}
	gone, err = x.Executor.Destroy(ctx, x.want.Run)
	return true, gone, err
}

// tries counts those of a destroy that failed. After some it is over, until a day has gone
// by, or somebody asks: tofu-controller would go on for ever.
func (x *one) tries(ctx context.Context, now fluxexec.Status) error {
	d := x.status.Destroy
	if now.FailedAt != "" && (d == nil || now.FailedAt != d.FailedAt) {
		if d == nil {
			d = &destroyStatus{}
		}
		d.Failures, d.FailedAt = d.Failures+1, now.FailedAt
		x.status.Destroy = d
	}
	if d == nil || d.Failures < manyFailures {
		return nil
	}
	asked := x.o.GetAnnotations()[v1alpha1.AnnotationRequest]
	at, err := time.Parse(time.RFC3339, d.FailedAt)
	if err != nil || x.now().Sub(at) >= nextDestroy || asked != "" && asked != x.status.LastHandledRequest {
		x.status.Destroy, x.status.LastHandledRequest, x.status.Phase = &destroyStatus{FailedAt: d.FailedAt}, cmp.Or(asked, x.status.LastHandledRequest), phaseDestroying
		return nil
	}
	line, _, _ := strings.Cut(now.Message, "\n")
	return errors.Join(x.failed(fmt.Sprintf("destroying failed %d times, next in 24h: %s", d.Failures, line)), x.Executor.Cancel(ctx, x.want.Run))
}

func isTaken(err error) bool {
	_, is := errors.AsType[*owned.TakenError](err)
	return is
}

// abandon gives up what was made outside: the Terraform goes without a run, and the
// state stays.
func (x *one) abandon(ctx context.Context) (time.Duration, error) {
	if gone, err := x.Executor.Drop(ctx, x.want.Run); err != nil || !gone {
		return pending, err
	}
	x.tell("Abandoned", "the state %s/%s stays, and all that it names", x.Access.StateName(x.access.Namespace), x.access.Workspace)
	return x.clean(ctx)
}

// clean removes what is left in the cluster when the Terraform is absent.
func (x *one) clean(ctx context.Context) (time.Duration, error) {
	for _, step := range []func(context.Context) (bool, error){x.withdraw, x.empty, x.leave} {
		gone, err := step(ctx)
		if err != nil || !gone {
			return time.Second, err
		}
	}
	x.before = x.status // the object goes: there is nothing to describe
	if controllerutil.RemoveFinalizer(x.o, v1alpha1.FinalizerRun) {
		x.tell("Destroyed", "nothing is left of it in the cluster")
		return 0, client.IgnoreNotFound(x.Client.Update(ctx, x.o))
	}
	return 0, nil
}

// empty removes what is in the namespace of the run. One that is going takes it along, and
// in one of somebody else is nothing: the operator may not even look there.
func (x *one) empty(ctx context.Context) (gone bool, err error) {
	if x.dedicated() {
		ns := &corev1.Namespace{}
		err := x.Client.Get(ctx, client.ObjectKey{Name: x.home()}, ns)
		if apierrors.IsNotFound(err) || err == nil && (ns.DeletionTimestamp != nil || !owned.Ours(ns, x.o.GetUID())) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	for _, step := range []func(context.Context) (bool, error){
		func(ctx context.Context) (bool, error) { return x.Executor.Clean(ctx, x.want.Run) },
		x.forget,
		func(ctx context.Context) (bool, error) { return x.Access.Clean(ctx, x.access) },
	} {
		if gone, err := step(ctx); err != nil || !gone {
			return false, err
		}
	}
	return true, nil
}

// leave removes the namespace of the run, or its mark where others may run there still.
func (x *one) leave(ctx context.Context) (gone bool, err error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: x.home()}}
	if !x.dedicated() {
		return true, x.unmark(ctx, ns)
	}
	err = x.Client.Get(ctx, client.ObjectKeyFromObject(ns), ns)
	if err != nil || !owned.Ours(ns, x.o.GetUID()) {
		return err == nil || client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
	}
	if _, marked := ns.Labels[v1alpha1.LabelRuns]; marked {
		if err := x.label(ctx, ns, nil); err != nil {
			return false, err
		}
	}
	return owned.Delete(ctx, x.Client, ns, x.o.GetUID())
}

// unmark takes the mark of runs from a namespace in which nobody runs any more.
func (x *one) unmark(ctx context.Context, ns *corev1.Namespace) error {
	err := x.Client.Get(ctx, client.ObjectKeyFromObject(ns), ns)
	if _, marked := ns.Labels[v1alpha1.LabelRuns]; err != nil || !marked {
		return client.IgnoreNotFound(err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind((&unstructured.Unstructured{Object: map[string]any{"apiVersion": "infra.contrib.fluxcd.io/v1alpha2", "kind": "TerraformList"}}).GroupVersionKind())
	if err := x.Client.List(ctx, list, client.InNamespace(ns.Name), client.HasLabels{v1alpha1.LabelManaged}); err != nil {
		return err
	}
	if len(list.Items) > 0 {
		return nil
	}
	return x.label(ctx, ns, nil)
}
