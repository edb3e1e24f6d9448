// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// write does what a command that the machine takes means for the objects: r is what it
// makes of the record.
func (s *Store) write(ctx context.Context, c lifecycle.Command, o *v1alpha1.Instance, r *lifecycle.Record) error {
	switch e := c.Event.(type) {
	case lifecycle.DestroyNow:
		version := o.ResourceVersion
		return failed(o.Name, s.client.Delete(ctx, o, client.Preconditions{UID: &o.UID, ResourceVersion: &version}))
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
			changed.Spec.ExpiresAt = timeOf(r.Pending.Until) // which is asked for
		}
	case lifecycle.Update:
		if e.Parameters != nil {
			changed.Spec.Parameters = values(e.Parameters)
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
	if err := s.client.Update(ctx, changed); err != nil {
		return failed(o.Name, err)
	}
	s.seen.put(changed)
	return nil
}

// decide makes an Approval. One that is there says the same.
func (s *Store) decide(ctx context.Context, c lifecycle.Command, o *v1alpha1.Instance, plan string, d v1alpha1.Decision, reason string) error {
	if plan == "" {
		plan = o.Status.Plan
	}
	switch {
	case !isRequest(plan):
		plan, _, _ = strings.Cut(plan, "@")
	case plan != o.Status.Plan: // a launch, which its generation binds
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
	return failed(o.Name, err)
}

// cutAsked is what an object remembers of the request that wrote it last.
func cutAsked(o *v1alpha1.Instance) (key, digest string, ok bool) {
	return strings.Cut(o.Annotations[v1alpha1.AnnotationAsked], "=")
}
