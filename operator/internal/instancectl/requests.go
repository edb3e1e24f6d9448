// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// requests applies the requests of objects to a document.
type requests struct {
	catalog *Catalog
	machine *lifecycle.Machine
	now     time.Time
	doc     *lifecycle.Document
}

func (k *requests) changingUser(o *v1alpha1.Instance) lifecycle.Actor {
	return k.catalog.settings.Users.actorNamed(cmp.Or(o.Spec.ChangedBy, o.Spec.CreatedBy))
}

// applyEvent applies one event; a refused event leaves the document unchanged.
func (k *requests) applyEvent(a lifecycle.Actor, e lifecycle.Event) error {
	d, _, _, err := k.machine.Step(k.doc, lifecycle.Command{Event: e, Actor: a, Seed: randomSeed()}, k.now)
	if err == nil {
		k.doc = d
	}
	return err
}

// applyRequests applies what is new in an Instance compared with its status, and returns its new
// Handled, or nil. An Instance whose template is not ready yet waits.
func (k *requests) applyRequests(o *v1alpha1.Instance) *v1alpha1.Handled {
	r := k.doc.Records[o.Status.ID]
	handled := requestedNow(o)
	switch {
	case r == nil && o.DeletionTimestamp != nil:
		return nil
	case r == nil && o.Spec.Owner == nil && isManaged(o):
		return nil // a member that was created and never recorded
	case r == nil || o.Spec.Owner != nil && isUnclaimed(r):
		return k.launch(o, r, handled)
	case o.DeletionTimestamp == nil && r.IsRefusedLaunch():
		return k.launchAgain(o, r, handled)
	case o.DeletionTimestamp != nil:
		k.endInstance(r)
		return k.applyLast(o, r, handled)
	}
	return k.applyChanges(o, r, handled)
}

// isUnclaimed reports whether a record has no owner and can get one.
func isUnclaimed(r *lifecycle.Record) bool {
	goes := r.Phase == lifecycle.Destroying || r.Phase == lifecycle.DestroyFailed
	return r.Owner.ID == "" && r.Phase.Live() && !goes
}

func isManaged(o *v1alpha1.Instance) bool { _, ok := o.Labels[v1alpha1.LabelManaged]; return ok }

func requestedNow(o *v1alpha1.Instance) *v1alpha1.Handled {
	return &v1alpha1.Handled{
		Name: o.Spec.Name, Protected: o.Spec.Protected, ExpiresAt: o.Spec.ExpiresAt, Inputs: inputsDigest(o),
		Request: o.Annotations[v1alpha1.AnnotationRequest], Cancel: o.Annotations[v1alpha1.AnnotationCancel],
	}
}

// launch judges an Instance that a user created or claimed.
func (k *requests) launch(o *v1alpha1.Instance, r *lifecycle.Record, handled *v1alpha1.Handled) *v1alpha1.Handled {
	e, ok := k.catalog.Current(o.Spec.Template)
	switch {
	case ok && e.Unseen && r == nil:
		return nil // until the operator has read the template
	case ok && e.Digest != "" && e.Problem != "" && r == nil:
		return recordRefused(o, fmt.Sprintf("Template %s: %s", objectName(o.Spec.Template), e.Problem))
	case o.Spec.Owner == nil:
		return recordRefused(o, "set owner and createdBy: only the operator creates members of a pool")
	case !ok || e.Digest == "":
		return recordRefused(o, "Template "+objectName(o.Spec.Template)+" not found or not ready")
	}
	launch := lifecycle.Launch{ID: o.Status.ID, Of: o.Spec.Template, Create: lifecycle.Create{Owner: k.catalog.settings.Users.owner(o), Name: o.Spec.Name}}
	launch.Refused = k.fillLaunch(&launch.Create, e, o, r)
	if err := k.applyEvent(k.catalog.settings.Users.actorNamed(o.Spec.CreatedBy), launch); err != nil {
		handled.Refused = err.Error()
	}
	// What is set from the start is part of the launch, except for these fields.
	if o.Spec.Protected || o.Spec.ExpiresAt != nil {
		first := *handled
		first.Protected = false
		first.ExpiresAt = nil
		o = o.DeepCopy()
		o.Status.Handled = &first
		if r := k.doc.Records[o.Status.ID]; r != nil && r.Phase.Live() {
			if more := k.applyChanges(o, r, handled); more != nil {
				return more
			}
		}
	}
	return handled
}

// launchAgain judges a refused Instance anew if its spec, or room in a limit, changed; else nil.
func (k *requests) launchAgain(o *v1alpha1.Instance, had *lifecycle.Record, handled *v1alpha1.Handled) *v1alpha1.Handled {
	if e, ok := k.catalog.Current(o.Spec.Template); !ok || e.Problem != "" {
		return nil
	}
	before := k.doc
	next := k.launch(o, nil, handled)
	if r := k.doc.Records[o.Status.ID]; r.Phase == lifecycle.Rejected && r.Reason == had.Reason && o.Status.ObservedGeneration == o.Generation {
		k.doc = before
		return nil
	}
	return next
}

// recordRefused records why an Instance is not launched yet; nil: that is recorded already.
func recordRefused(o *v1alpha1.Instance, why string) *v1alpha1.Handled {
	if had := o.Status.Handled; had != nil && had.Refused == why {
		return nil
	}
	return &v1alpha1.Handled{Refused: why}
}

// fillLaunch completes the event of a launch, and returns why it must be refused, or "".
func (k *requests) fillLaunch(c *lifecycle.Create, e *template.Entry, o *v1alpha1.Instance, r *lifecycle.Record) (refused string) {
	c.Template = e.Template
	c.Digest = e.Digest
	c.Source = e.Source
	c.TTL, _ = time.ParseDuration(string(o.Spec.TTL))
	for name, value := range o.Spec.Claims {
		if c.Claims == nil {
			c.Claims = map[string]string{}
		}
		c.Claims[name] = string(value)
	}
	if r != nil { // a member of a pool keeps its version
		c.Source = r.Source
		return ""
	}
	if v := o.Spec.Version; v != "" && v != e.Source.Version {
		pinned, err := k.catalog.Pin(context.Background(), o.Spec.Template, v)
		if err != nil {
			return err.Error()
		}
		c.Source = pinned.Source
	}
	parameters, err := e.Schema.CheckParameters(rawValues(o.Spec.Parameters))
	if err != nil {
		return err.Error()
	}
	c.Parameters = parameters
	return ""
}

// endInstance destroys a deleted object's instance, protected or not.
func (k *requests) endInstance(r *lifecycle.Record) {
	if !r.Phase.Live() || r.Phase == lifecycle.Destroying || r.Phase == lifecycle.DestroyFailed {
		return
	}
	admin := lifecycle.Actor{Admin: true}
	if r.Protected != "" {
		_ = k.applyEvent(admin, lifecycle.Protect{ID: r.ID}) // a refusal changes nothing
	}
	_ = k.applyEvent(admin, lifecycle.DestroyNow{ID: r.ID})
}

// refusedMark begins the digest of inputs that were refused alone. They are judged again: the
// Template may accept them later.
const refusedMark = "!"

func (k *requests) applyChanges(o *v1alpha1.Instance, r *lifecycle.Record, handled *v1alpha1.Handled) *v1alpha1.Handled {
	had := o.Status.Handled
	if had == nil {
		had = &v1alpha1.Handled{}
	}
	var errs []error
	do := func(new bool, a lifecycle.Actor, e lifecycle.Event) {
		if new {
			errs = append(errs, k.applyEvent(a, e))
		}
	}
	who := k.changingUser(o)
	do(had.Name != handled.Name, who, lifecycle.Rename{ID: r.ID, Name: handled.Name})
	do(had.Protected != handled.Protected, who, lifecycle.Protect{ID: r.ID, On: handled.Protected})
	if !had.ExpiresAt.Equal(handled.ExpiresAt) && handled.ExpiresAt != nil {
		errs = append(errs, k.extend(r, who, handled.ExpiresAt.Time))
	}
	spec := errors.Join(errs...)
	refused := refusedMark + handled.Inputs
	if had.Inputs != handled.Inputs {
		err := k.update(o, r, who)
		if err != nil && spec == nil {
			handled.Inputs = refused
		}
		errs = append(errs, err)
		spec = errors.Join(spec, err)
	}
	do(had.Request != handled.Request, who, lifecycle.Retry{ID: r.ID})
	asked := requestsChange(k.doc.Records[r.ID])
	do(had.Cancel != handled.Cancel, who, lifecycle.Cancel{ID: r.ID})
	withdrawn := asked && !requestsChange(k.doc.Records[r.ID])
	do(isAbandoned(o, r), lifecycle.Actor{Admin: true}, orphanEvent(r))
	handled.Refused = had.Refused
	handled.RefusedGeneration = had.RefusedGeneration
	if spec == nil && equality.Semantic.DeepEqual(had, handled) {
		return nil
	}
	switch {
	case spec == nil && withdrawn:
		handled.Refused = "it was withdrawn"
		handled.RefusedGeneration = o.Generation
		return handled
	case spec != nil:
		handled.RefusedGeneration = o.Generation
	case had.RefusedGeneration == o.Generation && had.Inputs != refused:
		return handled // other requests do not lift the refusal
	default:
		handled.RefusedGeneration = 0
	}
	handled.Refused = ""
	if err := errors.Join(errs...); err != nil {
		handled.Refused = err.Error()
	}
	return handled
}

// applyLast applies what an Instance that ends may still ask: to abandon, or to retry.
func (k *requests) applyLast(o *v1alpha1.Instance, r *lifecycle.Record, handled *v1alpha1.Handled) *v1alpha1.Handled {
	if isAbandoned(o, r) {
		_ = k.applyEvent(lifecycle.Actor{Admin: true}, orphanEvent(r)) // refused while it is being destroyed
	}
	var next v1alpha1.Handled
	if o.Status.Handled != nil {
		next = *o.Status.Handled
	}
	if next.Request == handled.Request {
		return nil
	}
	next.Request = handled.Request
	next.Refused = ""
	if err := k.applyEvent(k.changingUser(o), lifecycle.Retry{ID: r.ID}); err != nil {
		next.Refused = err.Error()
	}
	return &next
}

// isAbandoned reports whether an annotation with the Instance's name abandons it.
func isAbandoned(o *v1alpha1.Instance, r *lifecycle.Record) bool {
	return o.Annotations[v1alpha1.AnnotationAbandon] == o.Name && r.Phase.Live()
}

func orphanEvent(r *lifecycle.Record) lifecycle.Orphan {
	return lifecycle.Orphan{ID: r.ID, Reason: "abandoned"}
}

// extend postpones the expiry to a time, or as far as the template allows.
func (k *requests) extend(r *lifecycle.Record, who lifecycle.Actor, until time.Time) error {
	from := r.ExpiresAt
	if from.Before(k.now) {
		from = k.now
	}
	by := until.Sub(from.Truncate(time.Second)).Round(time.Second) // objects have whole seconds
	if by <= 0 {
		return fmt.Errorf("%s is before its current expiry: delete the Instance to end it now", until.Format(time.RFC3339))
	}
	if t := k.doc.Templates[r.Snapshot]; t != nil && t.TTL != nil && by > t.TTL.Extend {
		by = 0 // as far as the template allows
	}
	return k.applyEvent(who, lifecycle.Extend{ID: r.ID, By: by})
}

// update runs an instance with other values or another version.
func (k *requests) update(o *v1alpha1.Instance, r *lifecycle.Record, who lifecycle.Actor) error {
	e, ok := k.catalog.Current(r.Template)
	if !ok || e.Problem != "" {
		return fmt.Errorf("%w: its Template cannot be launched now, so nothing can be updated", lifecycle.ErrPhase)
	}
	parameters, err := e.Schema.CheckUpdate(r.Parameters, r.WantedParameters(), rawValues(o.Spec.Parameters), !r.ReadyAt.IsZero())
	if err != nil {
		return err
	}
	event := lifecycle.Update{ID: r.ID, Parameters: parameters}
	if v := o.Spec.Version; v != "" && v != r.Source.Version {
		if e, err = k.catalog.Pin(context.Background(), r.Template, v); err != nil {
			return err
		}
		event.Source = &e.Source
		event.Template = e.Template
		event.Digest = e.Digest
	}
	return k.applyEvent(who, event)
}

// applyAllRequests applies requests in order, and returns new Handled by ID.
func (k *requests) applyAllRequests(objects []v1alpha1.Instance) map[string]*v1alpha1.Handled {
	news := map[string]*v1alpha1.Handled{}
	for i := range objects {
		if h := k.applyRequests(&objects[i]); h != nil {
			news[objects[i].Status.ID] = h
		}
	}
	return news
}

// buildDocument builds the document from statuses; unreadable records are errors by ID.
func buildDocument(objects []v1alpha1.Instance, pools map[string]*lifecycle.Pool, clock lifecycle.Clock) (*lifecycle.Document, map[string]error) {
	d := &lifecycle.Document{
		Version: 1, Templates: map[string]*template.Template{}, Records: map[string]*lifecycle.Record{}, Pools: maps.Clone(pools),
		Requests: map[string]*lifecycle.Request{}, Clock: clock,
	}
	if d.Pools == nil {
		d.Pools = map[string]*lifecycle.Pool{}
	}
	broken := map[string]error{}
	for i := range objects {
		o := &objects[i]
		r, snapshots, err := recordIn(o)
		if err != nil {
			broken[o.Status.ID] = err
			continue
		}
		if r != nil {
			d.Records[o.Status.ID] = r
			maps.Copy(d.Templates, snapshots)
		}
	}
	for _, v := range lifecycle.Check(d) {
		if d.Records[v.ID] != nil && !slices.Contains([]string{"limits", "end"}, v.Rule) {
			broken[v.ID] = fmt.Errorf("Instance %s: its record is invalid: %s %s", v.ID, v.Rule, v.Text)
			delete(d.Records, v.ID)
		}
	}
	return d, broken
}
