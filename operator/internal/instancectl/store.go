// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// Store is the store of the portal of a cluster: it reads objects from a cache and writes
// them one at a time. The operator decides what becomes of them; the portal asks the same
// machine beforehand, so that users get the answer at once.
//
// Errors are those of [lifecycle.Machine.Step]; lifecycle.ErrNoLeader if it is not known
// whether an object was written, or if the operator has not processed the previous request
// yet; and errors.ErrUnsupported for commands without an object in a cluster.
type Store struct {
	client   client.Client // reads from a cache, and may watch
	settings Settings
	machine  *lifecycle.Machine
	catalog  *Catalog
	now      func() time.Time
	overlay  overlay
	settle   time.Duration
}

// settleTime is how long a change waits for the operator to process the one before.
const settleTime = 5 * time.Second

const (
	settlePause  = 50 * time.Millisecond // before an object is read again
	writeRetries = 4                     // of a change to an object that the operator changed meanwhile
)

// NewStore returns a store of a cluster's objects. The client is cached; now is the API server's.
func NewStore(c client.Client, catalog *Catalog, s Settings, now func() time.Time) *Store {
	return &Store{client: c, settings: s, machine: s.newMachine(), catalog: catalog, now: now, settle: settleTime}
}

// Machine returns the machine that the store asks.
func (s *Store) Machine() *lifecycle.Machine { return s.machine }

// View returns the document, with what will come of unprocessed requests.
func (s *Store) View(ctx context.Context) (lifecycle.View, error) {
	d, _, err := s.readAll(ctx)
	return lifecycle.View{Document: d, AsOf: s.now(), Leading: true}, err
}

// readAll returns the document of the portal, and the objects by ID.
func (s *Store) readAll(ctx context.Context) (*lifecycle.Document, map[string]*v1alpha1.Instance, error) {
	var list v1alpha1.InstanceList
	if err := s.client.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", lifecycle.ErrNoLeader, err)
	}
	objects, byID, _ := s.settings.separateByID(s.overlay.overlayWrites(list.Items), nil)
	var templates v1alpha1.TemplateList
	if err := s.client.List(ctx, &templates, client.InNamespace(s.settings.Namespace)); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", lifecycle.ErrNoLeader, err)
	}
	now := s.now()
	d, _ := buildDocument(objects, poolsOf(templates.Items), lifecycle.Clock{At: now})
	k := &requests{s.catalog, s.machine, now, d}
	k.applyAllRequests(objects)
	return withGenerations(k.doc, byID), byID, nil
}

// withGenerations adds each plan's generation, which an approval names.
func withGenerations(d *lifecycle.Document, objects map[string]*v1alpha1.Instance) *lifecycle.Document {
	for id, r := range d.Records {
		if r.Phase == lifecycle.Planned && r.Run != nil && objects[id] != nil {
			copied := *r
			run := *r.Run
			run.Plan = fmt.Sprintf("%s@%d", run.Plan, objects[id].Generation)
			copied.Run = &run
			d.Records[id] = &copied
		}
	}
	return d
}

func poolsOf(list []v1alpha1.Template) map[string]*lifecycle.Pool {
	pools := map[string]*lifecycle.Pool{}
	for i := range list {
		if p := poolOf(&list[i]); p != nil {
			pools[templateName(list[i].Name)] = p
		}
	}
	return pools
}

// poolOf is the pool in the status of a Template; nil: there is none.
func poolOf(o *v1alpha1.Template) *lifecycle.Pool {
	p := o.Status.Pool
	if p == nil || p.Paused == "" && p.Failures == 0 && p.Revision == "" {
		return nil
	}
	pool := &lifecycle.Pool{Paused: p.Paused, Failures: int(p.Failures), Revision: p.Revision}
	if p.Backoff != nil {
		pool.Backoff = p.Backoff.Time
	}
	return pool
}

func randomSeed() (s [32]byte) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}

// Do writes the object that a command needs.
func (s *Store) Do(ctx context.Context, c lifecycle.Command) (lifecycle.Answer, error) {
	if e, ok := c.Event.(lifecycle.Create); ok {
		return s.create(ctx, c, e)
	}
	id := idOf(c.Event)
	if id == "" {
		return lifecycle.Answer{}, errors.ErrUnsupported
	}
	for left := writeRetries; ; left-- {
		answer, err := s.tryCommand(ctx, c, id)
		if !apierrors.IsConflict(err) || left == 0 {
			return answer, err
		}
		if err := text.Wait(ctx, settlePause); err != nil {
			return lifecycle.Answer{}, err
		}
	}
}

// tryCommand writes the object once; a conflict wrote nothing.
func (s *Store) tryCommand(ctx context.Context, c lifecycle.Command, id string) (lifecycle.Answer, error) {
	d, o, err := s.readSettled(ctx, id)
	if err != nil {
		return lifecycle.Answer{}, err
	}
	if asked := askedBy(c); asked != "" && o.Annotations[v1alpha1.AnnotationAsked] == asked {
		return lifecycle.Answer{Status: 200, Record: d.Records[id], Repeat: true}, nil
	}
	// Limits cannot be exceeded: the operator does not see whether an administrator wrote.
	c.Key = ""
	switch c.Event.(type) {
	case lifecycle.Extend, lifecycle.Protect, lifecycle.Update:
		c.Actor.Admin = false
	}
	_, _, answer, err := s.machine.Step(d, c, s.now())
	if err == nil && o.Namespace != s.settings.Namespace {
		err = fmt.Errorf("%w: it is the Instance %s of namespace %s: change it there with kubectl", lifecycle.ErrDenied, o.Name, o.Namespace)
	}
	if err != nil {
		return lifecycle.Answer{}, err
	}
	return answer, s.writeCommand(ctx, c, o, answer.Record)
}

// askedBy is the mark in an object of a request that may be repeated; "": it may not.
func askedBy(c lifecycle.Command) string {
	if c.Key == "" {
		return ""
	}
	return c.Key + "=" + c.Digest
}

// readSettled returns the document and an Instance once earlier requests to it are processed.
func (s *Store) readSettled(ctx context.Context, id string) (*lifecycle.Document, *v1alpha1.Instance, error) {
	for end := time.Now().Add(s.settle); ; {
		d, objects, err := s.readAll(ctx)
		if err != nil {
			return nil, nil, err
		}
		o := objects[id]
		switch {
		case o == nil || d.Records[id] == nil:
			return nil, nil, fmt.Errorf("instance %s: %w", id, lifecycle.ErrNotFound)
		case o.Status.Record != nil && o.Status.Handled != nil && isProcessed(o):
			return d, o, nil
		case time.Now().After(end):
			return nil, nil, fmt.Errorf("%w: the operator has not processed the previous request to instance %s yet", lifecycle.ErrNoLeader, id)
		}
		if err := text.Wait(ctx, settlePause); err != nil {
			return nil, nil, err
		}
	}
}

// isProcessed reports whether the operator has processed all requests of an Instance.
func isProcessed(o *v1alpha1.Instance) bool {
	says := requestedNow(o)
	had := o.Status.Handled.DeepCopy()
	had.Inputs = strings.TrimPrefix(had.Inputs, refusedMark)
	says.Refused = had.Refused
	says.RefusedGeneration = had.RefusedGeneration
	return equality.Semantic.DeepEqual(had, says)
}

// idOf is the instance of an event of a caller; "": objects have no such event.
func idOf(e lifecycle.Event) string {
	switch e.(type) {
	case lifecycle.Approve, lifecycle.Reject, lifecycle.Cancel, lifecycle.Retry, lifecycle.Protect, lifecycle.Rename, lifecycle.Orphan,
		lifecycle.DestroyNow, lifecycle.Extend, lifecycle.Update:
		return reflect.ValueOf(e).FieldByName("ID").String()
	}
	return ""
}

// writeFailure is the error of a write that was refused, or whose result is unknown.
func writeFailure(id string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("instance %s: %w", id, lifecycle.ErrNotFound)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: refused by the cluster: %w", lifecycle.ErrDenied, err)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%w: refused by the cluster: %w", template.ErrInvalid, err)
	}
	return fmt.Errorf("%w: %w", lifecycle.ErrNoLeader, err)
}

// writeCommand writes an accepted command's objects; r is the record after it.
func (s *Store) writeCommand(ctx context.Context, c lifecycle.Command, o *v1alpha1.Instance, r *lifecycle.Record) error {
	switch e := c.Event.(type) {
	case lifecycle.DestroyNow:
		version := o.ResourceVersion
		return writeFailure(o.Name, s.client.Delete(ctx, o, client.Preconditions{UID: &o.UID, ResourceVersion: &version}))
	case lifecycle.Approve:
		return s.decide(ctx, c, o, e.Plan, v1alpha1.DecisionApprove, e.Why)
	case lifecycle.Reject:
		return s.decide(ctx, c, o, "", v1alpha1.DecisionReject, e.Reason)
	}
	changed := o.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	if asked := askedBy(c); asked != "" {
		changed.Annotations[v1alpha1.AnnotationAsked] = asked
	}
	changed.Spec.ChangedBy = actorName(c.Actor)
	now := s.now().UTC().Format(time.RFC3339Nano)
	switch e := c.Event.(type) {
	case lifecycle.Extend:
		changed.Spec.ExpiresAt = timeOf(r.ExpiresAt)
		if r.Pending != nil {
			changed.Spec.ExpiresAt = timeOf(r.Pending.Until) // the requested expiry
		}
	case lifecycle.Update:
		if e.Parameters != nil {
			changed.Spec.Parameters = toJSONValues(e.Parameters)
		}
		if e.Source != nil {
			changed.Spec.Version = e.Source.Version
		}
		if inputsDigest(changed) == inputsDigest(o) {
			return fmt.Errorf("%w: neither parameters nor version change", template.ErrInvalid)
		}
	case lifecycle.Protect:
		changed.Spec.Protected = e.On
	case lifecycle.Rename:
		changed.Spec.Name = e.Name
	case lifecycle.Retry:
		changed.Annotations[v1alpha1.AnnotationRequest] = now
	case lifecycle.Cancel:
		changed.Annotations[v1alpha1.AnnotationCancel] = now
	case lifecycle.Orphan:
		changed.Annotations[v1alpha1.AnnotationAbandon] = o.Name
	default:
		return errors.ErrUnsupported
	}
	if err := s.client.Patch(ctx, changed, verdict.Exact(o)); err != nil {
		return writeFailure(o.Name, err)
	}
	s.overlay.rememberWrite(changed)
	return nil
}

// decide creates an Approval. One of the same name says the same.
func (s *Store) decide(ctx context.Context, c lifecycle.Command, o *v1alpha1.Instance, plan string, d v1alpha1.Decision, reason string) error {
	plan = cmp.Or(plan, o.Status.Plan)
	switch {
	case !isRequest(plan):
		plan, _, _ = strings.Cut(plan, "@")
	case plan != o.Status.Plan: // a launch that the operator has not recorded yet: the generation identifies it
		plan = v1alpha1.PlanRequest
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%s\x00%s", d, plan, o.Generation, o.UID, actorName(c.Actor)))
	a := &v1alpha1.Approval{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name + "-" + hex.EncodeToString(sum[:8])},
		Spec: v1alpha1.ApprovalSpec{
			Target: v1alpha1.ApprovalTarget{Kind: "Instance", Name: o.Name}, Plan: plan, Generation: o.Generation,
			Approver: actorName(c.Actor), Decision: d, Reason: reason,
		},
	}
	err := s.client.Create(ctx, a)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return writeFailure(o.Name, err)
}
