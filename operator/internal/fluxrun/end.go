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

// End takes the next step of ending a run, and reports whether nothing is left. now is the status
// while its Terraform or HelmRelease exists. Errors are those of Prepare and Hold, and
// [*runaccess.KeptError] for a state that cannot be deleted. If the state is another's by now, the
// Terraform goes without a run, and nothing is destroyed.
func (r *Runner) End(ctx context.Context, run *Run) (gone bool, now fluxexec.Status, err error) {
	run.ends = true
	now, err = r.Flux.Observe(ctx, run.Work())
	if err != nil && !fluxobj.IsTaken(err) { // another owner's object means that ours was never created
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
	gone, err = r.cleanRun(ctx, run)
	return gone, now, err
}

// destroy takes the next step of a destroy, and reports whether all is gone.
func (r *Runner) destroy(ctx context.Context, run *Run, now fluxexec.Status) (gone bool, err error) {
	if run.Module != nil {
		err := r.Access.Check(ctx, run.Access)
		if ownershipLost(err) {
			return r.Flux.Drop(ctx, run.Work())
		}
		if err == nil && now.Phase != fluxexec.Destroying && !run.Module.Keep { // later they are not in the state
			run.Module.Leaves, err = r.Access.ListLeaves(ctx, run.Access)
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

// Abandon takes the next step of giving up resources, and reports whether nothing is left in the
// cluster. The Terraform goes without a run, the state stays.
func (r *Runner) Abandon(ctx context.Context, run *Run) (gone bool, err error) {
	if gone, err := r.Flux.Drop(ctx, run.Work()); err != nil || !gone {
		return false, err
	}
	return r.cleanRun(ctx, run)
}

// cleanRun removes what a run left after its Terraform, and reports whether all is gone.
func (r *Runner) cleanRun(ctx context.Context, run *Run) (gone bool, err error) {
	gone, err = r.removeCopies(ctx, run)
	if !apierrors.IsForbidden(err) {
		return gone, err
	}
	if closed, failed := r.isClosed(ctx, run); closed || failed != nil {
		return closed, failed
	}
	return false, err
}

func (r *Runner) removeCopies(ctx context.Context, run *Run) (gone bool, err error) {
	if gone, err = r.Flux.Clean(ctx, run.Work()); err != nil || run.Module == nil {
		return gone, err // copies for a chart are deleted with its namespace
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

// isClosed reports whether nothing of a run is, or will be, in its namespace: gone, going, or the
// run's alone, which goes whole.
func (r *Runner) isClosed(ctx context.Context, run *Run) (bool, error) {
	ns := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: fluxexec.Namespace(run.Work())}, ns)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	alone := run.Access.RunNamespace != run.Access.Namespace
	return ns.DeletionTimestamp != nil || alone, nil
}
