// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// entries is the controller of one kind of entry.
type entries struct {
	client.Client
	Options
	reader   client.Reader // not cached, for Secrets
	events   events.EventRecorder
	kind     string
	schedule schedule
	runs     *fairQueue // shared by all kinds
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Reconcile brings the registry and the status of one entry up to date.
func (r *entries) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, req)
	if errors.Is(err, errQueued) {
		return ctrl.Result{}, nil // it is woken when it has a slot
	}
	r.runs.release(entryKey{r.kind, req.NamespacedName})
	return result, err
}

// errQueued is the error of an entry that waits in the queue.
var errQueued = errors.New("the run is queued")

func (r *entries) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o := entryKinds()[r.kind]
	if err := r.Get(ctx, req.NamespacedName, o); apierrors.IsNotFound(err) {
		r.schedule.forget(req.NamespacedName)
		return ctrl.Result{}, deleteOrphans(ctx, r, req.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	e := entryOf(o)
	if !e.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, quiet(r.remove(ctx, e))
	}
	before := statusOf(o.DeepCopyObject())
	wait, err := r.run(ctx, e)
	if errors.Is(err, errQueued) {
		return ctrl.Result{}, err
	}
	if e.status.ObservedGeneration == e.GetGeneration() && !equality.Semantic.DeepEqual(before, statusOf(o)) {
		if err := r.Status().Update(ctx, e.Object); err != nil {
			r.schedule.ask(req.NamespacedName)
			return ctrl.Result{RequeueAfter: time.Second}, quiet(err)
		}
	}
	if err != nil && wait > 0 {
		log.FromContext(ctx).Error(err, "a run failed", "again", wait.String())
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{RequeueAfter: wait}, err
}

// quiet drops errors that are no failure: the object changed or went away meanwhile, and
// that change wakes the controller anyway.
func quiet(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// run does what is pending, and returns how long it takes until something is again. A
// run is tried again after an error, but a *verdict.Problem is only written to the status.
func (r *entries) run(ctx context.Context, e *entry) (time.Duration, error) {
	if e.err == nil && e.run.Suspend {
		if err := r.hold(ctx, e); err != nil { // deletion is not suspended
			return 0, err
		}
		e.say(r.events, verdict.Verdict{State: verdict.Held, Reason: v1alpha1.ReasonSuspended, Message: "runs are stopped by spec.suspend"})
		return 0, nil
	}
	wait, err := r.attempt(ctx, e)
	if err == nil || errors.Is(err, errQueued) {
		return wait, err
	}
	e.say(r.events, verdictOf(err))
	if _, hopeless := asProblem(err); hopeless {
		return wait, nil
	}
	if pause, limited := pauseOf(err); limited {
		return pause, nil
	}
	return wait, err
}

// attempt makes a run if one is due and the entry has a slot; without a slot the error is
// errQueued.
func (r *entries) attempt(ctx context.Context, e *entry) (time.Duration, error) {
	if e.err != nil {
		return 0, &verdict.Problem{Reason: v1alpha1.ReasonInvalid, Message: e.err.Error()}
	}
	due, wait := r.schedule.pending(e, r.Now())
	if due {
		name := client.ObjectKeyFromObject(e)
		if pause := r.runs.pause(e.limitKey(), r.Now()); pause > 0 && e.request() == e.status.LastHandledRequest {
			r.schedule.park(e, r.Now(), pause)
			return pause, &limitError{pause}
		}
		if !r.runs.acquire(entryKey{r.kind, name}, e.line(), e.key, func() { r.queue.Add(reconcile.Request{NamespacedName: name}) }) {
			return 0, errQueued
		}
	}
	ns, err := claimAddress(ctx, r, e)
	if err == nil && due {
		err = e.scanWith(r.Scanner)
	}
	if err != nil || !due {
		return wait, err
	}
	wait, err = r.ranNow(ctx, e, ns)
	if err == nil {
		e.status.ObservedGeneration = e.GetGeneration()
	}
	return wait, err
}

// ranNow makes one run and records it in the schedule.
func (r *entries) ranNow(ctx context.Context, e *entry, ns *metav1.PartialObjectMetadata) (time.Duration, error) {
	if err := r.hold(ctx, e); err != nil {
		return 0, err
	}
	r.schedule.begin(client.ObjectKeyFromObject(e))
	began := r.Now()
	err := problemOf(r.sync(ctx, e, ns))
	e.status.LastHandledRequest = e.request()
	if pause, limited := pauseOf(err); limited {
		r.runs.limit(e.limitKey(), r.Now().Add(pause))
		r.schedule.park(e, r.Now(), pause)
		return 0, err
	}
	if err == nil {
		r.runs.limit(e.limitKey(), time.Time{}) // the origin answered a run requested by a user
	}
	_, hopeless := asProblem(err)
	wait := r.schedule.ran(e, err != nil && !hopeless, r.Now())
	if err == nil {
		r.schedule.examine(e, began)
	}
	return wait, err
}

// hold adds the finalizer before the registry is touched if the deletion policy has
// something to do, and removes it if not.
func (r *entries) hold(ctx context.Context, e *entry) error {
	return holds(ctx, r.Client, e.Object, e.withdraws())
}

// withdraws reports whether the deletion policy has something to do.
func (e *entry) withdraws() bool {
	return e.run.DeletionPolicy == v1alpha1.DeletionYank || e.run.DeletionPolicy == v1alpha1.DeletionDelete
}

// sync makes one run of the engine and updates the status and the Versions accordingly.
func (r *entries) sync(ctx context.Context, e *entry, ns *metav1.PartialObjectMetadata) error {
	from, err := r.origins(ctx, e, ns)
	if err != nil {
		return err
	}
	s := supply.NewSyncer(r.Depot, supply.SyncOptions{
		Set: &e.set, Origins: func(string) (supply.Origins, error) { return from, nil }, Now: r.Now, Jobs: 1,
		Examined: r.schedule.examined(e), Used: r.used(ctx, e),
		Own: &supply.OwnRecord{Owner: string(ns.UID), TakeOver: ns.Name == r.Namespace || named(ns, e.item)},
	})
	plan, err := s.Plan(ctx)
	if err != nil {
		return err
	}
	approved, err := applyApprovals(ctx, r, e)
	if err == nil && approved {
		plan, err = s.Plan(ctx)
	}
	if err != nil {
		return err
	}
	results, err := s.Apply(ctx, plan, nil)
	if err != nil {
		return err
	}
	failed := r.report(e, results)
	if _, hopeless := asProblem(problemOf(failed)); hopeless {
		return failed
	}
	found, err := r.after(ctx, e, plan)
	if err == nil {
		found, err = writeVersions(ctx, r, e, found)
	}
	if err != nil || e.list == nil { // a Version has its own status
		return cmp.Or(err, failed)
	}
	found.fill(e.list)
	switch {
	case failed != nil:
	case !matches(plan):
		e.say(r.events, addOmitted(e.unmatched(), plan.Omitted(e.key)))
	default:
		e.say(r.events, addOmitted(found.verdict(), plan.Omitted(e.key)))
	}
	return failed
}

// say writes a verdict to the status of an entry.
func (e *entry) say(to events.EventRecorder, v verdict.Verdict) {
	e.status.ObservedGeneration = e.GetGeneration()
	v.Say(to, e.Object, &e.status.Conditions)
}

// report makes events for what a run changed, and returns the first failure.
func (r *entries) report(e *entry, results []supply.Result) error {
	did := map[string][]string{} // versions by reason
	var failed error
	for _, res := range results {
		switch {
		case res.Err() != nil:
			if failed == nil {
				failed = versionError(res)
			}
		case res.Action == supply.ActionDrift:
			did[v1alpha1.ReasonDrift] = append(did[v1alpha1.ReasonDrift], res.Version+": "+res.Reason)
		case !res.Changes():
		case res.Action == supply.ActionPrune:
			did[v1alpha1.ReasonPruned] = append(did[v1alpha1.ReasonPruned], res.Version)
		case res.State == supply.StateWaiting || res.State == supply.StateBlocked:
			did[v1alpha1.ReasonHeld] = append(did[v1alpha1.ReasonHeld], res.Version+": "+res.Reason)
		case res.Action == supply.ActionPublish || res.Action == supply.ActionApprove || res.Action == supply.ActionExtend:
			did[v1alpha1.ReasonPublished] = append(did[v1alpha1.ReasonPublished], res.Version)
		}
	}
	for reason, versions := range did {
		kind := corev1.EventTypeNormal
		if reason == v1alpha1.ReasonDrift {
			kind = corev1.EventTypeWarning
		}
		r.event(e.Object, kind, reason, strings.Join(versions, ", "))
	}
	return failed
}

func versionError(res supply.Result) error {
	if res.Version == "" {
		return res.Err()
	}
	return fmt.Errorf("version %s: %w", res.Version, res.Err())
}

// maxNote bounds the text of an event, in bytes.
const maxNote = 1000

// event makes an event; the API server counts those that repeat.
func (r *entries) event(o client.Object, kind, reason, message string) {
	r.events.Eventf(o, nil, kind, reason, "Sync", "%s", text.Clip(message, maxNote))
}

// remove carries out the deletion policy.
func (r *entries) remove(ctx context.Context, e *entry) error {
	if e.status.ObservedGeneration != e.GetGeneration() { // else the status says how the last try ended
		if err := e.ends(ctx, r, r.events, verdict.Verdict{Reason: v1alpha1.ReasonDestroying, Message: "it is being deleted; its versions are handled as spec.deletionPolicy says"}); err != nil {
			return err
		}
	}
	if !controllerutil.ContainsFinalizer(e.Object, v1alpha1.FinalizerRegistry) {
		return nil
	}
	if err := r.withdraw(ctx, e); err != nil {
		return cmp.Or(e.ends(ctx, r, r.events, verdictOf(err)), err)
	}
	return holds(ctx, r.Client, e.Object, false)
}

// ends writes the verdict on an entry that is being deleted, if it changed.
func (e *entry) ends(ctx context.Context, c client.Client, to events.EventRecorder, v verdict.Verdict) error {
	return verdict.Update(ctx, c, e.Object, func() { e.say(to, v) })
}

// withdraw yanks the versions that this entry published, and removes them with the policy
// Delete. An entry that does not hold its address published nothing.
func (r *entries) withdraw(ctx context.Context, e *entry) error {
	if e.err != nil || !e.withdraws() {
		return nil
	}
	ns, err := claimAddress(ctx, r, e)
	if _, ok := asProblem(err); ok {
		return nil
	}
	if err != nil {
		return err
	}
	rec, err := supply.ReadEntryRecord(ctx, r.Depot, e.key)
	if err != nil {
		return err
	}
	if rec.Owner != string(ns.UID) {
		return nil
	}
	repo, err := r.Depot.Repo(e.item.Repository(r.Depot.Options().Layout))
	if err != nil {
		return err
	}
	l, err := depot.ReadListing(ctx, repo, e.item.Kind, nil)
	if err != nil {
		return err
	}
	return withdraw(ctx, r.Depot, e, l, rec.Entries[e.key])
}

// deletedMessage is the message to users of a version whose object was deleted.
const deletedMessage = "the object that published it was deleted"

// withdraw yanks the versions of an entry that are in its record. With the policy Delete
// it also removes their tags, where the registry can.
func withdraw(ctx context.Context, d *depot.Depot, e *entry, l *depot.Listing, known map[string]supply.VersionRecord) error {
	untag := e.run.DeletionPolicy == v1alpha1.DeletionDelete
	for _, v := range l.Versions {
		_, ours := known[v.EditionOf().String()]
		ours = ours && e.speaksOf(v.EditionOf().String())
		if !ours || !untag && l.Status(v).Yanked != nil {
			continue
		}
		an := depot.Announcement{Action: evidence.ActionYank, Version: v.String(), Message: deletedMessage, Actor: actor(e), DeleteTag: untag}
		if _, _, err := d.Announce(ctx, e.item, an); err != nil {
			return err
		}
	}
	return nil
}
