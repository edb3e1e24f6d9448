// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// TestPhaseIsWhatConditionsSay covers all phases of records, for unchanged Instances, those
// whose last change was refused, and deleted ones: an Instance called Ready or Available is
// Ready, and the phase of a Stalled one is not of something under way.
func TestPhaseIsWhatConditionsSay(t *testing.T) {
	refused := &v1alpha1.Handled{Refused: "no such version", RefusedGeneration: 2}
	deleted := metav1.NewTime(time.Unix(0, 0))
	for phase, want := range map[lifecycle.Phase]string{ // unchanged, with a refused change, deleted
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

// shown returns the phase of an Instance, and its true conditions of kstatus.
func shown(o *v1alpha1.Instance, h *v1alpha1.Handled, r *lifecycle.Record) string {
	v := verdictOf(o, h, r)
	var list []metav1.Condition
	v.Set(&list, o.Generation)
	text := string(shownPhase(phaseOf(r.Phase), v))
	slices.SortFunc(list, func(a, b metav1.Condition) int { return len(a.Type) - len(b.Type) })
	for _, c := range list {
		if c.Status == metav1.ConditionTrue {
			text = fmt.Sprint(text, " ", c.Type)
		}
	}
	return text
}

// TestPhaseOfFailingReady checks that an error of the operator itself does not end a run.
func TestPhaseOfFailingReady(t *testing.T) {
	must.Equal(t, "it", shownPhase("Ready", verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonFailed}), "Updating")
}
