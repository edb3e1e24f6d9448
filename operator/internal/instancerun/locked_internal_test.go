// SPDX-License-Identifier: Apache-2.0

package instancerun

import (
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxrun"
)

// TestDestroyMeetsALock waits, without using up a try.
func TestDestroyMeetsALock(t *testing.T) {
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	st := fluxexec.Status{Phase: fluxexec.Destroying, Reason: fluxexec.StateLocked, Message: "locked by anna", FailedAt: begun.Add(time.Second).Format(time.RFC3339)}
	got := destroyStatus(&fluxrun.Run{}, run.Attempt{Started: begun}, st)
	if got.State != run.Running || got.Waiting != lifecycle.WaitStateLocked || got.Message != "locked by anna" {
		t.Errorf("locked: %+v", got)
	}
	st.Reason = ""
	if got := destroyStatus(&fluxrun.Run{}, run.Attempt{Started: begun}, st); got.State != run.Ended || got.Result.Outcome != lifecycle.RunFailed {
		t.Errorf("failed: %+v", got)
	}
}

// TestFailedInitTouchesNothing, unlike an apply.
func TestFailedInitTouchesNothing(t *testing.T) {
	for reason, untouched := range map[string]bool{"TFExecInitFailed": true, "TFExecApplyFailed": false, "TFExecPlanFailed": false} {
		got, err := (&Flux{}).translateStatus(t.Context(), &fluxrun.Run{}, run.Attempt{}, fluxexec.Status{Phase: fluxexec.Failed, Reason: reason, Message: "no such module"})
		if err != nil || got.Result.Outcome != lifecycle.RunFailed || got.Result.Untouched != untouched {
			t.Errorf("%s: %+v, %v", reason, got, err)
		}
	}
}
