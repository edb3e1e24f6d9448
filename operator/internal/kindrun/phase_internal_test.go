// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// TestPhaseIsWhatConditionsSay in each phase: Ready is Ready.
func TestPhaseIsWhatConditionsSay(t *testing.T) {
	happens := map[string]func(*status){
		"an error":  func(s *status) { s.sayFailing(errors.New("away"), 2) },
		"a refusal": func(s *status) { s.sayRefused(&verdict.Problem{Reason: v1alpha1.ReasonInvalid}, 2) },
		"a problem": func(s *status) {
			s.sayRefused(&verdict.Problem{Reason: v1alpha1.ReasonExecutorMissing, Retry: true}, 2)
		},
	}
	for _, phase := range []fluxexec.Phase{fluxexec.Absent, fluxexec.Running, fluxexec.Waiting, fluxexec.Planned, fluxexec.Applied, fluxexec.Drifted, fluxexec.Failed, fluxexec.Suspended} {
		for reason, failure := range map[string]fluxexec.Failure{"": {}, " that fails": {Reason: "TFExecPlanFailed"}} {
			now := fluxexec.Status{Phase: phase, Reason: "StateLocked", Plan: &fluxexec.Plan{ID: "a"}, Failure: failure}
			happens[string(phase)+reason] = func(s *status) { s.projectRun(now, false, "a", 2, time.Unix(0, 0)) }
		}
	}
	for _, from := range []string{"", phaseProvisioning, phaseUpdating, phasePlanned, phaseReady, phaseFailed, phaseRejected, phaseDestroying, phaseDestroyFailed} {
		for what, happens := range happens {
			s := status{}
			if from == phaseReady { // with the conditions that belong to it
				s.projectRun(fluxexec.Status{Phase: fluxexec.Applied, AppliedRevision: "sha256:0"}, false, "a", 2, time.Unix(0, 0))
			}
			s.Phase = from
			happens(&s)
			ready, stalled := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady), meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionStalled)
			if ready != (s.Phase == phaseReady) {
				t.Errorf("%s of one that is %q: it is %s, and Ready is %v", what, from, s.Phase, ready)
			}
			switch s.Phase {
			case phaseProvisioning, phaseUpdating, phasePlanned:
				if stalled {
					t.Errorf("%s of one that is %q: it is %s and Stalled", what, from, s.Phase)
				}
			case phaseFailed:
				if !stalled {
					t.Errorf("%s of one that is %q: it is Failed and not Stalled", what, from)
				}
			}
		}
	}
}
