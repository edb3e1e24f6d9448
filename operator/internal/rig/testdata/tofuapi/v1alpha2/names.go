// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import "github.com/fluxcd/pkg/apis/meta"

const (
	TerraformKind           = "Terraform"
	TerraformFinalizer      = "finalizers.tf.contrib.fluxcd.io"
	TFDependencyOfPrefix    = "tf.dependency.of."
	RunnerLabel             = "infra.contrib.fluxcd.io/runner"
	RunnerTLSSecretName     = "terraform-runner.tls"
	BreakTheGlassAnnotation = "break-the-glass.tf-controller/requestedAt"
	DefaultWorkspaceName    = "default"

	GitRepositoryIndexKey = "gitRepository"
	BucketIndexKey        = "bucket"
	OCIRepositoryIndexKey = "ociRepository"

	ApprovePlanAutoValue    = "auto"
	ApprovePlanDisableValue = "disable"
	ForceUnlockEnumAuto     = "auto"
	ForceUnlockEnumYes      = "yes"
	HealthCheckTypeHttpGet  = "http"
	HealthCheckTypeTCP      = "tcp"
	PostPlanningWebhook     = "post-planning"
)

// Conditions.
const (
	ConditionTypeApply       = "Apply"
	ConditionTypeHealthCheck = "HealthCheck"
	ConditionTypeOutput      = "Output"
	ConditionTypePlan        = "Plan"
	ConditionTypeStateLocked = "StateLocked"
)

var OwnedConditions = []string{
	meta.ReadyCondition, meta.ReconcilingCondition, meta.StalledCondition,
	ConditionTypeApply, ConditionTypeHealthCheck, ConditionTypeOutput, ConditionTypePlan, ConditionTypeStateLocked,
}

// Reasons that the controller gives by itself, or compares.
const (
	AccessDeniedReason              = "AccessDenied"
	ArtifactFailedReason            = "ArtifactFailed"
	DeletionBlockedByDependants     = "DeletionBlockedByDependants"
	DependencyNotReadyReason        = "DependencyNotReady"
	DriftDetectedReason             = "DriftDetected"
	DriftDetectionFailedReason      = "DriftDetectionFailed"
	HealthChecksFailedReason        = "HealthChecksFailed"
	NoDriftReason                   = "NoDrift"
	OutputsWritingFailedReason      = "OutputsWritingFailed"
	PlannedNoChangesReason          = "PlannedNoChanges"
	PlannedWithChangesReason        = "PlannedWithChanges"
	PostPlanningWebhookFailedReason = "PostPlanningWebhookFailed"
	ReconciliationFailureReason     = "ReconciliationFailed"
	RunnerQuotaExhaustedReason      = "RunnerQuotaExhausted"
	TFExecApplyFailedReason         = "ApplyFailed"
	TFExecApplySucceedReason        = "Applied"
	TFExecDestroyFailedReason       = "DestroyFailed"
	TFExecDestroySucceedReason      = "Destroyed"
	TFExecInitFailedReason          = "InitFailed"
	TFExecNewFailedReason           = "NoTool"
	TFExecOutputFailedReason        = "OutputFailed"
	TFExecPlanFailedReason          = "PlanFailed"
	TFExecPlanSucceedReason         = "Planned"
	TemplateGenerationFailedReason  = "TemplateGenerationFailed"
	VarsGenerationFailedReason      = "VarsGenerationFailed"
	WorkspaceSelectFailedReason     = "WorkspaceSelectFailed"
)
