// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// Phase says how far a run is.
type Phase string

// Phases.
const (
	Absent     Phase = "Absent"     // there is no Terraform
	Running    Phase = "Running"    // it runs, or will; Status.Message has the last failure, if any
	Waiting    Phase = "Waiting"    // it cannot go on for now: Status.Reason
	Planned    Phase = "Planned"    // a plan waits for approval: Status.Plan
	Applied    Phase = "Applied"    // all is as the Spec says
	Drifted    Phase = "Drifted"    // somebody changed what was applied: Status.Message
	Failed     Phase = "Failed"     // the controller gave up: Spec.Retries
	Suspended  Phase = "Suspended"  // no run begins
	Destroying Phase = "Destroying" // the Terraform is deleted, and still there
)

// Reasons of Waiting, and of a plan that cannot be approved.
const (
	StateLocked     = "StateLocked"     // by Status.Lock
	PlanGateMissing = "PlanGateMissing" // nobody saw the plan: Spec.Gate
)

// Status is what is known of a run.
type Status struct {
	Phase   Phase
	Reason  string // of Waiting; else that of tofu-controller's condition Ready
	Message string // of tofu-controller, as it is: bound it before it is written anywhere
	Attempt string // of the objects; another than Spec.Attempt has not begun
	Lock    string // id of the lock of the state that is in the way

	// Failure is why the last try did not get through; zero: it did, or nothing is known of
	// one since something changed last. It may be the source's, before there was a try.
	Failure Failure

	Plan *Plan // that waits; of Planned
	// Failures are those since something changed last, but for a destroy.
	Failures int64
	// FailedAt is when the last try of a destroy failed, RFC 3339; "": none has, or the
	// next one goes on. tofu-controller does not count them.
	FailedAt string
	// AppliedRevision and PlannedRevision are tofu-controller's: TAG@DIGEST or DIGEST.
	AppliedRevision string
	PlannedRevision string
}

// Failure is what a controller of Flux says of one.
type Failure struct {
	Reason  string // a word
	Message string // the first lines of what the tool said
}

// failure is what a condition tells of the object as it is; zero: nothing is wrong.
func failure(o *unstructured.Unstructured, ready fluxobj.Condition) Failure {
	if !ready.False() || ready.Generation != 0 && ready.Generation != o.GetGeneration() {
		return Failure{}
	}
	return Failure{ready.Reason, text.Head(ready.Message)}
}

// failureOf is what an object of Flux tells of itself; zero: nothing is wrong, or it is not
// there.
func failureOf(o *unstructured.Unstructured) Failure {
	if o == nil {
		return Failure{}
	}
	return failure(o, fluxobj.Conditions(o)["Ready"])
}

// Plan is one that waits for approval.
type Plan struct {
	// ID names it to users: VERSION-MODULE.PLAN, the last two being what digests begin
	// with. "" if the gate has not seen it.
	ID         string
	Reason     string // PlanGateMissing, if it cannot be approved
	Generation int64  // of the Terraform
	Adds       int
	Changes    int
	Removes    int
	ConfigMap  string // its key tfplan has it as text; a long one is in several, by labels
}

// TurnedAway reports whether okara serve refused the run its state, as far as OpenTofu
// tells: it shows the code of the answer alone, 409, not the text.
func (s Status) TurnedAway() bool { return strings.Contains(s.Message, " 409") }

// statusOf is what is known of any run whose Terraform or HelmRelease is there.
func statusOf(live *unstructured.Unstructured, ready fluxobj.Condition) Status {
	return Status{Phase: Running, Reason: ready.Reason, Message: ready.Message, Attempt: live.GetAnnotations()[AnnotationAttempt]}
}

// failing is the status with what went wrong, where it is of that.
func (s Status) failing(live *unstructured.Unstructured, ready fluxobj.Condition) Status {
	if slices.Contains([]Phase{Running, Destroying, Failed}, s.Phase) {
		s.Failure = failure(live, ready)
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
		}
	case fluxobj.Suspended(live):
		status.Phase = Suspended
	case s.waits(live):
		status.Phase = Planned
		status.Plan = s.plan(live)
	case !fluxobj.Handled(live) || status.Attempt != s.Attempt:
	case s.applied(live):
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
	return status.failing(live, ready)
}

// sourceFails reports reasons that go with the source, which Apply makes sure of.
func sourceFails(reason string) bool { return reason == "ArtifactFailed" || reason == "SourceNotReady" }

// lock is the id of the lock that the last try met. The condition StateLocked stays when
// the lock has gone.
func (s *Spec) lock(live *unstructured.Unstructured, conditions map[string]fluxobj.Condition) string {
	id := fluxobj.Text(live, "status", "lock", "pending")
	if id == "" || !conditions["StateLocked"].True() || !conditions["Ready"].False() || !strings.Contains(conditions["Ready"].Message, id) {
		return ""
	}
	return id
}

// pinned reports whether a revision is the module of the run (T3).
func (s *Spec) pinned(revision string) bool { return strings.HasSuffix(revision, s.Module.Digest) }

// applied reports whether a Terraform is as its spec is, and the module that of the run.
// A plan without changes is not applied: it moves lastPlannedRevision alone. A run that
// only ever compared has no plan.
func (s *Spec) applied(live *unstructured.Unstructured) bool {
	planned := fluxobj.Text(live, "status", "lastPlannedRevision")
	current := s.pinned(planned) || planned == "" && s.Approval == ApprovalNone
	pending := fluxobj.Text(live, "status", "plan", "pending") != ""
	return fluxobj.Conditions(live)["Ready"].True() && fluxobj.Observed(live) && current && !pending
}

// waits reports whether a plan waits for somebody (T8): one is pending for a moment where
// nobody has to approve it.
func (s *Spec) waits(live *unstructured.Unstructured) bool {
	force, _, _ := unstructured.NestedBool(live.Object, "spec", "force")
	only, _, _ := unstructured.NestedBool(live.Object, "spec", "planOnly")
	pending := fluxobj.Text(live, "status", "plan", "pending") != "" && fluxobj.Text(live, "spec", "approvePlan") == ""
	current := fluxobj.Number(live, "status", "lastPlannedGeneration") == live.GetGeneration() &&
		s.pinned(fluxobj.Text(live, "status", "lastPlannedRevision"))
	return pending && !force && !only && current
}

// plan is the one that waits.
func (s *Spec) plan(live *unstructured.Unstructured) *Plan {
	p := &Plan{Generation: live.GetGeneration(), ConfigMap: "tfplan-default-" + live.GetName()}
	g := gateOf(live)
	if g.Generation != live.GetGeneration() || g.Digest == "" {
		p.Reason = PlanGateMissing
		return p
	}
	p.ID = s.planID(g.Digest)
	p.Adds = g.Adds
	p.Changes = g.Changes
	p.Removes = g.Removes
	return p
}

// planID names a plan to users.
func (s *Spec) planID(digest string) string {
	id := strings.TrimPrefix(s.Module.Digest, "sha256:")[:10] + "." + digest[:12]
	if s.Module.Version != "" {
		id = s.Module.Version + "-" + id
	}
	return id
}
