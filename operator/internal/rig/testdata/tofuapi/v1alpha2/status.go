// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	"github.com/flux-iac/tofu-controller/api/planid"
	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// condition notes one condition. An API server takes 32 KiB of message.
func (t *Terraform) condition(kind string, status metav1.ConditionStatus, reason, message string) *Terraform {
	apimeta.SetStatusCondition(&t.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message[:min(32<<10, len(message))], ObservedGeneration: t.Generation,
	})
	return t
}

func (t *Terraform) ready(status metav1.ConditionStatus, reason, message string) *Terraform {
	return t.condition(meta.ReadyCondition, status, reason, message)
}

// attempted notes the revision that was tried last. Some failures have none.
func (t *Terraform) attempted(revision string) {
	if revision != "" {
		t.Status.LastAttemptedRevision = revision
	}
}

// planned notes a plan. Only it, and becoming ready, moves the observed generation:
// else the controller takes changed variables for drift.
func (t *Terraform) planned(revision string) {
	now := metav1.Now()
	t.attempted(revision)
	t.Status.LastPlanAt, t.Status.LastPlannedRevision = &now, revision
	t.Status.LastPlannedGeneration, t.Status.ObservedGeneration = t.Generation, t.Generation
}

func TerraformProgressing(t *Terraform, message string) *Terraform {
	t.condition(meta.ReconcilingCondition, metav1.ConditionTrue, meta.ProgressingReason, message)
	return t.ready(metav1.ConditionUnknown, meta.ProgressingReason, message)
}

func TerraformNotReady(t *Terraform, revision, reason, message string) *Terraform {
	t.attempted(revision)
	return t.ready(metav1.ConditionFalse, reason, message)
}

func TerraformPlannedWithChanges(t *Terraform, revision string, auto bool, message string) *Terraform {
	id := planid.GetPlanID(revision)
	t.Status.Plan = PlanStatus{Pending: id, LastApplied: t.Status.Plan.LastApplied, IsDestroyPlan: t.Spec.Destroy}
	t.planned(revision)
	t.condition(ConditionTypePlan, metav1.ConditionTrue, PlannedWithChangesReason, message)
	if !auto {
		message = planid.GetApproveMessage(id, message)
	}
	return t.ready(metav1.ConditionUnknown, PlannedWithChangesReason, message)
}

func TerraformPlannedNoChanges(t *Terraform, revision, message string) *Terraform {
	t.Status.Plan = PlanStatus{LastApplied: t.Status.Plan.LastApplied}
	t.planned(revision)
	t.condition(ConditionTypePlan, metav1.ConditionFalse, PlannedNoChangesReason, message)
	return t.ready(metav1.ConditionTrue, PlannedNoChangesReason, message)
}

func TerraformPostPlanningWebhookFailed(t *Terraform, revision, message string) *Terraform {
	return TerraformNotReady(t, revision, PostPlanningWebhookFailedReason, message)
}

func TerraformApplying(t *Terraform, revision, message string) *Terraform {
	t.attempted(revision)
	return t.condition(ConditionTypeApply, metav1.ConditionUnknown, meta.ProgressingReason, message)
}

func TerraformApplied(t *Terraform, revision, message string, destroyed bool, inventory []ResourceRef) *Terraform {
	reason := TFExecApplySucceedReason
	if destroyed {
		reason = TFExecDestroySucceedReason
	}
	t.Status.Plan = PlanStatus{LastApplied: t.Status.Plan.Pending, IsDestroyPlan: destroyed}
	t.Status.LastAppliedRevision = revision
	t.Status.Inventory = nil
	if len(inventory) > 0 {
		t.Status.Inventory = &ResourceInventory{Entries: inventory}
	}
	t.condition(ConditionTypeApply, metav1.ConditionTrue, reason, message)
	return t.ready(metav1.ConditionUnknown, reason, message)
}

func TerraformAppliedFailResetPlanAndNotReady(t *Terraform, revision, reason, message string) *Terraform {
	t.Status.Plan.Pending = ""
	t.condition(ConditionTypeApply, metav1.ConditionFalse, reason, message)
	return TerraformNotReady(t, revision, reason, message)
}

func TerraformOutputsAvailable(t *Terraform, names []string, message string) *Terraform {
	t.Status.AvailableOutputs = names
	return t.condition(ConditionTypeOutput, metav1.ConditionTrue, "OutputsAvailable", message)
}

func TerraformOutputsWritten(t *Terraform, revision, message string) *Terraform {
	t.condition(ConditionTypeOutput, metav1.ConditionTrue, "OutputsWritten", message)
	return t.ready(metav1.ConditionTrue, "OutputsWritten", message)
}

func TerraformDriftDetected(t *Terraform, revision, reason, message string) *Terraform {
	now := metav1.Now()
	t.Status.LastDriftDetectedAt = &now
	return t.ready(metav1.ConditionFalse, reason, message)
}

func TerraformNoDrift(t *Terraform, revision, reason, message string) *Terraform {
	return t.ready(metav1.ConditionTrue, reason, message)
}

func TerraformHealthCheckSucceeded(t *Terraform, message string) *Terraform {
	return t.condition(ConditionTypeHealthCheck, metav1.ConditionTrue, "HealthChecksSucceeded", message)
}

func TerraformHealthCheckFailed(t *Terraform, message string) *Terraform {
	t.condition(ConditionTypeHealthCheck, metav1.ConditionFalse, HealthChecksFailedReason, message)
	return t.ready(metav1.ConditionFalse, HealthChecksFailedReason, message)
}

func TerraformStateLocked(t *Terraform, id, message string) *Terraform {
	t.Status.Lock.Pending = id
	return t.condition(ConditionTypeStateLocked, metav1.ConditionTrue, "LockHeld", message)
}

func TerraformForceUnlock(t *Terraform, message string) *Terraform {
	t.Status.Lock = LockStatus{LastApplied: t.Status.Lock.Pending}
	return t.condition(ConditionTypeStateLocked, metav1.ConditionFalse, "ForceUnlocked", message)
}

func TerraformReachedLimit(t *Terraform) *Terraform {
	return t.condition(meta.StalledCondition, metav1.ConditionTrue, "RetryLimitReached", "no retry is left")
}

func TerraformResetRetry(t *Terraform) *Terraform {
	t.Status.ReconciliationFailures = 0
	apimeta.RemoveStatusCondition(&t.Status.Conditions, meta.StalledCondition)
	return t
}
