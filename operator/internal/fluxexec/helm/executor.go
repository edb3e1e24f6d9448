// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// Executor carries releases out by objects of a cluster. Its errors are those of
// [fluxexec.Executor], and [*AccountError].
type Executor struct {
	Client client.Client
	// Live reads what is there now where Client has a cache of Flux's objects.
	Live client.Reader
}

// annotationReset has helm-controller forget, with the request of the same value, what
// failed before: another attempt begins anew (H5).
const annotationReset = "reconcile.fluxcd.io/resetAt"

// AccountError says that the account of a release is not there.
type AccountError struct{ Namespace, Name string }

func (e *AccountError) Error() string {
	return fmt.Sprintf("ServiceAccount %s is gone from namespace %s: make it again with its rights, or what the release installed would stay", e.Name, e.Namespace)
}

func (e *Executor) as(s *Spec) fluxobj.Client {
	return fluxobj.Client{Client: e.Client, Live: e.Live, UID: s.UID}
}

// chartKey names the source of the chart.
func (s *Spec) chartKey() client.ObjectKey {
	return client.ObjectKey{Namespace: cmp.Or(s.ChartNamespace, s.Namespace), Name: s.Name}
}

func (s *Spec) key() client.ObjectKey { return client.ObjectKey{Namespace: s.Namespace, Name: s.Name} }

// objects are those of a release as the cluster takes them.
func (s *Spec) objects() (source, release *unstructured.Unstructured, err error) {
	if s.UID == "" {
		return nil, nil, fieldf("uid", "what is the release made for?")
	}
	list, err := Build(*s)
	if err != nil {
		return nil, nil, err
	}
	if source, err = fluxobj.Encode(list[0]); err != nil {
		return nil, nil, err
	}
	release, err = fluxobj.Encode(list[1])
	return source, release, err
}

// Apply makes the objects of a release as they should be, and reports whether it wrote
// any. The account has to be there, with its rights. A release that is being deleted
// stays as it is.
func (e *Executor) Apply(ctx context.Context, s Spec) (changed bool, err error) {
	source, release, err := s.objects()
	if err != nil {
		return false, err
	}
	c := e.as(&s)
	live, err := c.Get(ctx, releaseVersion, releaseKind, s.key()) // before the source: it may be taken
	if err != nil || live != nil && live.GetDeletionTimestamp() != nil {
		return false, err
	}
	source, changed, err = c.Ensure(ctx, source)
	if err != nil {
		return changed, err
	}
	request := fluxobj.Request(s.Request, s.Attempt, source)
	fluxobj.Annotate(release, fluxobj.AnnotationRequest, request)
	fluxobj.Annotate(release, annotationReset, request)
	_, wrote, err := c.Write(ctx, live, release)
	return changed || wrote, err
}

// Observe tells how a release goes.
func (e *Executor) Observe(ctx context.Context, s Spec) (fluxexec.Status, error) {
	c := e.as(&s)
	live, err := c.Get(ctx, releaseVersion, releaseKind, s.key())
	if err != nil {
		return fluxexec.Status{}, err
	}
	status := Observe(s, live)
	err = status.Look(ctx, c, s.Chart.sourceKind(), s.chartKey())
	return status, err
}

// Cancel keeps helm-controller from beginning another action. An [Executor.Apply] whose
// Spec has no Suspend undoes it.
func (e *Executor) Cancel(ctx context.Context, s Spec) error {
	c := e.as(&s)
	live, err := c.Get(ctx, releaseVersion, releaseKind, s.key())
	if err != nil || live == nil {
		return err
	}
	return suspend(ctx, c, live, true)
}

func suspend(ctx context.Context, c fluxobj.Client, live *unstructured.Unstructured, is bool) error {
	if fluxobj.Suspended(live) == is {
		return nil
	}
	return c.Change(ctx, live, map[string]any{"spec": map[string]any{"suspend": is}})
}

// Destroy takes the next step to the end of a release, and reports whether it is gone,
// with what it installed unless s.Keep. The account has to be there until then, with its
// rights: if it is not, the error is an [*AccountError] and nothing is deleted (H2). At
// last the caller calls [Executor.Clean].
func (e *Executor) Destroy(ctx context.Context, s Spec) (gone bool, err error) {
	if _, _, err := s.objects(); err != nil {
		return false, err
	}
	c := e.as(&s)
	live, err := c.Get(ctx, releaseVersion, releaseKind, s.key())
	switch {
	case fluxobj.IsTaken(err): // ours was never made
		return true, nil
	case err != nil || live == nil:
		return err == nil, err
	case live.GetDeletionTimestamp() != nil:
		return false, nil
	}
	if !s.Keep {
		if err := e.account(ctx, live); err != nil {
			return false, err
		}
	}
	if err := suspend(ctx, c, live, s.Keep); err != nil {
		return false, err
	}
	return false, c.Remove(ctx, live)
}

// account looks whether the account of a release is there.
func (e *Executor) account(ctx context.Context, live *unstructured.Unstructured) error {
	from := e.Live
	if from == nil {
		from = e.Client
	}
	name := fluxobj.Text(live, "spec", "serviceAccountName")
	err := from.Get(ctx, client.ObjectKey{Namespace: live.GetNamespace(), Name: name}, &corev1.ServiceAccount{})
	if apierrors.IsNotFound(err) {
		return &AccountError{live.GetNamespace(), name}
	}
	return err
}

// Clean removes what is left when the release is gone, and reports whether all of it is:
// the source and, of a release that was kept, its HelmChart (H4).
func (e *Executor) Clean(ctx context.Context, s Spec) (gone bool, err error) {
	c := e.as(&s)
	gone, err = c.Clean(ctx, fluxobj.SourceVersion, s.Chart.sourceKind(), s.chartKey())
	if err != nil || s.Chart.OCI != nil {
		return gone, err
	}
	chart, err := c.Clean(ctx, fluxobj.SourceVersion, chartKind, client.ObjectKey{Namespace: s.chartKey().Namespace, Name: s.Namespace + "-" + s.Name})
	return gone && chart, err
}

// Observe reads the status of a live HelmRelease, nil if there is none. The revisions are
// versions of the chart.
func Observe(s Spec, live *unstructured.Unstructured) fluxexec.Status {
	if live == nil {
		return fluxexec.Status{Phase: fluxexec.Absent}
	}
	conditions := fluxobj.Conditions(live)
	ready := conditions["Ready"]
	status := fluxexec.Status{
		Phase:           fluxexec.Running,
		Reason:          ready.Reason,
		Message:         ready.Message,
		Attempt:         live.GetAnnotations()[fluxobj.AnnotationAttempt],
		Failures:        fluxobj.Number(live, "status", "failures"),
		PlannedRevision: fluxobj.Text(live, "status", "lastAttemptedRevision"),
		AppliedRevision: installed(live),
	}
	switch {
	case live.GetDeletionTimestamp() != nil:
		status.Phase = fluxexec.Destroying
	case fluxobj.Suspended(live):
		status.Phase = fluxexec.Suspended
	case !fluxobj.Observed(live) || status.Attempt != s.Attempt:
	case ready.True() && s.pinned(live):
		status.Phase = fluxexec.Applied
		if s.Drift == fluxexec.DriftReport && conditions["Drifted"].True() {
			status.Phase, status.Message = fluxexec.Drifted, conditions["Drifted"].Message
		}
	case ready.False() && conditions["Stalled"].True():
		status.Phase = fluxexec.Failed
	}
	if slices.Contains([]fluxexec.Phase{fluxexec.Running, fluxexec.Destroying, fluxexec.Failed}, status.Phase) {
		status.Failure = fluxexec.FailureOf(live)
	}
	return status
}

// pinned reports whether the release is of the digest or the commit that the Spec names,
// if any. What is in git has the first digits of its commit in the version of the chart.
func (s *Spec) pinned(live *unstructured.Unstructured) bool {
	switch {
	case s.Chart.OCI != nil && s.Chart.OCI.Digest != "":
		return strings.HasSuffix(fluxobj.Text(live, "status", "lastAttemptedRevisionDigest"), s.Chart.OCI.Digest)
	case s.Chart.Git != nil && s.Chart.Git.Commit != "":
		return strings.Contains(fluxobj.Text(live, "status", "lastAttemptedRevision"), "+"+s.Chart.Git.Commit[:shortest])
	}
	return true
}

// installed is the version of the chart that was installed last.
func installed(live *unstructured.Unstructured) string {
	history, _, _ := unstructured.NestedSlice(live.Object, "status", "history") // another form is none
	if len(history) == 0 {
		return ""
	}
	last, _ := history[0].(map[string]any)
	version, _ := last["chartVersion"].(string)
	return version
}
