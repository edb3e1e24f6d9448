// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// decide carries out Approvals, the oldest first.
func (p *reconciliation) decide() {
	slices.SortFunc(p.approvals, func(a, b v1alpha1.Approval) int {
		return a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time)
	})
	for i := range p.approvals {
		a := &p.approvals[i]
		if a.Spec.Target.Kind != "Instance" {
			continue
		}
		o := p.byKey[client.ObjectKey{Namespace: a.Namespace, Name: a.Spec.Target.Name}]
		var r *lifecycle.Record
		if o != nil {
			r = p.requests.doc.Records[o.Status.ID]
		}
		switch a.Status.Result {
		case "":
			p.decided[a.UID] = p.requests.decide(a, o, r)
			if p.decided[a.UID].Result == v1alpha1.ApprovalRejected && requestsChange(r) {
				p.noteRejected(o, a.Spec.Reason)
			}
		case v1alpha1.ApprovalAccepted:
			if s := approvalOutcome(a, r); s != nil {
				p.decided[a.UID] = *s
			}
		}
	}
}

// noteRejected notes on an Instance that the change in its spec was rejected.
func (p *reconciliation) noteRejected(o *v1alpha1.Instance, why string) {
	h := p.news[o.Status.ID]
	if h == nil {
		h = o.Status.Handled.DeepCopy()
	}
	if h == nil {
		h = requestedNow(o)
	}
	h.Refused = "it was rejected"
	h.RefusedGeneration = o.Generation
	if why != "" {
		h.Refused += ": " + why
	}
	p.news[o.Status.ID] = h
}

// decide carries out one Approval, if its target o has not changed since the approver saw it; r is its record.
func (k *requests) decide(a *v1alpha1.Approval, o *v1alpha1.Instance, r *lifecycle.Record) v1alpha1.ApprovalStatus {
	refused := func(result v1alpha1.ApprovalResult, format string, args ...any) v1alpha1.ApprovalStatus {
		return v1alpha1.ApprovalStatus{Result: result, Message: fmt.Sprintf(format, args...)}
	}
	if o == nil || r == nil {
		return refused(v1alpha1.ApprovalStale, "Instance %s not found", a.Spec.Target.Name)
	}
	if a.Spec.Generation == 0 {
		return refused(v1alpha1.ApprovalStale, "spec.generation is missing: the object is at %d; use that if you reviewed its plan", o.Generation)
	}
	if a.Spec.Generation != o.Generation {
		return refused(v1alpha1.ApprovalStale, "plan %s is for generation %d, but the object is at %d: read the new plan", a.Spec.Plan, a.Spec.Generation, o.Generation)
	}
	plan := a.Spec.Plan
	if r.Phase == lifecycle.Requested && plan == v1alpha1.PlanRequest {
		plan = lifecycle.RequestPlan(r)
	}
	if plan != lifecycle.Awaits(r) {
		return refused(v1alpha1.ApprovalStale, "plan %s is not waiting for approval: the Instance is %s", plan, phaseOf(r.Phase))
	}
	var event lifecycle.Event = lifecycle.Approve{ID: r.ID, Plan: plan, Why: a.Spec.Reason}
	if a.Spec.Decision == v1alpha1.DecisionReject {
		event = lifecycle.Reject{ID: r.ID, Reason: a.Spec.Reason}
	}
	approver := k.catalog.settings.Users.actorNamed(a.Spec.Approver)
	if a.Spec.Decision != v1alpha1.DecisionReject && !k.machine.Limits.ApprovalSelf {
		for i, other := range []lifecycle.Actor{r.WantedBy(), ownerOf(r)} {
			if maybeSame(approver, other) {
				return refused(v1alpha1.ApprovalRefused, "it cannot be determined whether %s is the %s, %s: approve by the same means as the request, or start the operator with --user-issuer", a.Spec.Approver, []string{"requester", "owner"}[i], other.Subject)
			}
		}
	}
	err := k.applyEvent(approver, event)
	switch {
	case errors.Is(err, lifecycle.ErrDenied):
		return refused(v1alpha1.ApprovalRefused, "%v", err)
	case err != nil:
		return refused(v1alpha1.ApprovalStale, "%v", err)
	case a.Spec.Decision == v1alpha1.DecisionReject:
		return v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalRejected, Message: a.Spec.Reason}
	case r.Pending != nil && !r.Pending.Until.IsZero():
		return v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalApplied} // a later expiry, which needs no run
	}
	return v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalAccepted}
}

// approvalOutcome is the result of an accepted Approval; nil: its run has not ended.
func approvalOutcome(a *v1alpha1.Approval, r *lifecycle.Record) *v1alpha1.ApprovalStatus {
	if r == nil {
		return &v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalFailed, Message: "the Instance is gone"}
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Kind != lifecycle.RunApply || run.QueuedAt.Before(a.CreationTimestamp.Time) || !isRequest(a.Spec.Plan) && run.Approved != a.Spec.Plan {
			continue
		}
		if run.Result == lifecycle.Done {
			return &v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalApplied}
		}
		return &v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalFailed, Message: run.Error}
	}
	return nil
}

// isRequest reports whether an approval is of a request, for which no plan was made.
func isRequest(plan string) bool {
	return plan == v1alpha1.PlanRequest || strings.HasPrefix(plan, v1alpha1.PlanRequest+"@")
}

func (p *reconciliation) writeApproval(ctx context.Context, a *v1alpha1.Approval) (bool, error) {
	s, ok := p.decided[a.UID]
	next := a.DeepCopy()
	if !ok || !verdict.Decide(next, s.Result, text.Clip(s.Message, 4096)) {
		return false, nil
	}
	return true, p.c.client.Status().Patch(ctx, next, verdict.Since(a))
}
