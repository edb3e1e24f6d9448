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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/records"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

const (
	// manyFailures is how many failures of a destroy stop it for a while.
	manyFailures = 5
	// nextDestroy is after how long a stopped destroy is tried again.
	nextDestroy = 24 * time.Hour
)

// endObject takes the next step of the deletion of an object.
func endObject(ctx context.Context, x *object) (time.Duration, error) {
	if x.status.Phase != phaseDestroyFailed {
		x.status.Phase = phaseDestroying
	}
	x.status.PendingApproval = false
	x.status.Plan = nil
	x.status.sayState(verdict.UnderWay, x.o.GetGeneration(), v1alpha1.ReasonDestroying, "the infrastructure of the object is destroyed first")
	if x.o.GetAnnotations()[v1alpha1.AnnotationAbandon] == x.o.GetName() {
		return abandonObject(ctx, x)
	}
	run := x.requestedRun()
	run.Hold = func(ctx context.Context, now fluxexec.Status) error { return destroyAgain(ctx, x, now) }
	gone, _, err := x.runner.End(ctx, run)
	if kept, ok := errors.AsType[*runaccess.KeptError](err); ok {
		x.status.Destroy = nil
		return 0, destroyProblem(x, kept.Error())
	}
	if err != nil || !gone {
		return pending, err
	}
	return cleanUp(ctx, x)
}

// destroyProblem returns the problem that the infrastructure could not be destroyed.
func destroyProblem(x *object, why string) error {
	x.status.Phase = phaseDestroyFailed
	return &verdict.Problem{Reason: v1alpha1.ReasonDestroyFailed, Message: why, After: time.Hour}
}

// destroyAgain counts failed destroys; after manyFailures it stops for a day, or until asked.
func destroyAgain(ctx context.Context, x *object, now fluxexec.Status) error {
	if now.Failure != (fluxexec.Failure{}) {
		x.status.sayState(verdict.Failing, x.o.GetGeneration(), cmp.Or(now.Failure.Reason, v1alpha1.ReasonFailed), "destroying: "+now.Failure.Message)
	}
	d := x.status.Destroy
	if now.FailedAt != "" && (d == nil || now.FailedAt != d.FailedAt) {
		if d == nil {
			d = &destroyStatus{}
		}
		if len(now.Left) > 0 {
			x.emitEvent("LeftBehind", "as the module specifies, and may incur costs: %s", text.Excerpt(strings.Join(now.Left, ", ")))
		}
		d.Failures = d.Failures + 1
		d.FailedAt = now.FailedAt
		x.status.Destroy = d
	}
	if d == nil || d.Failures < manyFailures {
		return nil
	}
	asked := verdict.RequestOf(x.o)
	at, err := time.Parse(time.RFC3339, d.FailedAt)
	if err != nil || x.Now().Sub(at) >= nextDestroy || asked != "" && asked != x.status.handledRequest() {
		x.status.Destroy = &destroyStatus{FailedAt: d.FailedAt}
		x.status.noteRequests(x.o)
		x.status.Phase = phaseDestroying
		return nil
	}
	line, _, _ := strings.Cut(now.Message, "\n")
	return errors.Join(destroyProblem(x, fmt.Sprintf("destroying failed %d times, next attempt in 24h: %s", d.Failures, line)), x.Executor.Cancel(ctx, x.want.Run))
}

// abandonObject gives up what was made: no run, the state stays.
func abandonObject(ctx context.Context, x *object) (time.Duration, error) {
	if gone, err := x.runner.Abandon(ctx, x.requestedRun()); err != nil || !gone {
		return pending, err
	}
	x.emitEvent("Abandoned", "the state %s/%s and its resources stay", x.Access.StateName(x.access.Namespace), x.access.Workspace)
	return cleanUp(ctx, x)
}

// cleanUp removes what users were shown and the namespace of the run, then the object.
func cleanUp(ctx context.Context, x *object) (time.Duration, error) {
	for _, step := range []func(context.Context, *object) (bool, error){withdrawResults, releaseNamespace} {
		if gone, err := step(ctx, x); err != nil || !gone {
			return time.Second, err
		}
	}
	if err := x.Records.Remove(ctx, records.Of{Plural: x.def.Spec.Names.Plural, Key: client.ObjectKeyFromObject(x.o)}, x.uid()); err != nil {
		return 0, err
	}
	x.before = x.status // the object is deleted, so its status is not written
	before := x.o.DeepCopy()
	if controllerutil.RemoveFinalizer(x.o, v1alpha1.FinalizerRun) {
		x.emitEvent("Destroyed", "nothing is left of it in the cluster")
		return 0, client.IgnoreNotFound(x.Client.Patch(ctx, x.o, verdict.Since(before)))
	}
	return 0, nil
}

// releaseNamespace removes the namespace of the run, or its label if other runs may be there.
func releaseNamespace(ctx context.Context, x *object) (gone bool, err error) {
	if x.isDedicated() {
		return fluxobj.DeleteNamespace(ctx, x.Client, x.runNamespace(), x.uid())
	}
	return true, unmarkNamespace(ctx, x, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: x.runNamespace()}})
}

// unmarkNamespace removes the label of runs from a namespace that has no runs.
func unmarkNamespace(ctx context.Context, x *object, ns *corev1.Namespace) error {
	err := x.Client.Get(ctx, client.ObjectKeyFromObject(ns), ns)
	if _, marked := ns.Labels[v1alpha1.LabelRuns]; err != nil || !marked {
		return client.IgnoreNotFound(err)
	}
	runs, err := x.listMeta(ctx, fluxexec.Terraforms(), client.InNamespace(ns.Name), client.HasLabels{v1alpha1.LabelManaged})
	if err != nil || len(runs) > 0 {
		return err
	}
	return x.labelNamespace(ctx, ns, nil)
}
