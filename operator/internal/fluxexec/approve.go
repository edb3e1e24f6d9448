// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// Annotations of a Terraform, which approve plans: tenants must not write Terraforms.
const (
	// AnnotationPlan is what the plan gate saw: a [Gated] as JSON.
	AnnotationPlan = "okara.dev/plan"
	// AnnotationApproved is DIGEST@GENERATION: a plan, and the generation that its approval
	// creates.
	AnnotationApproved = "okara.dev/approved-plan"
)

// Gated is what the plan gate records of the last plan that it was shown.
type Gated struct {
	Digest     string `json:"digest"`     // of the changes with their values: 64 hexadecimal digits
	Generation int64  `json:"generation"` // of the Terraform that was planned
	Refused    bool   `json:"refused,omitempty"`
	Actions
}

// Actions are the numbers of what a plan does, and notes on it.
type Actions struct {
	Adds    int    `json:"adds,omitempty"`
	Changes int    `json:"changes,omitempty"`
	Removes int    `json:"removes,omitempty"`
	Imports int    `json:"imports,omitempty"`
	Forgets int    `json:"forgets,omitempty"`
	Notes   []Note `json:"notes,omitempty"` // the first of them
}

// Words says the numbers as the tools do.
func (a Actions) Words() string {
	words := fmt.Sprintf("%d to add, %d to change, %d to destroy", a.Adds, a.Changes, a.Removes)
	if a.Imports > 0 {
		words += fmt.Sprintf(", %d to import", a.Imports)
	}
	if a.Forgets > 0 {
		words += fmt.Sprintf(", %d to forget", a.Forgets)
	}
	return words
}

// Note is that of package lifecycle.
type Note struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

const digestLength = 64

// gateOf reads what the gate saw; zero if the annotation is missing or invalid.
func gateOf(live *unstructured.Unstructured) Gated {
	var g Gated
	if err := json.Unmarshal([]byte(live.GetAnnotations()[AnnotationPlan]), &g); err != nil || len(g.Digest) != digestLength {
		return Gated{}
	}
	return g
}

// isRefused reports whether the gate refused to apply the approved plan.
func (g Gated) isRefused(live *unstructured.Unstructured) bool {
	return g.Refused && g.Generation == live.GetGeneration()
}

// Approved returns the value of [AnnotationApproved] for a plan.
func Approved(digest string, generation int64) string {
	return fmt.Sprintf("%s@%d", digest, generation)
}

// StaleError says that a plan is not the one that waits for approval (Stale).
type StaleError struct {
	Plan string // the plan that was to be approved
	Now  string // the plan that waits; "" if none does
}

func (e *StaleError) Error() string {
	if e.Now == "" {
		return fmt.Sprintf("plan %s is not waiting for approval: see the status of the object", e.Plan)
	}
	return fmt.Sprintf("plan %s is not the pending one: review plan %s", e.Plan, e.Now)
}

// GateMissingError means that the gate did not see the plan: another might run (PlanGateMissing).
type GateMissingError struct{ Name string }

func (e *GateMissingError) Error() string {
	return fmt.Sprintf("the plan gate has not seen the plan of Terraform %s: start the operator with --plan-gate-address, and give tofu-controller its certificates", e.Name)
}

// Approve approves the plan with the ID, if it is the one that waits; again succeeds. It is applied
// when the gate sees the same changes once more; if they differ the gate refuses, and the next
// [Executor.Apply] requests a new plan. The error is a [*StaleError] or a [*GateMissingError].
func (e *Executor) Approve(ctx context.Context, s Spec, plan string) error {
	c, live, err := e.readLive(ctx, s.workInfo())
	if err != nil {
		return err
	}
	if live == nil {
		return &StaleError{Plan: plan}
	}
	g := gateOf(live)
	if g.Digest != "" && plan == s.planID(g.Digest) && live.GetAnnotations()[AnnotationApproved] == Approved(g.Digest, live.GetGeneration()) && hasOpenApproval(live) {
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
