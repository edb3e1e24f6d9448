// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	reader  client.Reader // not cached, for Secrets
	events  events.EventRecorder
	kind    string
	backOff workqueue.TypedRateLimiter[types.NamespacedName] // of entries whose run failed
	past    pastRuns
	runs    *fairQueue // shared by all kinds
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
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

// Errors that end an entry's steps: queued, or nothing to run.
var (
	errQueued    = errors.New("the run is queued")
	errSuspended = errors.New("runs are stopped by spec.suspend")
)

// reconcile takes the steps of a run, which an error ends, and sums them up.
func (r *entries) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o := entryKinds()[r.kind]
	if err := r.Get(ctx, req.NamespacedName, o); apierrors.IsNotFound(err) {
		r.past.forget(req.NamespacedName)
		r.backOff.Forget(req.NamespacedName)
		return ctrl.Result{}, deleteOrphans(ctx, r, req.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	e := entryOf(o)
	if !e.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, dropPassing(r.removeEntry(ctx, e))
	}
	before := o.DeepCopyObject().(client.Object)
	for _, step := range []func(context.Context, *entry) error{r.checkSpec, r.takeSlot, r.claim, r.holdEntry, r.sync} {
		if err := step(ctx, e); errors.Is(err, errQueued) {
			return ctrl.Result{}, err
		} else if err != nil {
			return r.sumUp(ctx, e, before, err)
		}
	}
	return r.sumUp(ctx, e, before, nil)
}

// dropPassing drops what is no failure: a change wakes the controller anyway.
func dropPassing(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// checkSpec checks that the spec asks for a run. Deletion is not suspended.
func (r *entries) checkSpec(ctx context.Context, e *entry) error {
	if e.err != nil {
		return &verdict.Problem{Reason: v1alpha1.ReasonInvalid, Message: e.err.Error()}
	}
	if e.run.Suspend {
		return cmp.Or(r.holdEntry(ctx, e), errSuspended)
	}
	return nil
}

// takeSlot waits for the origin's limit, the pause, and a slot, else errQueued.
func (r *entries) takeSlot(_ context.Context, e *entry) error {
	if wait := r.past.tooSoon(e, r.Now()); wait > 0 {
		return &soonError{wait}
	}
	if pause := r.runs.pause(e.limitKey(), r.Now()); pause > 0 && e.requestedRun() == e.handledRun() {
		return &limitError{pause}
	}
	name := client.ObjectKeyFromObject(e)
	if !r.runs.acquire(entryKey{r.kind, name}, e.queueName(), e.key, func() { r.queue.Add(reconcile.Request{NamespacedName: name}) }) {
		return errQueued
	}
	return nil
}

// claim checks that the entry holds its address, and names the scanner.
func (r *entries) claim(ctx context.Context, e *entry) (err error) {
	if e.namespace, err = claimAddress(ctx, r, e); err != nil {
		return err
	}
	return e.scanWith(r.Scanner)
}

// sumUp writes what the steps came to, and returns when the next run is due. What a user must
// change waits for that, or for the next run; an origin at its limit, for its pause.
func (r *entries) sumUp(ctx context.Context, e *entry, before client.Object, err error) (ctrl.Result, error) {
	if soon, is := errors.AsType[*soonError](err); is {
		return ctrl.Result{RequeueAfter: soon.wait}, nil
	}
	wait, limited := pauseOf(err)
	_, written := asProblem(err)
	written = written || limited || errors.Is(err, errSuspended)
	if e.ran {
		wait = r.rate(e, err, wait, written)
	}
	switch {
	case errors.Is(err, errSuspended) && meta.IsStatusConditionTrue(e.status.Conditions, v1alpha1.ConditionReady):
		// It stays Ready, of the generation that ran, as Flux's objects do.
	case err != nil:
		e.sayVerdict(r.events, verdictOf(err))
	}
	e.recordSync(before, err, r.Now())
	changed := e.status.ObservedGeneration == e.GetGeneration() && !equality.Semantic.DeepEqual(statusOf(before), statusOf(e.Object))
	if changed {
		before.SetResourceVersion(e.GetResourceVersion()) // the run may have changed the finalizer
		if err := r.Status().Patch(ctx, e.Object, verdict.Since(before)); err != nil {
			return ctrl.Result{RequeueAfter: time.Second}, dropPassing(err)
		}
	}
	if err != nil && !written && wait > 0 && changed { // tries that end the same are in the status alone
		log.FromContext(ctx).Error(err, "a run failed", "again", wait.String())
	}
	if written || wait > 0 {
		err = nil
	}
	return ctrl.Result{RequeueAfter: wait}, err
}

// rate notes a run, and returns when the next is due; pause is the origin's.
func (r *entries) rate(e *entry, err error, pause time.Duration, written bool) time.Duration {
	name := client.ObjectKeyFromObject(e)
	now := r.Now()
	if r.past.note(e, now, err == nil) {
		r.backOff.Forget(name)
	}
	switch {
	case pause > 0:
		r.runs.limitOrigin(e.limitKey(), now.Add(pause))
		return pause
	case err != nil && !written:
		return r.backOff.When(name)
	case err == nil:
		r.runs.limitOrigin(e.limitKey(), time.Time{}) // the origin answered a run requested by a user
		e.status.ObservedGeneration = e.GetGeneration()
	}
	r.backOff.Forget(name)
	return e.untilTurn(now, now)
}

// recordSync notes in the status that a run succeeded, if that is written anyway or was long ago.
func (e *entry) recordSync(before client.Object, err error, now time.Time) {
	if !e.ran || err != nil || e.list == nil {
		return
	}
	if at := e.list.LastSyncTime; at == nil || at.After(now) || now.Sub(at.Time) >= recordPause || !equality.Semantic.DeepEqual(statusOf(before), statusOf(e.Object)) {
		e.list.LastSyncTime = &metav1.Time{Time: now}
	}
}

// holdEntry adds the finalizer before the registry is touched, if deletion does something.
func (r *entries) holdEntry(ctx context.Context, e *entry) error {
	return setFinalizer(ctx, r.Client, e.Object, e.hasWithdrawal())
}

// hasWithdrawal reports whether the deletion policy has something to do.
func (e *entry) hasWithdrawal() bool {
	return e.run.DeletionPolicy == v1alpha1.DeletionYank || e.run.DeletionPolicy == v1alpha1.DeletionDelete
}

func (r *entries) sync(ctx context.Context, e *entry) error {
	e.ran = true
	e.began = r.Now()
	err := problemOf(r.runEngine(ctx, e, e.namespace))
	e.status.LastHandledRequest, e.status.LastHandledReconcileAt = verdict.RequestsOf(e)
	return err
}

// runEngine runs the engine and updates the status and the Versions accordingly.
func (r *entries) runEngine(ctx context.Context, e *entry, ns *metav1.PartialObjectMetadata) error {
	from, err := r.origins(ctx, e, ns)
	if err == nil {
		err = r.awaitTurn(ctx, e)
	}
	if err != nil {
		return err
	}
	s := supply.NewSyncer(r.Depot, supply.SyncOptions{
		Set: &e.set, Origins: func(string) (supply.Origins, error) { return from, nil }, Now: r.Now, Jobs: 1,
		Examined: r.past.examined(e), Used: r.usedVersions(ctx, e), Rejected: rejectedVersions(ctx, r, e),
		Own: &supply.OwnRecord{Owner: string(ns.UID), TakeOver: func(owner string) bool { return r.takesOver(ns, e.item, owner) }},
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
	found, err := r.foundAfter(ctx, e, plan)
	if err == nil {
		found.noteFresh(results)
		found, err = writeVersions(ctx, r, e, found)
	}
	if err != nil || e.list == nil { // a Version has its own status
		return cmp.Or(err, failed)
	}
	found.fillStatus(e.list)
	switch {
	case failed != nil:
	case !hasMatch(plan):
		e.sayVerdict(r.events, addOmitted(e.noMatchVerdict(), plan.Omitted(e.key)))
	default:
		e.sayVerdict(r.events, addOmitted(e.wantedVerdict(found, plan), plan.Omitted(e.key)))
	}
	return failed
}

// awaitTurn lets the first run after a start wait for the entry's turn, so that a start asks no origin
// anew; missed ones are spread over the interval, or an hour. An entry for which there is work to do has its turn.
func (r *entries) awaitTurn(ctx context.Context, e *entry) error {
	if !meta.IsStatusConditionTrue(e.status.Conditions, v1alpha1.ConditionReady) || e.status.ObservedGeneration != e.GetGeneration() ||
		e.requestedRun() != e.handledRun() || !r.past.begin(e) {
		return nil
	}
	versions, err := listVersions(ctx, r, client.ObjectKeyFromObject(e))
	if err != nil {
		return err
	}
	for i := range versions {
		if versions[i].Generation != versions[i].Status.ObservedGeneration {
			return nil
		}
	}
	var approvals v1alpha1.ApprovalList
	if err := r.List(ctx, &approvals, client.InNamespace(e.GetNamespace())); err != nil {
		return err
	}
	if slices.ContainsFunc(approvals.Items, func(a v1alpha1.Approval) bool { return a.Status.Result == "" }) {
		return nil
	}
	interval := e.run.Interval.Length()
	at, known := e.lastSync(r.Now())
	switch {
	case interval == 0:
		return nil
	case !known:
		return &soonError{rand.N(min(interval, time.Hour))}
	}
	return &soonError{e.untilTurn(r.Now(), at)}
}

func (e *entry) sayVerdict(to events.EventRecorder, v verdict.Verdict) {
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
		r.emitEntryEvent(e.Object, kind, reason, strings.Join(versions, ", "))
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

// emitEntryEvent makes an event; the API server counts those that repeat.
func (r *entries) emitEntryEvent(o client.Object, kind, reason, message string) {
	r.events.Eventf(o, nil, kind, reason, "Sync", "%s", text.Clip(message, maxNote))
}

// removeEntry carries out the deletion policy.
func (r *entries) removeEntry(ctx context.Context, e *entry) error {
	if e.status.ObservedGeneration != e.GetGeneration() { // else the status says how the last try ended
		if err := e.sayEnding(ctx, r, r.events, verdict.Verdict{Reason: v1alpha1.ReasonDestroying, Message: "it is being deleted; its versions are handled according to spec.deletionPolicy"}); err != nil {
			return err
		}
	}
	if !controllerutil.ContainsFinalizer(e.Object, v1alpha1.FinalizerRegistry) {
		return nil
	}
	if err := r.withdraw(ctx, e); err != nil {
		return cmp.Or(e.sayEnding(ctx, r, r.events, verdictOf(err)), err)
	}
	return setFinalizer(ctx, r.Client, e.Object, false)
}

// sayEnding writes the verdict on an entry that is being deleted, if it changed.
func (e *entry) sayEnding(ctx context.Context, c client.Client, to events.EventRecorder, v verdict.Verdict) error {
	return verdict.Update(ctx, c, e.Object, func() { e.sayVerdict(to, v) })
}

// withdraw yanks the versions that this entry published, and removes them with the policy
// Delete. An entry that does not hold its address published nothing.
func (r *entries) withdraw(ctx context.Context, e *entry) error {
	if e.err != nil || !e.hasWithdrawal() {
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
	l, err := r.Depot.ReadListing(ctx, e.item)
	if err != nil {
		return err
	}
	return yankRecorded(ctx, r.Depot, e, l, rec.Entries[e.key])
}

// deletedMessage is the message to users of a version whose object was deleted.
const deletedMessage = "the object that published it was deleted"

// yankRecorded yanks the record's versions; with Delete their tags go, where possible.
func yankRecorded(ctx context.Context, d *depot.Depot, e *entry, l *depot.Listing, known map[string]supply.VersionRecord) error {
	untag := e.run.DeletionPolicy == v1alpha1.DeletionDelete
	for _, v := range l.Versions {
		_, ours := known[v.EditionOf().String()]
		// Records may be shared.
		ours = ours && (e.kind != kindVersion || v.EditionOf().String() == e.spec.Versions)
		if !ours || !untag && l.Status(v).Yanked != nil {
			continue
		}
		an := depot.Announcement{Action: evidence.ActionYank, Version: v.String(), Message: deletedMessage, Actor: actorName(e), DeleteTag: untag}
		if _, _, err := d.Announce(ctx, e.item, an); err != nil {
			return err
		}
	}
	return nil
}
