// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// decide carries out the waiting plan's Approvals. A rejected plan waits no more.
func (x *object) decide(ctx context.Context, now *fluxexec.Status, sum string) error {
	if x.want.Run.Approval != fluxexec.ApprovalManual {
		return nil
	}
	var list v1alpha1.ApprovalList
	if err := x.Client.List(ctx, &list, client.InNamespace(x.o.GetNamespace())); err != nil {
		return err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Approval) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for i := range list.Items {
		a := &list.Items[i]
		if a.Spec.Target != (v1alpha1.ApprovalTarget{Kind: x.o.GetKind(), Name: x.o.GetName()}) {
			continue
		}
		result, message, err := x.judgeApproval(ctx, a, *now)
		if err != nil {
			return err
		}
		if err := x.noteResult(ctx, a, result, message); err != nil {
			return err
		}
		if result == v1alpha1.ApprovalRejected && now.Plan != nil && planOf(a) == now.Plan.ID {
			x.keepApplied(now, sum)
		}
	}
	return nil
}

// planOf is the ID of the plan that an Approval names, without an appended @GENERATION.
func planOf(a *v1alpha1.Approval) string {
	plan, _, _ := strings.Cut(a.Spec.Plan, "@")
	return plan
}

func (x *object) judgeApproval(ctx context.Context, a *v1alpha1.Approval, now fluxexec.Status) (v1alpha1.ApprovalResult, string, error) {
	switch a.Status.Result {
	case "":
	case v1alpha1.ApprovalAccepted:
		return x.followApproval(a, now)
	default:
		return a.Status.Result, a.Status.Message, nil
	}
	if a.Spec.Generation != 0 && a.Spec.Generation != x.o.GetGeneration() {
		return v1alpha1.ApprovalStale, fmt.Sprintf("plan %s is for generation %d, but the object is at %d: read the new plan", planOf(a), a.Spec.Generation, x.o.GetGeneration()), nil
	}
	if now.Plan == nil || now.Plan.ID != planOf(a) {
		if now.Plan == nil && now.Phase == fluxexec.Running {
			return "", "", nil // a plan will follow
		}
		waiting := ""
		if now.Plan != nil {
			waiting = now.Plan.ID
		}
		return v1alpha1.ApprovalStale, (&fluxexec.StaleError{Plan: planOf(a), Now: waiting}).Error(), nil
	}
	if a.Spec.Decision == v1alpha1.DecisionReject {
		return v1alpha1.ApprovalRejected, a.Spec.Reason, nil
	}
	err := x.Executor.Approve(ctx, x.want.Run, planOf(a))
	if stale, ok := errors.AsType[*fluxexec.StaleError](err); ok {
		return v1alpha1.ApprovalStale, stale.Error(), nil
	}
	if missing, ok := errors.AsType[*fluxexec.GateMissingError](err); ok {
		return "", missing.Error(), nil
	}
	if err != nil {
		return "", "", err
	}
	x.emitEvent("Approved", "plan %s, by %s", planOf(a), a.Spec.Approver)
	return v1alpha1.ApprovalAccepted, "it is being applied", nil
}

// followApproval is the result of an Approval whose plan is being applied.
func (x *object) followApproval(a *v1alpha1.Approval, now fluxexec.Status) (v1alpha1.ApprovalResult, string, error) {
	switch {
	case now.Phase == fluxexec.Applied:
		return v1alpha1.ApprovalApplied, "", nil
	case now.Phase == fluxexec.Failed:
		return v1alpha1.ApprovalFailed, now.Message, nil
	case now.Plan != nil && now.Plan.ID != "" && now.Plan.ID != planOf(a):
		return v1alpha1.ApprovalStale, (&fluxexec.StaleError{Plan: planOf(a), Now: now.Plan.ID}).Error(), nil
	}
	return a.Status.Result, a.Status.Message, nil
}

func (x *object) noteResult(ctx context.Context, a *v1alpha1.Approval, result v1alpha1.ApprovalResult, message string) error {
	return verdict.Update(ctx, x.Client, a, func() { verdict.Decide(a, result, text.Clip(message, maxMessage)) })
}

// keepApplied keeps what was applied; Ready if it is what is asked for.
func (x *object) keepApplied(now *fluxexec.Status, sum string) {
	now.Plan = nil
	applied := now.AppliedRevision != "" || x.status.LastAppliedRevision != ""
	if applied && x.status.hasApplied(sum) {
		now.Phase = fluxexec.Applied
		return
	}
	now.Phase = fluxexec.Failed
	now.Reason = v1alpha1.ReasonRejected
	now.Message = "the plan was rejected"
	if applied {
		now.Message += ": what was applied before stays"
	}
}
