// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// Phase is the phase of a run.
type Phase string

// Values of Phase.
const (
	Absent     Phase = "Absent"     // there is no Terraform
	Running    Phase = "Running"    // it runs, or will; Status.Message has the last failure, if any
	Waiting    Phase = "Waiting"    // it cannot continue for now: Status.Reason
	Planned    Phase = "Planned"    // a plan waits for approval: Status.Plan
	Applied    Phase = "Applied"    // everything is as the Spec says
	Drifted    Phase = "Drifted"    // resources were changed outside the run: Status.Message
	Failed     Phase = "Failed"     // the controller gave up: Spec.Retries
	Suspended  Phase = "Suspended"  // no run starts
	Destroying Phase = "Destroying" // the Terraform is being deleted
)

// Reasons of Waiting, and of a plan that cannot be approved.
const (
	StateLocked     = "StateLocked"     // by Status.Lock
	PlanGateMissing = "PlanGateMissing" // the gate has not seen the plan: Spec.Gate
)

// Status is the status of a run.
type Status struct {
	Phase   Phase
	Reason  string // of Waiting; else that of tofu-controller's condition Ready
	Message string // of tofu-controller, unbounded: truncate it before writing it anywhere
	Attempt string // of the objects; if it differs from Spec.Attempt, that attempt has not started
	Lock    string // ID of the lock of the state that blocks the run

	// Failure is why the last try failed, zero if none is known since the last change; at first it
	// may be the source's.
	Failure Failure

	Plan *Plan // the plan that waits, if Planned
	// Failures counts the failures since the last change, except those of a destroy.
	Failures int64
	// FailedAt is when the last try of a destroy failed, in RFC 3339; "" if none did, or the next
	// one is in progress. tofu-controller does not count them.
	FailedAt string
	// Left are the addresses that a destroy left behind. It is called failed then.
	Left []string
	// AppliedRevision and PlannedRevision are tofu-controller's: TAG@DIGEST or DIGEST.
	AppliedRevision string
	PlannedRevision string
}

// Failure is a failure that a controller of Flux reports.
type Failure struct {
	Reason  string // a word
	Message string // the first lines of what the tool said
}

// reportedFailure returns the failure that a condition reports for the current object, or zero.
func reportedFailure(o *unstructured.Unstructured, ready fluxobj.Condition) Failure {
	if !ready.False() || ready.Generation != 0 && ready.Generation != o.GetGeneration() {
		return Failure{}
	}
	return Failure{ready.Reason, text.Head(ready.Message)}
}

// failureOf returns the failure that an object of Flux reports, or zero.
func failureOf(o *unstructured.Unstructured) Failure {
	if o == nil {
		return Failure{}
	}
	return reportedFailure(o, fluxobj.Conditions(o)["Ready"])
}

// Plan is a plan that waits for approval.
type Plan struct {
	// ID names the plan for users: VERSION-MODULE.PLAN, of which the last two are
	// prefixes of digests. It is "" if the gate has not seen the plan.
	ID         string
	Reason     string // PlanGateMissing, if it cannot be approved
	Generation int64  // of the Terraform
	Actions
	ConfigMap string // its key tfplan holds the text; a long plan is in several, found by labels
}

// TurnedAway reports whether okara serve refused the run its state: OpenTofu shows only 409.
func (s Status) TurnedAway() bool { return strings.Contains(s.Message, " 409") }

// statusOf returns the common part of the status of a Terraform or HelmRelease.
func statusOf(live *unstructured.Unstructured, ready fluxobj.Condition) Status {
	return Status{Phase: Running, Reason: ready.Reason, Message: ready.Message, Attempt: live.GetAnnotations()[AnnotationAttempt]}
}

// withFailure adds the failure to a status in a phase that can have one.
func (s Status) withFailure(live *unstructured.Unstructured, ready fluxobj.Condition) Status {
	if slices.Contains([]Phase{Running, Destroying, Failed}, s.Phase) {
		s.Failure = reportedFailure(live, ready)
	}
	return s
}

func (s Spec) observe(live *unstructured.Unstructured) Status {
	conditions := fluxobj.Conditions(live)
	ready := conditions["Ready"]
	status := statusOf(live, ready)
	status.Failures = fluxobj.Number(live, "status", "reconciliationFailures")
	status.AppliedRevision = fluxobj.Text(live, "status", "lastAppliedRevision")
	status.PlannedRevision = fluxobj.Text(live, "status", "lastPlannedRevision")
	locked := s.lock(live, conditions)
	switch {
	case live.GetDeletionTimestamp() != nil:
		status.Phase = Destroying
		if ready.False() && ready.Generation == live.GetGeneration() {
			status.FailedAt = ready.Since
			leaves := live.GetAnnotations()[annotationLeaves]
			if leaves != "" && strings.Contains(strings.Join(strings.Fields(ready.Message), " "), "left behind forgotten instances") {
				status.Left = strings.Split(leaves, "\n")
			}
		}
	case fluxobj.Suspended(live):
		status.Phase = Suspended
	case s.isWaiting(live):
		status.Phase = Planned
		status.Plan = s.waitingPlan(live)
	case !fluxobj.Handled(live) || status.Attempt != s.Attempt:
	case s.isApplied(live):
		status.Phase = Applied
	case !ready.False() || ready.Generation != 0 && ready.Generation != live.GetGeneration():
	case ready.Reason == "DriftDetected":
		status.Phase = Drifted
	case locked != "":
		status.Phase = Waiting
	case conditions["Stalled"].True() && !sourceFails(ready.Reason):
		status.Phase = Failed
	}
	if locked != "" && (status.Phase == Waiting || status.Phase == Destroying) {
		status.Reason = StateLocked
		status.Lock = locked
	}
	return status.withFailure(live, ready)
}

// sourceFails reports whether a reason is about the source, which Apply ensures.
func sourceFails(reason string) bool { return reason == "ArtifactFailed" || reason == "SourceNotReady" }

// noArtifact is what tofu-controller says until it looks again: it may have arrived by now.
const noArtifact = "Source is not ready, artifact not found"

// lock returns the lock that blocked the last try, which may be gone.
func (s *Spec) lock(live *unstructured.Unstructured, conditions map[string]fluxobj.Condition) string {
	id := fluxobj.Text(live, "status", "lock", "pending")
	if id == "" || !conditions["StateLocked"].True() || !conditions["Ready"].False() || !strings.Contains(conditions["Ready"].Message, id) {
		return ""
	}
	return id
}

func (s *Spec) isPinned(revision string) bool { return strings.HasSuffix(revision, s.Module.Digest) }

// isApplied reports whether a Terraform matches its spec and module. A plan without changes moves
// only lastPlannedRevision; a comparing run has no plan.
func (s *Spec) isApplied(live *unstructured.Unstructured) bool {
	planned := fluxobj.Text(live, "status", "lastPlannedRevision")
	current := s.isPinned(planned) || planned == "" && s.Approval == ApprovalNone
	pending := fluxobj.Text(live, "status", "plan", "pending") != ""
	return fluxobj.Conditions(live)["Ready"].True() && fluxobj.Observed(live) && current && !pending
}

// isWaiting reports whether a plan waits for approval (T8): without need it is pending briefly.
func (s *Spec) isWaiting(live *unstructured.Unstructured) bool {
	force, _, _ := unstructured.NestedBool(live.Object, "spec", "force")
	only, _, _ := unstructured.NestedBool(live.Object, "spec", "planOnly")
	pending := fluxobj.Text(live, "status", "plan", "pending") != "" && fluxobj.Text(live, "spec", "approvePlan") == ""
	current := fluxobj.Number(live, "status", "lastPlannedGeneration") == live.GetGeneration() &&
		s.isPinned(fluxobj.Text(live, "status", "lastPlannedRevision"))
	return pending && !force && !only && current
}

func (s *Spec) waitingPlan(live *unstructured.Unstructured) *Plan {
	p := &Plan{Generation: live.GetGeneration(), ConfigMap: "tfplan-default-" + live.GetName()}
	g := gateOf(live)
	if g.Generation != live.GetGeneration() || g.Digest == "" {
		p.Reason = PlanGateMissing
		return p
	}
	p.ID = s.planID(g.Digest)
	p.Actions = g.Actions
	return p
}

func (s *Spec) planID(digest string) string {
	id := strings.TrimPrefix(s.Module.Digest, "sha256:")[:10] + "." + digest[:12]
	if s.Module.Version != "" {
		id = s.Module.Version + "-" + id
	}
	return id
}
