// SPDX-License-Identifier: Apache-2.0

package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/oci"
)

// step is an executor that takes one step, and records what it is asked for.
type step struct {
	status        run.Status
	err, noCancel error
	asked         []string
}

func (s *step) Advance(context.Context, run.Attempt) (run.Status, error) {
	s.asked = append(s.asked, "advance")
	return s.status, s.err
}

func (s *step) Cancel(context.Context, run.Attempt, bool) error {
	s.asked = append(s.asked, "cancel")
	return s.noCancel
}

// TestAdvance checks the rules of an attempt: what ends it, and what it waits for.
func TestAdvance(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	late := run.Attempt{Deadline: now, Begun: true, Limits: run.Limits{Timeout: time.Hour}}
	begun := run.Attempt{Begun: true}
	destroy := late
	destroy.Kind = lifecycle.RunDestroy
	cancelled := run.Attempt{Cancelled: true}
	cancelledLater := run.Attempt{Cancelled: true, Begun: true}
	refused := fmt.Errorf("read: %w", oci.ErrDenied)
	for name, tt := range map[string]struct {
		attempt run.Attempt
		step    step
		lasts   bool
		asked   []string
		want    string
	}{
		"begins":                             {run.Attempt{}, step{status: run.Status{State: run.Running, Handle: "7"}}, false, []string{"advance"}, "started 7"},
		"runs":                               {begun, step{status: run.Status{State: run.Running, Waiting: "Retry", Message: "no image"}}, false, []string{"advance"}, "waits Retry no image"},
		"ends":                               {begun, step{status: run.Status{State: run.Ended, Result: lifecycle.Result{Outcome: lifecycle.Done}}}, false, []string{"advance"}, "ended done state=false untouched=false permanent=false "},
		"is gone":                            {begun, step{status: run.Status{State: run.Gone, Message: "killed"}}, false, []string{"advance"}, "ended lost state=true untouched=false permanent=false killed"},
		"is cancelled before it began":       {cancelled, step{}, false, nil, "ended cancelled state=false untouched=true permanent=false "},
		"is cancelled later":                 {cancelledLater, step{status: run.Status{State: run.Running}}, false, []string{"advance"}, "waits  "},
		"meets an error":                     {begun, step{err: errors.New("503")}, false, []string{"advance"}, "waits Retry 503"},
		"meets an error that lasts":          {begun, step{err: refused}, true, []string{"advance"}, "ended failed state=true untouched=false permanent=false read: access denied"},
		"meets one before it began":          {run.Attempt{}, step{err: refused}, true, []string{"advance"}, "ended failed state=false untouched=true permanent=true read: access denied"},
		"is late":                            {late, step{status: run.Status{State: run.Running, Message: "pulls"}}, false, []string{"advance", "cancel"}, "ended failed state=true untouched=false permanent=false it did not end within 1h0m0s: pulls"},
		"is late, and cannot be cancelled":   {late, step{status: run.Status{State: run.Running}, noCancel: errors.New("503")}, false, []string{"advance", "cancel"}, "waits Retry 503"},
		"is late, and meets an error":        {late, step{err: errors.New("503")}, false, []string{"advance"}, "ended failed state=true untouched=false permanent=false 503"},
		"is late, and ends":                  {late, step{status: run.Status{State: run.Ended, Result: lifecycle.Result{Outcome: lifecycle.Done}}}, false, []string{"advance"}, "ended done state=false untouched=false permanent=false "},
		"destroys for too long, uncancelled": {destroy, step{status: run.Status{State: run.Running}}, false, []string{"advance"}, "ended failed state=true untouched=false permanent=false it did not end within 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			event, _ := run.Advance(t.Context(), run.Carrier{Executor: &tt.step, Lasts: func(error) bool { return tt.lasts }}, tt.attempt, now)
			got := fmt.Sprintf("%T", event)
			switch e := event.(type) {
			case lifecycle.Started:
				got = "started " + e.Handle
			case lifecycle.Wait:
				got = fmt.Sprint("waits ", e.Reason, " ", e.Message)
			case lifecycle.Ended:
				got = fmt.Sprintf("ended %s state=%t untouched=%t permanent=%t %s", e.Result.Outcome, e.Result.State, e.Result.Untouched, e.Result.Permanent, e.Result.Error)
			}
			if got != tt.want || !slices.Equal(tt.step.asked, tt.asked) {
				t.Errorf("%s, asked %v", cmp.Diff(tt.want, got), tt.step.asked)
			}
		})
	}
}

// TestAdvanceEnds checks that a process that ends reports nothing of an attempt.
func TestAdvanceEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	event, err := run.Advance(ctx, run.Carrier{Executor: &step{err: context.Canceled}}, run.Attempt{Begun: true}, time.Time{})
	if event != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", event, err)
	}
}
