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

// AnnotationAttempt of an object of a run has the Attempt that it is of.
const AnnotationAttempt = "okara.dev/attempt"

// Work is what an [Executor] carries out: the run of a module, a [Spec], or the release of
// a chart, a [Release].
type Work interface {
	about() about
	// build returns the source and what reads it, as JSON makes objects of them.
	build() (source, main any, err error)
	// adjust makes main what depends on live, nil where it is not there yet.
	adjust(live, main *unstructured.Unstructured) error
	observe(live *unstructured.Unstructured) Status
	// stopped are the fields of a spec by which no further run begins.
	stopped(live *unstructured.Unstructured) map[string]any
	// ending is what has to be changed before the next step of an end; nil: nothing.
	ending(ctx context.Context, c fluxobj.Client, live, source *unstructured.Unstructured) (map[string]any, error)
	// rest removes what is left beside the source, and reports whether it is gone.
	rest(ctx context.Context, c fluxobj.Client) (gone bool, err error)
}

// about says which objects a work has.
type about struct {
	version, kind, sourceKind string
	key, sourceKey            client.ObjectKey
	uid                       types.UID
	request, attempt          string
}

// Namespace has the objects of a work, and UID is that of what it is made for.
func Namespace(w Work) string { return w.about().key.Namespace }
func UID(w Work) types.UID    { return w.about().uid }

// asks is the annotation that asks for a run when anything of it changes: what users ask
// for, the attempt, or the source, which is the same as long as its generation is.
func (a about) asks(source *unstructured.Unstructured) string {
	return strings.Join([]string{a.request, a.attempt, string(source.GetUID()), strconv.FormatInt(source.GetGeneration(), 10)}, "/")
}

// Build returns the objects of a run, in the order in which they are made: the source
// first, since a Terraform needs it as long as it lives. Deleting goes the other way,
// and waits for the Terraform to be gone. The error is a [fieldError].
func Build(w Work) ([]any, error) {
	source, main, err := w.build()
	if err != nil {
		return nil, err
	}
	return []any{source, main}, nil
}

// Observe reads the status of a live Terraform or HelmRelease, nil if there is none.
func Observe(w Work, live *unstructured.Unstructured) Status {
	if live == nil {
		return Status{Phase: Absent}
	}
	return w.observe(live)
}

// Executor carries runs out by objects of a cluster. Its methods may be repeated, and be
// called on any replica.
//
// Errors, besides those of the API server: [*FieldError] for a run that cannot be,
// [*fluxobj.TakenError] where an object of its name is somebody else's (NameTaken), and
// [*fluxobj.MissingError] where the cluster has no such kind (ExecutorMissing).
type Executor struct {
	Client client.Client // reads what is there now, not a cache
}

// live returns what reads the objects of a work, and the Terraform or HelmRelease.
func (e *Executor) live(ctx context.Context, a about) (fluxobj.Client, *unstructured.Unstructured, error) {
	c := fluxobj.Client{Client: e.Client, UID: a.uid}
	live, err := c.Get(ctx, a.version, a.kind, a.key)
	return c, live, err
}

// objects are those of a work as the cluster takes them.
func objects(w Work) (source, main *unstructured.Unstructured, err error) {
	if w.about().uid == "" {
		return nil, nil, fieldf("uid", "what is the run made for?")
	}
	from, to, err := w.build()
	if err != nil {
		return nil, nil, err
	}
	if source, err = fluxobj.Encode(from); err != nil {
		return nil, nil, err
	}
	main, err = fluxobj.Encode(to)
	return source, main, err
}

// Apply makes the objects of a run as they should be, and reports whether it wrote any.
// Each write takes back an approval that was not carried out yet (T4): it was of another
// run. An approval that was carried out, or refused by the gate, is taken back, too. A
// source that had to be written, as a new Request or Attempt, makes the controller run
// at once (T16). Of a run that is being deleted the source alone is made sure of (T1).
// The account of a release has to be there, with its rights.
func (e *Executor) Apply(ctx context.Context, w Work) (changed bool, err error) {
	source, main, err := objects(w)
	if err != nil {
		return false, err
	}
	c, live, err := e.live(ctx, w.about()) // before the source: it may be taken
	if err != nil {
		return false, err
	}
	source, changed, err = c.Ensure(ctx, source)
	if err != nil || live != nil && live.GetDeletionTimestamp() != nil {
		return changed, err
	}
	fluxobj.Annotate(main, fluxobj.AnnotationRequest, w.about().asks(source))
	if err := w.adjust(live, main); err != nil {
		return changed, err
	}
	_, wrote, err := c.Write(ctx, live, main)
	return changed || wrote, err
}

// Observe tells how a run goes. One that does not get on may wait for its source, which
// says more of it.
func (e *Executor) Observe(ctx context.Context, w Work) (Status, error) {
	c, live, err := e.live(ctx, w.about())
	if err != nil {
		return Status{}, err
	}
	status := Observe(w, live)
	err = status.look(ctx, c, w.about())
	return status, err
}

// look has a run that does not get on tell why its source does not come, where it does not.
// Another one's source says nothing of it.
func (s *Status) look(ctx context.Context, c fluxobj.Client, a about) error {
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
	if failed := failureOf(source); failed != (Failure{}) || sourceFails(s.Failure.Reason) && !arrived {
		s.Failure = failed // none as long as the source is being fetched
	}
	return nil
}

// Cancel keeps the controller from beginning another run. One that goes on ends first.
// An [Executor.Apply] of a work without Suspend undoes it.
func (e *Executor) Cancel(ctx context.Context, w Work) error {
	c, live, err := e.live(ctx, w.about())
	if err != nil || live == nil || fluxobj.Suspended(live) {
		return err
	}
	return c.Change(ctx, live, map[string]any{"spec": w.stopped(live)})
}

// Destroy takes the next step to the end of a run, and reports whether its Terraform or
// HelmRelease is gone. The Secrets that the run reads have to be there until then, and its
// source, which Destroy makes sure of (T1). What it made outside is destroyed unless the
// work has Keep. Then the caller looks at the state, and at last calls [Executor.Clean].
//
// A suspended Terraform is deleted first and goes on then (T13): the other way round it
// would run once more. A release whose account is gone is not deleted: the error is an
// [*AccountError] (H2).
func (e *Executor) Destroy(ctx context.Context, w Work) (gone bool, err error) {
	source, _, err := objects(w)
	if err != nil {
		return false, err
	}
	c, live, err := e.live(ctx, w.about())
	switch {
	case fluxobj.IsTaken(err): // ours was never made
		return true, nil
	case err != nil || live == nil:
		return err == nil, err
	}
	how, err := w.ending(ctx, c, live, source)
	if err == nil && how != nil {
		err = c.Change(ctx, live, how)
	}
	if err == nil && live.GetDeletionTimestamp() == nil {
		err = c.Remove(ctx, live)
	}
	return false, err
}

// Drop takes the next step to the end of a Terraform without a run: what it made outside
// stays. It reports whether the Terraform is gone. One that is suspended is not finalised
// by tofu-controller (T13), whose finalizer goes then.
func (e *Executor) Drop(ctx context.Context, w Work) (gone bool, err error) {
	c, live, err := e.live(ctx, w.about())
	switch {
	case fluxobj.IsTaken(err):
		return true, nil
	case err != nil || live == nil:
		return err == nil, err
	case !fluxobj.Suspended(live):
		return false, c.Change(ctx, live, map[string]any{"spec": w.stopped(live)})
	case live.GetDeletionTimestamp() == nil:
		return false, c.Remove(ctx, live)
	}
	return false, client.IgnoreNotFound(c.Change(ctx, live, map[string]any{"metadata": map[string]any{"finalizers": nil}}))
}

// Clean removes what a run leaves when its Terraform or HelmRelease is gone, and reports
// whether all of it is: the source, the Secret of the raw outputs (T7) and, of a release
// that was kept, its HelmChart (H4).
func (e *Executor) Clean(ctx context.Context, w Work) (gone bool, err error) {
	a := w.about()
	c := fluxobj.Client{Client: e.Client, UID: a.uid}
	source, err := c.Clean(ctx, fluxobj.SourceVersion, a.sourceKind, a.sourceKey)
	if err != nil {
		return false, err
	}
	gone, err = w.rest(ctx, c)
	return gone && source, err
}
