// SPDX-License-Identifier: Apache-2.0

package fluxrun

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/owned"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

// Access is what runs have at okara serve: [*runaccess.Access].
type Access interface {
	Check(ctx context.Context, r runaccess.Run) error
	Release(ctx context.Context, r runaccess.Run, destroyed bool) error
	Clean(ctx context.Context, r runaccess.Run) (gone bool, err error)
}

// Runner ends runs. It is safe for concurrent use.
type Runner struct {
	Client client.Client // reads what is there now, not a cache
	Flux   *fluxexec.Executor
	Access Access
}

// Run is one that ends.
type Run struct {
	Spec   fluxexec.Spec // with Keep nothing is destroyed, and the state stays
	Access runaccess.Run
	Copies []string // names of Secrets that were copied for it
	// Prepare makes sure of all that the last run reads, and returns the spec with it.
	Prepare func(ctx context.Context) (fluxexec.Spec, error)
	// Hold is asked before each step of a destroy, with what is known of it. Its error
	// holds the destroy; nil: nothing does.
	Hold func(ctx context.Context, now fluxexec.Status) error
}

// End takes the next step to the end of a run, and reports whether nothing is left of it.
// Errors, besides those of Prepare and Hold: [*runaccess.KeptError] for a state that
// cannot be deleted. Where the state is another's by now nothing is destroyed: the
// Terraform goes without a run.
func (r *Runner) End(ctx context.Context, run *Run) (gone bool, err error) {
	now, err := r.Flux.Observe(ctx, run.Spec)
	if err != nil && !fluxobj.IsTaken(err) { // ours was never made where somebody else's is
		return false, err
	}
	if err == nil && now.Phase != fluxexec.Absent {
		if gone, err := r.destroy(ctx, run, now); err != nil || !gone {
			return false, err
		}
	}
	if !run.Spec.Keep {
		err := r.Access.Release(ctx, run.Access, true)
		if _, others := errors.AsType[*runaccess.NotOwnerError](err); err != nil && !others {
			return false, err
		}
	}
	return r.Clean(ctx, run)
}

// destroy takes the next step to the end of a Terraform, and reports whether it is gone.
func (r *Runner) destroy(ctx context.Context, run *Run, now fluxexec.Status) (gone bool, err error) {
	err = r.Access.Check(ctx, run.Access)
	if _, lost := errors.AsType[*runaccess.NotOwnerError](err); lost {
		return r.Flux.Drop(ctx, run.Spec)
	}
	if err != nil {
		return false, err
	}
	spec, err := run.Prepare(ctx)
	if err != nil {
		return false, err
	}
	if run.Hold != nil {
		if err := run.Hold(ctx, now); err != nil {
			return false, err
		}
	}
	spec.Keep = run.Spec.Keep
	return r.Flux.Destroy(ctx, spec)
}

// Clean removes what a run left in the cluster when its Terraform is gone, and reports
// whether all of it is.
func (r *Runner) Clean(ctx context.Context, run *Run) (gone bool, err error) {
	gone, err = r.clean(ctx, run)
	if !apierrors.IsForbidden(err) {
		return gone, err
	}
	closed, failed := r.closed(ctx, run)
	if closed || failed != nil {
		return closed, failed
	}
	return false, err
}

func (r *Runner) clean(ctx context.Context, run *Run) (gone bool, err error) {
	if gone, err = r.Flux.Clean(ctx, run.Spec); err != nil {
		return false, err
	}
	for _, name := range run.Copies {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: run.Spec.Namespace, Name: name}}
		deleted, err := owned.Delete(ctx, r.Client, secret, run.Spec.UID)
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
	err := r.Client.Get(ctx, client.ObjectKey{Name: run.Spec.Namespace}, ns)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	alone := run.Access.Home != run.Access.Namespace
	return ns.DeletionTimestamp != nil || alone, nil
}
