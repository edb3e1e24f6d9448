// SPDX-License-Identifier: Apache-2.0

package fluxrun

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// End takes the next step to the end of a run, and reports whether nothing is left of it;
// now is how it goes where its Terraform or HelmRelease is left. Errors, besides those of
// Prepare and Hold: [*runaccess.KeptError] for a state that cannot be deleted. Where the
// state is another's by now nothing is destroyed: the Terraform goes without a run.
func (r *Runner) End(ctx context.Context, run *Run) (gone bool, now fluxexec.Status, err error) {
	run.ends = true
	now, err = r.Flux.Observe(ctx, run.Work())
	if err != nil && !fluxobj.IsTaken(err) { // ours was never made where somebody else's is
		return false, now, err
	}
	if err == nil && now.Phase != fluxexec.Absent {
		if gone, err := r.destroy(ctx, run, now); err != nil {
			return false, now, err
		} else if !gone {
			now, err = r.Flux.Observe(ctx, run.Work())
			return false, now, err
		}
	}
	now = fluxexec.Status{}
	if run.Module != nil && !run.Module.Keep {
		if err := r.Access.Release(ctx, run.Access); err != nil && !ownershipLost(err) {
			return false, now, err
		}
	}
	gone, err = r.clean(ctx, run)
	return gone, now, err
}

// destroy takes the next step to the end of what Flux carries out, and reports whether it
// is gone.
func (r *Runner) destroy(ctx context.Context, run *Run, now fluxexec.Status) (gone bool, err error) {
	if run.Module != nil {
		err := r.Access.Check(ctx, run.Access)
		if ownershipLost(err) {
			return r.Flux.Drop(ctx, run.Work())
		}
		if err != nil {
			return false, err
		}
	}
	if _, err := r.Prepare(ctx, run); err != nil {
		return false, err
	}
	if run.Hold != nil {
		if err := run.Hold(ctx, now); err != nil {
			return false, err
		}
	}
	return r.Flux.Destroy(ctx, run.Work())
}

// Abandon takes the next step to give up what a run made outside, and reports whether
// nothing is left in the cluster: the Terraform goes without a run, and the state stays.
func (r *Runner) Abandon(ctx context.Context, run *Run) (gone bool, err error) {
	if gone, err := r.Flux.Drop(ctx, run.Work()); err != nil || !gone {
		return false, err
	}
	return r.clean(ctx, run)
}

// clean removes what a run left in the cluster when its Terraform is gone, and reports
// whether all of it is.
func (r *Runner) clean(ctx context.Context, run *Run) (gone bool, err error) {
	gone, err = r.remove(ctx, run)
	if !apierrors.IsForbidden(err) {
		return gone, err
	}
	closed, failed := r.closed(ctx, run)
	if closed || failed != nil {
		return closed, failed
	}
	return false, err
}

func (r *Runner) remove(ctx context.Context, run *Run) (gone bool, err error) {
	if gone, err = r.Flux.Clean(ctx, run.Work()); err != nil || run.Module == nil {
		return gone, err // copies for a chart go with its namespace
	}
	for _, c := range run.Copies {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: run.Module.Namespace, Name: c.Name}}
		deleted, err := fluxobj.Delete(ctx, r.Client, secret, run.Module.UID)
		if err != nil {
			return false, err
		}
		gone = gone && deleted
	}
	deleted, err := r.Access.Clean(ctx, run.Access)
	return gone && deleted, err
}

// closed reports whether nothing of a run is in its namespace, or goes with it: the
// namespace is gone, or going, or the run's alone, which is removed as a whole, or was to
// be that and is somebody else's.
func (r *Runner) closed(ctx context.Context, run *Run) (bool, error) {
	ns := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: fluxexec.Namespace(run.Work())}, ns)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	alone := run.Access.RunNamespace != run.Access.Namespace
	return ns.DeletionTimestamp != nil || alone, nil
}
