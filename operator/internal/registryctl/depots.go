// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// maxEntries is how many entries the status of a Depot lists.
const maxEntries = 100

// depots creates the Modules and Providers of Depots.
type depots struct {
	client.Client
	events events.EventRecorder
}

func (r *depots) setup(mgr ctrl.Manager) error {
	byLabel := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		name := o.GetLabels()[v1alpha1.LabelDepot]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}}}
	})
	return ctrl.NewControllerManagedBy(mgr).For(&v1alpha1.Depot{}).
		WithOptions(controller.Options{RateLimiter: newRateLimiter()}).
		Watches(&v1alpha1.Module{}, byLabel, builder.WithPredicates(moreThanTime())).
		Watches(&v1alpha1.Provider{}, byLabel, builder.WithPredicates(moreThanTime())).Complete(r)
}

// moreThanTime matches updates of entries that change more than the time of their last run.
func moreThanTime() predicate.Predicate {
	without := func(o client.Object) client.Object {
		o = o.DeepCopyObject().(client.Object)
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
		entryOf(o).list.LastSyncTime = nil
		return o
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(without(e.ObjectOld), without(e.ObjectNew))
	}}
}

// Reconcile brings the entries of a Depot, and its status, up to date.
func (r *depots) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var d v1alpha1.Depot
	err := r.Get(ctx, req.NamespacedName, &d)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, dropPassing(r.releaseAll(ctx, req.NamespacedName))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if !d.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, dropPassing(r.remove(ctx, &d))
	}
	if err := r.holdDepot(ctx, &d); err != nil {
		return ctrl.Result{}, dropPassing(err)
	}
	if wrong := verdict.Update(ctx, r.Client, &d, func() { err = r.applyEntries(ctx, &d) }); wrong != nil {
		return ctrl.Result{RequeueAfter: time.Second}, dropPassing(wrong)
	}
	return ctrl.Result{}, dropPassing(err)
}

// holdDepot keeps a Depot that deletes its entries until they are deleted.
func (r *depots) holdDepot(ctx context.Context, d *v1alpha1.Depot) error {
	return setFinalizer(ctx, r.Client, d, d.Spec.DeletionPolicy == v1alpha1.DeletionDelete)
}

// applyEntries makes, updates and lets go of objects; the first error is returned, others go on.
func (r *depots) applyEntries(ctx context.Context, d *v1alpha1.Depot) error {
	have, err := r.children(ctx, client.ObjectKeyFromObject(d))
	if err != nil {
		return err
	}
	var list []v1alpha1.DepotEntry
	var wrong, behind error // behind: errors because the cache is outdated
	note := func(err error) (failed bool) {
		if dropPassing(err) == nil || apierrors.IsAlreadyExists(err) {
			behind = cmp.Or(behind, err)
			return false
		}
		wrong = cmp.Or(wrong, err)
		return true
	}
	named := map[string]bool{}
	for _, want := range wantedObjects(d) {
		named[childKey(want)] = true
		line, err := r.writeChild(ctx, d, want)
		if note(err) {
			line.Reason = v1alpha1.ReasonFailed
		}
		list = append(list, line)
	}
	for _, o := range have {
		if !named[childKey(o)] {
			note(r.dropChild(ctx, d, o))
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if d.Spec.Suspend && wrong == nil {
		if !meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady) { // else it stays that, of the generation that ran
			d.Status.ObservedGeneration = d.Generation
			verdictOf(errSuspended).Say(r.events, d, &d.Status.Conditions)
		}
		return behind
	}
	v := sumDepot(d, list)
	switch {
	case wrong != nil && v.State == verdict.Ready:
		v = verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonFailed, Message: wrong.Error()}
	case wrong != nil:
		v.Message += "; " + wrong.Error()
	}
	v.Say(r.events, d, &d.Status.Conditions)
	return cmp.Or(wrong, behind)
}

func childKey(o client.Object) string { return entryOf(o).kind + "/" + o.GetName() }

func wantedObjects(d *v1alpha1.Depot) []client.Object {
	defaults := d.Spec.Defaults
	run := v1alpha1.RunSpec{Interval: d.Spec.Interval, Suspend: d.Spec.Suspend, DeletionPolicy: v1alpha1.DeletionKeep}
	var all []client.Object
	for _, m := range d.Spec.Modules {
		m.EntrySpec = withDefaults(m.EntrySpec, defaults)
		m.Policy = cmp.Or(m.Policy, defaults.Policy)
		if m.Ignore == nil {
			m.Ignore = defaults.Ignore
		}
		all = append(all, &v1alpha1.Module{ObjectMeta: childMeta(d, m.Address), Spec: v1alpha1.ModuleSpec{ModuleEntry: m, RunSpec: run}})
	}
	for _, p := range d.Spec.Providers {
		p.EntrySpec = withDefaults(p.EntrySpec, defaults)
		if p.Platforms == nil {
			p.Platforms = defaults.Platforms
		}
		all = append(all, &v1alpha1.Provider{ObjectMeta: childMeta(d, p.Address), Spec: v1alpha1.ProviderSpec{ProviderEntry: p, RunSpec: run}})
	}
	return all
}

func withDefaults(e v1alpha1.EntrySpec, d v1alpha1.DepotDefaults) v1alpha1.EntrySpec {
	e.Auth = cmp.Or(e.Auth, d.Auth)
	e.Limit = cmp.Or(e.Limit, d.Limit)
	e.Keep = cmp.Or(e.Keep, d.Keep)
	e.Scan = cmp.Or(e.Scan, d.Scan)
	e.Approval = cmp.Or(e.Approval, d.Approval)
	return e
}

// childMeta names the object of an entry after its address: net/vpc/aws is net.vpc.aws.
func childMeta(d *v1alpha1.Depot, address string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: d.Namespace, Name: objectName(strings.ReplaceAll(address, "/", ".")),
		Labels: map[string]string{v1alpha1.LabelManaged: "", v1alpha1.LabelDepot: d.Name, v1alpha1.LabelUID: string(d.UID)},
	}
	for _, key := range []string{v1alpha1.AnnotationRequest, fluxmeta.ReconcileRequestAnnotation} {
		if request := d.Annotations[key]; request != "" {
			metav1.SetMetaDataAnnotation(&m, key, request)
		}
	}
	return m
}

func (r *depots) writeChild(ctx context.Context, d *v1alpha1.Depot, want client.Object) (v1alpha1.DepotEntry, error) {
	line := v1alpha1.DepotEntry{Kind: entryOf(want).kind, Address: entryAddress(want), Name: want.GetName(), Reason: v1alpha1.ReasonRunning}
	is := want.DeepCopyObject().(client.Object)
	err := r.Get(ctx, client.ObjectKeyFromObject(want), is)
	if apierrors.IsNotFound(err) {
		return line, r.Create(ctx, want)
	}
	if err != nil {
		return line, err
	}
	if !(isMade(is) && is.GetLabels()[v1alpha1.LabelDepot] == d.Name) && !releasedBy(is, d.Name) {
		line.Reason = v1alpha1.ReasonNameTaken
		return line, nil
	}
	before := is.DeepCopyObject().(client.Object)
	if alignObject(is, want); !equality.Semantic.DeepEqual(before, is) {
		return line, r.Patch(ctx, is, verdict.Since(before))
	}
	s := entryOf(is).list
	line.Latest = s.Latest
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); c != nil && c.ObservedGeneration == is.GetGeneration() {
		line.Reason = ""
		if c.Status != metav1.ConditionTrue {
			line.Reason = c.Reason
		}
	}
	return line, nil
}

func entryAddress(o client.Object) string {
	switch o := o.(type) {
	case *v1alpha1.Module:
		return o.Spec.Address
	case *v1alpha1.Provider:
		return o.Spec.Address
	}
	return ""
}

// alignObject gives an object its entry's labels and spec, but the number of Versions.
func alignObject(is, want client.Object) {
	switch is := is.(type) {
	case *v1alpha1.Module:
		objects := is.Spec.VersionObjects
		is.Spec = want.(*v1alpha1.Module).Spec
		is.Spec.VersionObjects = objects
	case *v1alpha1.Provider:
		objects := is.Spec.VersionObjects
		is.Spec = want.(*v1alpha1.Provider).Spec
		is.Spec.VersionObjects = objects
	}
	is.SetLabels(labels.Merge(is.GetLabels(), want.GetLabels()))
	is.SetAnnotations(labels.Merge(is.GetAnnotations(), want.GetAnnotations()))
	delete(is.GetAnnotations(), v1alpha1.AnnotationReleased)
}

// children lists the objects that were created for a Depot.
func (r *depots) children(ctx context.Context, depot client.ObjectKey) ([]client.Object, error) {
	var all []client.Object
	for _, list := range []client.ObjectList{&v1alpha1.ModuleList{}, &v1alpha1.ProviderList{}} {
		if err := r.List(ctx, list, client.InNamespace(depot.Namespace), client.MatchingLabels{v1alpha1.LabelManaged: "", v1alpha1.LabelDepot: depot.Name}); err != nil {
			return nil, err
		}
		all = append(all, itemsOf(list)...)
	}
	return all, nil
}

// dropChild deletes an object that is no longer an entry, or releases it to its users.
func (r *depots) dropChild(ctx context.Context, d *v1alpha1.Depot, o client.Object) error {
	if d.Spec.DeletionPolicy == v1alpha1.DeletionDelete {
		uid := o.GetUID()
		return client.IgnoreNotFound(r.Delete(ctx, o, client.Preconditions{UID: &uid}))
	}
	return r.release(ctx, d.Name, o)
}

// release makes an object independent of its Depot, which takes it back with such an entry.
func (r *depots) release(ctx context.Context, depot string, o client.Object) error {
	before := o.DeepCopyObject().(client.Object)
	for _, label := range []string{v1alpha1.LabelManaged, v1alpha1.LabelDepot, v1alpha1.LabelUID} {
		delete(o.GetLabels(), label)
	}
	o.SetAnnotations(labels.Merge(o.GetAnnotations(), map[string]string{v1alpha1.AnnotationReleased: depot}))
	return client.IgnoreNotFound(r.Patch(ctx, o, verdict.Since(before)))
}

// releasedBy reports whether a Depot released an object that no Depot has taken since.
func releasedBy(o client.Object, depot string) bool {
	return !isMade(o) && o.GetAnnotations()[v1alpha1.AnnotationReleased] == depot
}

func (r *depots) releaseAll(ctx context.Context, depot client.ObjectKey) error {
	have, err := r.children(ctx, depot)
	if err != nil {
		return err
	}
	for _, o := range have {
		if err := r.release(ctx, depot.Name, o); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the objects of a Depot, and drops its finalizer once they are gone.
func (r *depots) remove(ctx context.Context, d *v1alpha1.Depot) error {
	if err := verdict.Update(ctx, r.Client, d, func() {
		if d.Status.ObservedGeneration != d.Generation {
			d.Status.ObservedGeneration = d.Generation
			verdict.Verdict{Reason: v1alpha1.ReasonDestroying, Message: "it is being deleted; its entries are handled according to spec.deletionPolicy"}.Say(r.events, d, &d.Status.Conditions)
		}
	}); err != nil {
		return err
	}
	if !controllerutil.ContainsFinalizer(d, v1alpha1.FinalizerRegistry) {
		return nil
	}
	have, err := r.children(ctx, client.ObjectKeyFromObject(d))
	if err != nil {
		return err
	}
	for _, o := range have {
		if err := r.dropChild(ctx, d, o); err != nil {
			return err
		}
	}
	if len(have) > 0 {
		return nil // the deletion of the last one wakes this controller
	}
	return setFinalizer(ctx, r.Client, d, false)
}

func sumDepot(d *v1alpha1.Depot, list []v1alpha1.DepotEntry) verdict.Verdict {
	s := &d.Status
	s.ObservedGeneration = d.Generation
	s.LastHandledRequest, s.LastHandledReconcileAt = verdict.RequestsOf(d)
	s.Modules = int32(len(d.Spec.Modules))
	s.Providers = int32(len(d.Spec.Providers))
	s.Failed = 0
	state := verdict.UnderWay
	for _, line := range list {
		if line.Reason != "" {
			s.Failed++
		}
		switch {
		case line.Reason == v1alpha1.ReasonNameTaken:
			state = verdict.Stalled
		case isFailure(line.Reason) && state != verdict.Stalled:
			state = verdict.Failing
		}
	}
	slices.SortStableFunc(list, func(a, b v1alpha1.DepotEntry) int {
		failed := func(e v1alpha1.DepotEntry) int {
			switch {
			case isFailure(e.Reason):
				return 0
			case e.Reason != "":
				return 1
			}
			return 2
		}
		return cmp.Or(cmp.Compare(failed(a), failed(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	s.Truncated = len(list) > maxEntries
	s.Entries = list[:min(len(list), maxEntries)]
	if s.Failed == 0 {
		return verdict.Verdict{State: verdict.Ready, Reason: v1alpha1.ReasonSynced, Message: "all entries are Ready"}
	}
	v := verdict.Verdict{State: state, Reason: v1alpha1.ReasonEntriesFailed, Message: fmt.Sprintf("%d of %d entries are not Ready: %s %s is %s", s.Failed, len(list), list[0].Kind, list[0].Name, list[0].Reason)}
	if list[0].Reason == v1alpha1.ReasonNameTaken {
		v.Message += ", because it is not of this Depot: delete it, or its entry in the other Depot, and this one makes its own"
	}
	if state == verdict.UnderWay {
		v.Reason = v1alpha1.ReasonRunning
	}
	return v
}

// isFailure reports whether a reason is one that a user may want to look into.
func isFailure(reason string) bool {
	return !slices.Contains([]string{"", v1alpha1.ReasonRunning, v1alpha1.ReasonSuspended, v1alpha1.ReasonDestroying}, reason)
}
