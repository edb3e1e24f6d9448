// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// TestPhaseIsWhatConditionsSay goes through all phases of records, of Instances that are as
// they were, whose last change was refused, and that are deleted: what is called Ready or
// Available is Ready, and what is Stalled is nothing that goes on.
func TestPhaseIsWhatConditionsSay(t *testing.T) {
	refused := &v1alpha1.Handled{Refused: "no such version", RefusedGeneration: 2}
	deleted := metav1.NewTime(time.Unix(0, 0))
	for phase, want := range map[lifecycle.Phase]string{ // by itself, with a refused change, deleted
		lifecycle.Requested:     "Requested Reconciling, Failed Stalled, Requested Reconciling",
		lifecycle.Planned:       "Planned Reconciling, Failed Stalled, Planned Reconciling",
		lifecycle.Provisioning:  "Provisioning Reconciling, Failed Stalled, Provisioning Reconciling",
		lifecycle.Updating:      "Updating Reconciling, Failed Stalled, Updating Reconciling",
		lifecycle.Available:     "Available Ready, Failed Stalled, Destroying Reconciling",
		lifecycle.Ready:         "Ready Ready, Failed Stalled, Destroying Reconciling",
		lifecycle.Failed:        "Failed Stalled, Failed Stalled, Failed Stalled",
		lifecycle.Destroying:    "Destroying Reconciling, Destroying Stalled, Destroying Reconciling",
		lifecycle.DestroyFailed: "DestroyFailed Stalled, DestroyFailed Stalled, DestroyFailed Stalled",
		lifecycle.Destroyed:     "Destroyed, Destroyed, Destroyed",
		lifecycle.Orphaned:      "Orphaned, Orphaned, Orphaned",
		lifecycle.Rejected:      "Rejected Stalled, Rejected Stalled, Rejected Stalled",
	} {
		o := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		r := &lifecycle.Record{Phase: phase}
		got := shown(o, nil, r) + ", " + shown(o, refused, r)
		o.DeletionTimestamp = &deleted
		if got += ", " + shown(o, nil, r); got != want {
			t.Errorf("%s: %s, want %s", phase, got, want)
		}
	}
}

// shown are the phase of an Instance, and which condition of kstatus holds.
func shown(o *v1alpha1.Instance, h *v1alpha1.Handled, r *lifecycle.Record) string {
	v := verdictOf(o, h, r)
	var list []metav1.Condition
	v.Set(&list, o.Generation)
	text := string(phaseSaid(phaseOf(r.Phase), v))
	slices.SortFunc(list, func(a, b metav1.Condition) int { return len(a.Type) - len(b.Type) })
	for _, c := range list {
		if c.Status == metav1.ConditionTrue {
			text = fmt.Sprint(text, " ", c.Type)
		}
	}
	return text
}

// TestPhaseOfFailingReady: an error of the operator itself is no end of a run.
func TestPhaseOfFailingReady(t *testing.T) {
	if got := phaseSaid("Ready", verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonFailed}); got != "Updating" {
		t.Errorf("it is %s", got)
	}
}
