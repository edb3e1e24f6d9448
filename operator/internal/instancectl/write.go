// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// maxNote bounds the text of an event, in bytes.
const maxNote = 1000

// writeResults stores results by resourceVersion, and reports changes. What others changed is for
// the next reconcile; what failed has a pause of its own.
func (p *reconciliation) writeResults(ctx context.Context) (changed bool) {
	for i := range p.objects {
		o := &p.objects[i]
		changed = p.writeKept(ctx, o.UID, o, func() (bool, error) { return p.writeOne(ctx, o) }) || changed
	}
	for id, r := range p.requests.doc.Records {
		if p.byID[id] == nil {
			changed = p.writeKept(ctx, types.UID(id), p.templateOf(r), func() (bool, error) { return p.createMember(ctx, r) }) || changed
		}
	}
	for i := range p.approvals {
		a := &p.approvals[i]
		changed = p.writeKept(ctx, a.UID, a, func() (bool, error) { return p.writeApproval(ctx, a) }) || changed
	}
	for i := range p.templates {
		o := &p.templates[i]
		p.writeKept(ctx, o.UID, o, func() (bool, error) { return false, p.writePool(ctx, o) })
	}
	return changed
}

// writeKept writes unless paused, and reports a change; conflicts are for the next reconcile.
func (p *reconciliation) writeKept(ctx context.Context, key types.UID, o client.Object, write func() (bool, error)) bool {
	if p.c.retries.IsInBackOffSinceUpdate(string(key), time.Now()) {
		p.retryIn(key)
		return false
	}
	wrote, err := write()
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err):
		p.again = true
		return false
	case ctx.Err() != nil:
		return false
	case err != nil:
		p.reportFailed(key, o, err)
		return false
	}
	p.c.retries.DeleteEntry(string(key))
	return wrote
}

// reportFailed reports an error of an object, which is tried again after a pause.
func (p *reconciliation) reportFailed(key types.UID, o client.Object, err error) {
	p.c.retries.Next(string(key), time.Now())
	p.retryIn(key)
	p.c.events.Eventf(o, nil, "Warning", v1alpha1.ReasonFailed, "Keep", "%s", text.Clip(err.Error(), maxNote))
}

// retryIn makes the next reconcile come no later than the next try of an object.
func (p *reconciliation) retryIn(key types.UID) {
	if wait := p.c.retries.Get(string(key)); p.retry == 0 || wait < p.retry {
		p.retry = wait
	}
}

// templateOf returns the Template of a record, for events; only its name if it is missing.
func (p *reconciliation) templateOf(r *lifecycle.Record) client.Object {
	for i := range p.templates {
		if templateName(p.templates[i].Name) == r.Template {
			return &p.templates[i]
		}
	}
	return &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: p.c.Namespace, Name: objectName(r.Template)}}
}

func (p *reconciliation) writeOne(ctx context.Context, o *v1alpha1.Instance) (bool, error) {
	r := p.requests.doc.Records[o.Status.ID]
	had := p.before.Records[o.Status.ID]
	switch {
	case p.broken[o.Status.ID] != nil: // it is not changed
		return false, p.writeStuck(ctx, o, verdict.Verdict{State: verdict.Stalled, Reason: v1alpha1.ReasonInvalid, Message: p.broken[o.Status.ID].Error()})
	case r == nil && had == nil:
		return p.writeUnrecorded(ctx, o)
	case r == nil, had != nil && (had.Phase == lifecycle.Destroyed || had.Phase == lifecycle.Orphaned), had != nil && had.Phase == lifecycle.Rejected && o.DeletionTimestamp != nil:
		if had != nil && r != nil && had.Kept && o.DeletionTimestamp == nil {
			return false, nil // orphaned by its expiry: an administrator removes it
		}
		p.active = true
		return p.finish(ctx, o, had)
	}
	if !controllerutil.ContainsFinalizer(o, v1alpha1.FinalizerRun) && o.DeletionTimestamp == nil {
		if err := p.addFinalizer(ctx, o); err != nil {
			return false, err
		}
	}
	return p.keepStatus(ctx, o, r)
}

// addFinalizer adds the finalizer before anything is created outside.
func (p *reconciliation) addFinalizer(ctx context.Context, o *v1alpha1.Instance) error {
	before := o.DeepCopy()
	controllerutil.AddFinalizer(o, v1alpha1.FinalizerRun)
	if err := p.c.client.Patch(ctx, o, verdict.Since(before)); err != nil {
		return err
	}
	o.Status = before.Status
	p.c.overlay.rememberWrite(o)
	return nil
}

// keepStatus writes a changed status; the next reconcile saves its record first.
func (p *reconciliation) keepStatus(ctx context.Context, o *v1alpha1.Instance, r *lifecycle.Record) (bool, error) {
	next := o.DeepCopy()
	next.Status.ObservedGeneration = o.Generation
	next.Status.UID = v1alpha1.UIDOf(o)
	if h := p.news[o.Status.ID]; h != nil {
		next.Status.Handled = h
	}
	if r.Applied || r.Run != nil {
		next.Status.Namespace = workspaceName(r)
	}
	if r != p.before.Records[o.Status.ID] || o.Status.Record == nil || p.restored[o.UID] {
		s, err := statusFor(next, p.requests.doc, r)
		if err != nil {
			return false, err
		}
		next.Status = s
	}
	v := verdictOf(next, next.Status.Handled, r)
	v.Set(&next.Status.Conditions, o.Generation)
	next.Status.Phase = shownPhase(phaseOf(r.Phase), v)
	if equality.Semantic.DeepEqual(o.Status, next.Status) && !p.restored[o.UID] {
		return false, nil
	}
	v.Report(p.c.events, o, o.Status.Conditions)
	return true, p.putStatus(ctx, o, next)
}

func (p *reconciliation) putStatus(ctx context.Context, before, o *v1alpha1.Instance) error {
	before = before.DeepCopy()
	before.Status.ID = ""  // the stored status may have none
	if p.restored[o.UID] { // what was restored is in no status
		before.Status = v1alpha1.InstanceStatus{}
	}
	if err := p.c.client.Status().Patch(ctx, o, verdict.Exact(before)); err != nil {
		if apierrors.IsNotFound(err) {
			p.c.overlay.forgetObject(o.UID)
		}
		return err
	}
	p.c.overlay.rememberWrite(o)
	return nil
}

// writeUnrecorded writes why an Instance is not launched; a pool's member is deleted instead.
func (p *reconciliation) writeUnrecorded(ctx context.Context, o *v1alpha1.Instance) (bool, error) {
	if o.DeletionTimestamp != nil || o.Spec.Owner == nil && isManaged(o) {
		return true, p.removeObject(ctx, o)
	}
	h := p.news[o.Status.ID]
	if h == nil {
		return false, nil
	}
	next := o.DeepCopy()
	next.Status.Handled = h
	next.Status.ObservedGeneration = o.Generation
	verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonRefused, Message: h.Refused}.Say(p.c.events, o, &next.Status.Conditions)
	return true, p.putStatus(ctx, o, next)
}

// finish removes what is left of an ended instance, then its object.
func (p *reconciliation) finish(ctx context.Context, o *v1alpha1.Instance, had *lifecycle.Record) (bool, error) {
	if had != nil && had.Phase != lifecycle.Rejected {
		gone, err := p.emptyInstance(ctx, o, had)
		if err != nil {
			return false, errors.Join(err, p.writeStuck(ctx, o, verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonFailed, Message: err.Error()}))
		}
		if !gone {
			return false, p.writeStuck(ctx, o, verdict.Verdict{Reason: v1alpha1.ReasonDestroying, Message: "waiting for what is in namespace " + clusterOf(o, had).Namespace + " to go"})
		}
	}
	return true, p.removeObject(ctx, o)
}

// writeStuck writes to the status why an Instance does not go on.
func (p *reconciliation) writeStuck(ctx context.Context, o *v1alpha1.Instance, why verdict.Verdict) error {
	next := o.DeepCopy()
	next.Status.ObservedGeneration = o.Generation
	why.Say(p.c.events, o, &next.Status.Conditions)
	next.Status.Phase = shownPhase(o.Status.Phase, why)
	if equality.Semantic.DeepEqual(o.Status, next.Status) {
		return nil
	}
	return p.putStatus(ctx, o, next)
}

// emptyInstance removes what is left of an instance in the cluster, and reports whether all is
// gone. What only a plan made is deleted; what users keep is no longer managed.
func (p *reconciliation) emptyInstance(ctx context.Context, o *v1alpha1.Instance, r *lifecycle.Record) (bool, error) {
	a := run.Attempt{Ref: lifecycle.Ref{ID: r.ID, Kind: lifecycle.RunDestroy, N: len(r.Runs)}, Source: r.Source, Cluster: clusterOf(o, r)}
	if t := p.before.Templates[r.Snapshot]; t != nil {
		a.Credentials = t.Credentials
		a.Outputs = t.Outputs
		a.Limits.Timeout = t.Timeout
	}
	if done, err := p.c.Executor.Release(ctx, a); err != nil || !done {
		return false, err
	}
	if r.Phase == lifecycle.Orphaned && r.Source.Chart != "" { // the namespace holds what the chart installed
		return true, p.c.orphanWorkspace(ctx, o, a.Namespace)
	}
	return fluxobj.DeleteNamespace(ctx, p.c.live, a.Namespace, types.UID(a.UID))
}

func (p *reconciliation) removeObject(ctx context.Context, o *v1alpha1.Instance) error {
	version := o.ResourceVersion
	if o.DeletionTimestamp == nil {
		if err := p.c.client.Delete(ctx, o, client.Preconditions{UID: &o.UID, ResourceVersion: &version}); err != nil {
			return err
		}
		if err := p.c.live.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			p.c.overlay.forgetObject(o.UID)
			return client.IgnoreNotFound(err)
		}
	}
	if err := p.c.records.Remove(ctx, recordOf(o), v1alpha1.UIDOf(o)); err != nil {
		return err
	}
	before := o.DeepCopy()
	if controllerutil.RemoveFinalizer(o, v1alpha1.FinalizerRun) {
		if err := p.c.client.Patch(ctx, o, verdict.Since(before)); err != nil {
			return err
		}
	}
	p.c.overlay.forgetObject(o.UID)
	return nil
}

// createMember creates the object of a new member of a pool, then writes its record.
func (p *reconciliation) createMember(ctx context.Context, r *lifecycle.Record) (bool, error) {
	o := &v1alpha1.Instance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.c.Namespace, Name: r.ID, Labels: map[string]string{v1alpha1.LabelManaged: ""}, Finalizers: []string{v1alpha1.FinalizerRun},
		},
		Spec: v1alpha1.InstanceSpec{Template: r.Template, Version: r.Source.Version},
	}
	if err := p.c.client.Create(ctx, o); err != nil {
		return false, fmt.Errorf("a member of the pool of %s: %w", r.Template, err)
	}
	p.c.overlay.rememberWrite(o)
	o.Status.ID = r.ID
	p.news[r.ID] = requestedNow(o)
	return p.keepStatus(ctx, o, r)
}

func (p *reconciliation) writePool(ctx context.Context, o *v1alpha1.Template) error {
	want := p.poolStatus(o)
	if equality.Semantic.DeepEqual(o.Status.Pool, want) {
		return nil
	}
	next := o.DeepCopy()
	next.Status.Pool = want
	return p.c.client.Status().Patch(ctx, next, client.MergeFrom(o))
}

func (p *reconciliation) poolStatus(o *v1alpha1.Template) *v1alpha1.PoolStatus {
	name := templateName(o.Name)
	pool := p.requests.doc.Pools[name]
	if o.Spec.Pool == nil && pool == nil {
		return nil
	}
	s := &v1alpha1.PoolStatus{}
	for _, r := range p.requests.doc.Records {
		switch {
		case r.Template != name || !r.Pooled || !r.Phase.Live():
		case r.Owner.ID != "":
			s.Claimed++
		case r.Phase == lifecycle.Available:
			s.Available++
		case slices.Contains([]lifecycle.Phase{lifecycle.Provisioning, lifecycle.Updating}, r.Phase):
			s.Coming++
		}
	}
	if pool != nil {
		s.Paused = pool.Paused
		s.Failures = int32(pool.Failures) //nolint:gosec // a few
		s.Backoff = timeOf(pool.Backoff)
		s.Revision = pool.Revision
	}
	return s
}

// workspaceName is an instance's namespace: the template's name, and the id.
func workspaceName(r *lifecycle.Record) string {
	_, name, _ := strings.Cut(r.Template, "/")
	return name + "-" + r.ID
}

func ownerLabel(o template.Owner) string {
	if o.ID == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", o.Kind, o.Issuer, o.ID))
	return hex.EncodeToString(sum[:16])
}

// checkUntaken checks that the namespace is no other's. It makes none: there is nothing to destroy.
func (c *Controller) checkUntaken(ctx context.Context, name string, uid types.UID) error {
	ns := &corev1.Namespace{}
	err := c.live.Get(ctx, client.ObjectKey{Name: name}, ns)
	if err == nil && !fluxobj.Ours(ns, uid) {
		return &fluxobj.TakenError{Kind: "Namespace", Key: client.ObjectKey{Name: name}}
	}
	return client.IgnoreNotFound(err)
}

// orphanWorkspace removes the labels that tie the namespace to the instance.
func (c *Controller) orphanWorkspace(ctx context.Context, o *v1alpha1.Instance, name string) error {
	ns := &corev1.Namespace{}
	if err := c.live.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil || !fluxobj.Ours(ns, v1alpha1.UIDOf(o)) {
		return client.IgnoreNotFound(err)
	}
	before := ns.DeepCopy()
	for _, label := range []string{v1alpha1.LabelRuns, v1alpha1.LabelManaged, v1alpha1.LabelUID} {
		delete(ns.Labels, label)
	}
	return client.IgnoreNotFound(c.live.Patch(ctx, ns, verdict.Since(before)))
}

func workspaceLabels(r *lifecycle.Record) map[string]string {
	return map[string]string{
		v1alpha1.LabelRuns: "", v1alpha1.LabelOwner: ownerLabel(r.Owner), v1alpha1.LabelTemplate: objectName(r.Template),
		v1alpha1.LabelInstance: r.ID, v1alpha1.LabelPooled: strconv.FormatBool(r.Pooled),
	}
}
