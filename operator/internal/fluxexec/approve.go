// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// Annotations of a Terraform. Who writes them approves plans: no right to write
// Terraforms to tenants.
const (
	// AnnotationPlan is what the plan gate saw, a [Gated] as JSON.
	AnnotationPlan = "okara.dev/plan"
	// AnnotationApproved is DIGEST@GENERATION: what may be applied at the generation
	// that comes of the approval.
	AnnotationApproved = "okara.dev/approved-plan"
)

// Gated is what the plan gate keeps of the last plan that it was shown.
type Gated struct {
	Digest     string `json:"digest"`     // of the changes with their values: 64 hexadecimal digits
	Generation int64  `json:"generation"` // of the Terraform that was planned
	Refused    bool   `json:"refused,omitempty"`
	Adds       int    `json:"adds,omitempty"`
	Changes    int    `json:"changes,omitempty"`
	Removes    int    `json:"removes,omitempty"`
}

// digestLength is that of a digest of the gate.
const digestLength = 64

// gateOf reads what the gate saw. What is none of it is nothing.
func gateOf(live *unstructured.Unstructured) Gated {
	var g Gated
	if err := json.Unmarshal([]byte(live.GetAnnotations()[AnnotationPlan]), &g); err != nil || len(g.Digest) != digestLength {
		return Gated{}
	}
	return g
}

// refused reports whether the gate refused to have the plan applied that is approved.
func (g Gated) refused(live *unstructured.Unstructured) bool {
	return g.Refused && g.Generation == live.GetGeneration()
}

// Approved is the annotation by which the gate knows an approved plan.
func Approved(digest string, generation int64) string {
	return fmt.Sprintf("%s@%d", digest, generation)
}

// StaleError says that a plan is not the one that waits (Stale).
type StaleError struct {
	Plan string // that was to be approved
	Now  string // that waits; "": none
}

func (e *StaleError) Error() string {
	if e.Now == "" {
		return fmt.Sprintf("plan %s does not wait for approval: look at the object for what it does now", e.Plan)
	}
	return fmt.Sprintf("plan %s is not the one that waits: read plan %s", e.Plan, e.Now)
}

// GateMissingError says that nobody has seen the plan that waits, so that what would be
// applied could be another one (PlanGateMissing).
type GateMissingError struct{ Name string }

func (e *GateMissingError) Error() string {
	return fmt.Sprintf("the plan gate has not seen the plan of Terraform %s: start the operator with --plan-gate-address, and give tofu-controller its certificates", e.Name)
}

// Approve has the plan of an id applied, if it is the one that waits. It is applied when
// the gate is shown the same changes once more; if the world has changed by then, it is
// refused, and the next [Executor.Apply] has a new plan made. A plan that was approved
// already is approved. The error is a [*StaleError] or a [*GateMissingError].
func (e *Executor) Approve(ctx context.Context, s Spec, plan string) error {
	c, live, err := e.live(ctx, s.about())
	if err != nil {
		return err
	}
	if live == nil {
		return &StaleError{Plan: plan}
	}
	g := gateOf(live)
	if g.Digest != "" && plan == s.planID(g.Digest) && live.GetAnnotations()[AnnotationApproved] == Approved(g.Digest, live.GetGeneration()) && carries(live) {
		return nil
	}
	waiting := s.observe(live).Plan
	switch {
	case waiting == nil:
		return &StaleError{Plan: plan}
	case waiting.Reason == PlanGateMissing:
		return &GateMissingError{s.Name}
	case waiting.ID != plan:
		return &StaleError{Plan: plan, Now: waiting.ID}
	}
	return c.Change(ctx, live, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{AnnotationApproved: Approved(g.Digest, live.GetGeneration()+1)}},
		"spec":     map[string]any{"approvePlan": fluxobj.Text(live, "status", "plan", "pending")},
	})
}
