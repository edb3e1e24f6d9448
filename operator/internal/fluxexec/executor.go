// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"context"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// AnnotationAttempt of an object of a run holds its Attempt.
const AnnotationAttempt = "okara.dev/attempt"

// annotationLeaves of a Terraform holds Spec.Leaves, one a line.
const annotationLeaves = "okara.dev/leaves"

// Work is what an [Executor] carries out: a module ([Spec]) or a chart ([Release]).
type Work interface {
	workInfo() about
	// buildObjects returns the source and the object that reads it, as values to encode as JSON.
	buildObjects() (source, main any, err error)
	// adjustMain sets fields of main that depend on live, nil at first.
	adjustMain(live, main *unstructured.Unstructured) error
	observe(live *unstructured.Unstructured) Status
	// stoppedSpec returns the spec fields that keep further runs from starting.
	stoppedSpec(live *unstructured.Unstructured) map[string]any
	// endingSpec returns the changes required before the next step of a deletion, or nil.
	endingSpec(ctx context.Context, c fluxobj.Client, live, source, main *unstructured.Unstructured) (map[string]any, error)
	// removeRest removes what is left besides the source, and reports whether it is gone.
	removeRest(ctx context.Context, c fluxobj.Client) (gone bool, err error)
}

// about identifies the objects of a work.
type about struct {
	version, kind, sourceKind string
	key, sourceKey            client.ObjectKey
	uid                       types.UID
	request, attempt          string
}

// Namespace returns the namespace of a work's objects, UID the UID of the object that it is for.
func Namespace(w Work) string { return w.workInfo().key.Namespace }
func UID(w Work) types.UID    { return w.workInfo().uid }

// requestValue is the annotation that requests a run when it changes: with the user's request, the
// attempt, or the source's UID and generation.
func (a about) requestValue(source *unstructured.Unstructured) string {
	return strings.Join([]string{a.request, a.attempt, string(source.GetUID()), strconv.FormatInt(source.GetGeneration(), 10)}, "/")
}

// Build returns a run's objects in the order of creation: the source first, which a Terraform
// always needs. Deletion goes back, and waits until the Terraform is gone. The error is a
// [*FieldError].
func Build(w Work) ([]any, error) {
	source, main, err := w.buildObjects()
	if err != nil {
		return nil, err
	}
	var all []any
	for _, o := range []any{source, main} {
		u, err := fluxobj.Convert(o)
		if err != nil {
			return nil, err
		}
		all = append(all, u.Object)
	}
	return all, nil
}

// Observe reads the status of a live Terraform or HelmRelease; live is nil if there is none.
func Observe(w Work, live *unstructured.Unstructured) Status {
	if live == nil {
		return Status{Phase: Absent}
	}
	return w.observe(live)
}

// Executor carries out runs with objects of a cluster. Its methods may be repeated, and
// may be called on any replica.
//
// Errors, besides those of the API server, are [*FieldError] for an invalid run,
// [*fluxobj.TakenError] if another owner has an object of that name (NameTaken), and
// [*fluxobj.MissingError] if the cluster has no such kind (ExecutorMissing).
type Executor struct {
	Client client.Client // reads the current objects, without a cache
}

// readLive returns a client for the objects of a work, and the Terraform or HelmRelease.
func (e *Executor) readLive(ctx context.Context, a about) (fluxobj.Client, *unstructured.Unstructured, error) {
	c := fluxobj.Client{Client: e.Client, UID: a.uid}
	live, err := c.Get(ctx, a.version, a.kind, a.key)
	return c, live, err
}

// acceptedObjects returns the objects of a work as the API server accepts them.
func acceptedObjects(w Work) (source, main *unstructured.Unstructured, err error) {
	if w.workInfo().uid == "" {
		return nil, nil, fieldf("uid", "the UID of the run's object is required")
	}
	from, to, err := w.buildObjects()
	if err != nil {
		return nil, nil, err
	}
	if source, err = fluxobj.Encode(from); err != nil {
		return nil, nil, err
	}
	main, err = fluxobj.Encode(to)
	return source, main, err
}

// Apply creates or updates a run's objects, and reports whether it wrote any. Each write revokes an
// approval that was not carried out (T4), as it was for another run; those carried out or refused
// are revoked too. A new source, Request or Attempt runs at once (T16). Of a run that is being
// deleted only the source is ensured (T1). A release's account must exist, with its rights.
func (e *Executor) Apply(ctx context.Context, w Work) (changed bool, err error) {
	source, main, err := acceptedObjects(w)
	if err != nil {
		return false, err
	}
	c, live, err := e.readLive(ctx, w.workInfo()) // before the source, since the name may be taken
	if err != nil {
		return false, err
	}
	source, changed, err = c.Ensure(ctx, source)
	if err != nil || live != nil && live.GetDeletionTimestamp() != nil {
		return changed, err
	}
	fluxobj.Annotate(main, fluxobj.AnnotationRequest, w.workInfo().requestValue(source))
	if err := w.adjustMain(live, main); err != nil {
		return changed, err
	}
	_, wrote, err := c.Write(ctx, live, main)
	return changed || wrote, err
}

// Observe returns the status of a run; without progress, with the failure of its source, if any.
func (e *Executor) Observe(ctx context.Context, w Work) (Status, error) {
	c, live, err := e.readLive(ctx, w.workInfo())
	if err != nil {
		return Status{}, err
	}
	status := Observe(w, live)
	err = status.useSourceFailure(ctx, c, w.workInfo())
	return status, err
}

// useSourceFailure takes the failure of our source for a run without progress.
func (s *Status) useSourceFailure(ctx context.Context, c fluxobj.Client, a about) error {
	if s.Phase != Running && s.Phase != Destroying {
		return nil
	}
	source, err := c.Get(ctx, fluxobj.SourceVersion, a.sourceKind, a.sourceKey)
	switch {
	case fluxobj.IsTaken(err):
		return nil
	case err != nil:
		return err
	}
	arrived := source != nil && fluxobj.Conditions(source)["Ready"].True()
	if failed := failureOf(source); failed != (Failure{}) || sourceFails(s.Failure.Reason) && (!arrived || s.Failure.Message == noArtifact) {
		s.Failure = failed // empty while the source is being fetched
	}
	return nil
}

// Cancel keeps the controller from starting another run. A run in progress ends first.
// [Executor.Apply] with a work without Suspend undoes it.
func (e *Executor) Cancel(ctx context.Context, w Work) error {
	c, live, err := e.readLive(ctx, w.workInfo())
	if err != nil || live == nil || fluxobj.Suspended(live) {
		return err
	}
	return c.Change(ctx, live, map[string]any{"spec": w.stoppedSpec(live)})
}

// Destroy takes the next step of destroying a run, and reports whether its Terraform or
// HelmRelease is gone. Until then, the Secrets that the run reads must exist, and its
// source, which Destroy ensures (T1). The resources of the run are destroyed unless the
// work has Keep, with the folder and the values of the work: those of a change that failed
// may break the destroy as well. Afterwards the caller checks the state, and finally calls
// [Executor.Clean].
//
// A suspended Terraform is deleted first and resumed then (T13): in the opposite order it
// would run once more. A release whose account is gone is not deleted: the error is an
// [*AccountError] (H2).
func (e *Executor) Destroy(ctx context.Context, w Work) (gone bool, err error) {
	source, main, err := acceptedObjects(w)
	if err != nil {
		return false, err
	}
	c, live, err := e.readLive(ctx, w.workInfo())
	switch {
	case fluxobj.IsTaken(err): // our object was never created
		return true, nil
	case err != nil || live == nil:
		return err == nil, err
	}
	how, err := w.endingSpec(ctx, c, live, source, main)
	if err == nil && how != nil {
		err = c.Change(ctx, live, how)
	}
	if err == nil && live.GetDeletionTimestamp() == nil {
		err = c.Remove(ctx, live)
	}
	return false, err
}

// Drop takes the next step of removing a Terraform without a run, resources staying, and reports
// whether it is gone: suspended first, so that tofu-controller does not finalise it (T13), then
// without finalizers.
func (e *Executor) Drop(ctx context.Context, w Work) (gone bool, err error) {
	c, live, err := e.readLive(ctx, w.workInfo())
	switch {
	case fluxobj.IsTaken(err):
		return true, nil
	case err != nil || live == nil:
		return err == nil, err
	case !fluxobj.Suspended(live):
		return false, c.Change(ctx, live, map[string]any{"spec": w.stoppedSpec(live)})
	case live.GetDeletionTimestamp() == nil:
		return false, c.Remove(ctx, live)
	}
	return false, client.IgnoreNotFound(c.Change(ctx, live, map[string]any{"metadata": map[string]any{"finalizers": nil}}))
}

// Clean removes what is left when the Terraform or HelmRelease is gone, and reports whether all is:
// source, raw outputs (T7), a kept release's HelmChart (H4).
func (e *Executor) Clean(ctx context.Context, w Work) (gone bool, err error) {
	a := w.workInfo()
	c := fluxobj.Client{Client: e.Client, UID: a.uid}
	source, err := c.Clean(ctx, fluxobj.SourceVersion, a.sourceKind, a.sourceKey)
	if err != nil {
		return false, err
	}
	gone, err = w.removeRest(ctx, c)
	return gone && source, err
}
