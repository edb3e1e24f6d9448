// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
)

// Bounds of what follows the end of an attempt.
const (
	destroyAttempts = 5
	lockedAgain     = time.Minute
	maxOutput       = 4 << 10 // bytes of one output
)

// retryAfter returns how long the n-th retry of an apply waits: row 6.
func retryAfter(n int) time.Duration {
	switch n {
	case 1:
		return 10 * time.Second
	case 2:
		return time.Minute
	}
	return 5 * time.Minute
}

// destroyAfter returns how long the n-th retry of a destroy waits: row 18.
func destroyAfter(n int) time.Duration {
	switch n {
	case 1:
		return time.Minute
	case 2:
		return 5 * time.Minute
	case 3:
		return 20 * time.Minute
	}
	return time.Hour
}

// ended handles the end of an attempt: rows 3, 5 to 7, 11, 17, 18 and 23. The end of
// any attempt other than the record's current one is ignored.
func (w outcomes) ended(e Ended) {
	r := w.runQueue().running(e.Ref)
	if r == nil {
		return
	}
	r = w.edit(r)
	if w.endings().expired(r) {
		w.endings().expire(r)
	}
	w.effects = slices.DeleteFunc(w.effects, func(x Effect) bool { return x.Kind == CancelRun && x.Ref == e.Ref })
	if r.Run == nil {
		return // the drift comparison of an instance that was orphaned
	}
	r.unset(Waiting)
	r.Run.learn(e.Result)
	if r.isWorkspace() {
		w.workspaceRuns().workspaceEnded(r, e.Result)
		return
	}
	r.Applied = r.Applied || e.Result.State
	if n := e.Result.Resources; n >= 0 || r.Run.Kind != RunDestroy { // a destroy creates no resources
		r.Empty = n == 0
	}
	switch {
	case r.Then != nil || r.Phase == Destroying && r.Run.Kind != RunDestroy:
		w.stopped(r, e)
	case r.Run.Kind == RunDestroy:
		w.destroyEnded(r, e.Result)
	case r.Run.Kind == RunDrift:
		w.driftEnded(r, e.Result)
	default:
		w.applyEnded(r, e)
	}
	w.endings().expireCheck(r.ID)
}

// learn records what an attempt found out.
func (r *Run) learn(res Result) {
	r.Applied = r.Applied || r.Kind == RunApply && !res.Untouched
	if res.Lock != "" && len(res.Lock) <= 128 {
		r.Source.Lock = res.Lock
	}
	if res.Counts != nil {
		c := *res.Counts
		r.Counts = &c
	}
	if res.Plan != "" {
		r.Cost = res.Cost
	}
}

// stopped continues with the reason for which a run was stopped.
func (w outcomes) stopped(r *Record, e Ended) {
	if e.Result.Outcome == Done && r.Run.Kind == RunApply {
		w.recordApplied(r)
	}
	then := r.Then
	outcome := e.Result.Outcome
	r.Then = nil
	w.runQueue().endRun(r, outcomeOf(outcome), e.Result.Error)
	switch {
	case r.Phase == Destroying:
		w.endings().destroyRun(r)
	case then.Cancel != "":
		why := then.Cancel
		then.Cancel = ""
		r.Run = then
		w.fail(r, Cancelled, why)
	default:
		w.runQueue().queue(r, then)
	}
}

// outcomeOf returns the result that a record stores for an outcome.
func outcomeOf(outcome string) string {
	switch outcome {
	case Done, Lost, Cancelled:
		return outcome
	}
	return RunFailed
}

func (w outcomes) applyEnded(r *Record, e Ended) {
	run := r.Run
	res := e.Result
	switch {
	case res.Outcome == Done && run.Kind == RunApply:
		w.applied(r, e)
	case run.Cancel != "":
		w.fail(r, outcomeOf(res.Outcome), run.Cancel)
	case res.Outcome == Done && validPlan(res.Plan):
		w.planned(r, res)
	case res.Outcome == Done:
		w.again(r, Result{Error: "the plan has no digest"})
	case res.Outcome == Held:
		w.runQueue().await(r, lockedAgain, WaitStateLocked, res.Error)
	case res.Outcome == Stale:
		w.planAnew(r)
		w.runQueue().await(r, 0, WaitQueued, "the plan did not fit any more")
	default:
		w.again(r, res)
	}
}

// failure returns the text for a failed attempt.
func failure(res Result) string {
	if res.Error == "" && res.Outcome == Lost {
		return "contact with the run was lost"
	}
	if res.Error == "" {
		return "the run " + outcomeOf(res.Outcome)
	}
	return res.Error
}

func validPlan(plan string) bool { return plan != "" && len(plan) <= 256 }

// planAnew makes the next attempt plan again, if the plan is reviewed before it is
// applied.
func (w outcomes) planAnew(r *Record) {
	run := r.Run
	run.Approved = ""
	run.Plan = ""
	run.Planned = 0
	if w.approvals().approval(r, run.Snapshot, template.ApprovalPlan) {
		run.Confirmed = nil
	}
	if w.runQueue().planFirst(r, run) {
		run.Kind = RunPlan
	}
}

// again implements rows 6 and 7: another attempt, if any are left and the error may be
// temporary.
func (w outcomes) again(r *Record, res Result) {
	run := r.Run
	text := failure(res)
	run.Failures++
	run.Error = clip(text, maxText)
	retries := w.doc.template(run.Snapshot).Retries
	if run.Failures > retries || res.Permanent {
		w.fail(r, RunFailed, text)
		return
	}
	w.planAnew(r)
	w.runQueue().await(r, retryAfter(run.Failures), WaitRetry, fmt.Sprintf("attempt %d of %d failed: %s", run.Failures, retries+1, text))
}

// fail implements row 7.
func (w outcomes) fail(r *Record, result, why string) {
	w.runQueue().endRun(r, result, why)
	r.Phase = Failed
	r.Reason = clip(why, maxText)
	happened(w.step, r, "failed", why)
	if t := w.doc.template(r.Snapshot).TTL; t != nil && t.Failed > 0 && r.ReadyAt.IsZero() {
		end := w.now.Add(max(t.Failed, template.MinTTL))
		if r.ExpiresAt.IsZero() || end.Before(r.ExpiresAt) {
			w.endings().setEnd(r, end)
		}
	}
	w.notices().notice(r, NoticeFailed)
	if r.Owner.ID == "" {
		w.poolMembers().memberFailed(r)
	}
}

// recordApplied records the source, template and parameters that a run applied as those of the
// instance.
func (w outcomes) recordApplied(r *Record) {
	run := r.Run
	switchesOf(w.step).hear(r)
	r.Source = run.Source
	revised := run.Snapshot != "" && run.Snapshot != r.Snapshot
	if revised {
		r.Snapshot = run.Snapshot
		r.Revised = true
		w.unusedTemplates = true
	}
	if run.Parameters != nil {
		r.Parameters = run.Parameters
	}
	switchesOf(w.step).settled(r, revised, run.Off)
}

// applied implements rows 5 and 11.
func (w outcomes) applied(r *Record, e Ended) {
	w.recordApplied(r)
	w.runQueue().endRun(r, Done, "")
	happened(w.step, r, r.Runs[0].reached(), "")
	t := w.doc.template(r.Snapshot)
	r.Reason = ""
	r.Outputs = listed(e.Result.Outputs, t.Outputs)
	r.Connection = bounded(e.Connection)
	r.unset(Drifted)
	if r.Runs[0].Switch {
		r.Phase = Ready
		return
	}
	r.unset(UpdateAvailable)
	first := r.ReadyAt.IsZero()
	if first {
		r.ReadyAt = w.now
	}
	if r.Owner.ID == "" {
		r.Phase = Available
		w.setEndless(r)
		w.poolMembers().memberReady(r.Template)
		return
	}
	r.Phase = Ready
	w.begins(r, t, first)
	w.notices().notice(r, noticeReady)
}

// reached names the state that a successful run leads to.
func (r *Run) reached() string {
	switch {
	case !r.Switch:
		return "ready"
	case r.Off:
		return "stopped"
	}
	return "started"
}

// setEndless removes the end of a pool member: its lifetime begins with the claim.
func (w outcomes) setEndless(r *Record) {
	r.ExpiresAt = time.Time{}
	w.notices().armNotices(r)
}

// begins starts the lifetime when an instance is first ready, or when an update gives
// it one.
func (w outcomes) begins(r *Record, t *template.Template, first bool) {
	if t.TTL == nil || !first && !r.ExpiresAt.IsZero() {
		return
	}
	if r.TTL == 0 {
		r.TTL = max(t.TTL.Default, template.MinTTL)
	}
	w.endings().endAfter(r, r.TTL)
}

// listed returns the outputs that a template lists, each up to 4 KiB.
func listed(outputs map[string]json.RawMessage, names []string) map[string]json.RawMessage {
	kept := map[string]json.RawMessage{}
	for _, name := range names {
		if v, ok := outputs[name]; ok && len(v) <= maxOutput && json.Valid(v) {
			kept[name] = v
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// bounded cuts a connection to the size that a record stores.
func bounded(c *template.Connection) *template.Connection {
	if c == nil || len(c.URL) > maxOutput {
		return nil
	}
	return &template.Connection{Type: clip(c.Type, 32), URL: c.URL, Message: clip(c.Message, maxOutput)}
}

// planned implements row 3. The plan of an automatic update is applied if it destroys
// and replaces nothing.
func (w outcomes) planned(r *Record, res Result) {
	run := r.Run
	approved := !run.Auto || w.approvals().approval(r, run.Snapshot, template.ApprovalPlan)
	if why := tooLarge(res.PlanSize); why != "" && approved {
		w.fail(r, RunFailed, why) // any other attempt would fail too
		return
	}
	run.Plan = res.Plan
	run.Planned = run.Attempt
	run.EndedAt = w.now
	outcome(w.step, r, "plan made", run, "")
	if approved {
		r.Phase = Planned
		w.notices().notice(r, noticeApproval)
		return
	}
	if c := run.Counts; c != nil && c.Remove == 0 && c.Replace == 0 {
		w.approvals().approvePlan(r)
		return
	}
	r.set(UpdateAvailable, "Destroys", "version "+run.Source.Version+" would destroy or replace resources")
	r.Phase = run.From
	w.runQueue().endRun(r, Cancelled, "the update would destroy or replace resources")
}

// destroyEnded implements rows 17 and 18.
func (w outcomes) destroyEnded(r *Record, res Result) {
	if res.Outcome == Held {
		w.runQueue().await(r, lockedAgain, WaitStateLocked, res.Error)
		return
	}
	for _, address := range res.Left[:min(len(res.Left), MaxLeft)] {
		if address = clip(address, MaxLeftAddress); len(r.Left) < MaxLeft && !slices.Contains(r.Left, address) {
			r.Left = append(slices.Clone(r.Left), address)
		}
	}
	if res.Outcome == Done && res.Resources == 0 {
		why := r.Reason
		if len(r.Left) > 0 {
			why = "left behind, as the module says, and perhaps costing: " + strings.Join(r.Left, ", ")
		}
		w.runQueue().endRun(r, Done, "")
		happened(w.step, r, "destroyed", why)
		w.endings().finish(r, Destroyed, why)
		return
	}
	text := failure(res)
	if res.Outcome == Done {
		text = "resources are left in the state"
	}
	run := r.Run
	run.Failures++
	run.Error = clip(text, maxText)
	if run.Failures < destroyAttempts {
		w.runQueue().await(r, destroyAfter(run.Failures), WaitRetry, fmt.Sprintf("attempt %d of %d failed: %s", run.Failures, destroyAttempts, text))
		return
	}
	notDestroyed(w.step, r, RunFailed, fmt.Sprintf("destroy failed %d times: %s", run.Failures, text))
}

// notDestroyed ends a destroy run that left resources: it is retried in a day, or on
// request.
func notDestroyed(w *step, r *Record, result, why string) {
	w.runQueue().endRun(r, result, r.Run.Error)
	r.Phase = DestroyFailed
	r.Reason = clip(why, maxText)
	happened(w, r, "not destroyed", why)
	w.notices().notice(r, NoticeDestroyFailed)
}

// attemptCount returns a number of attempts in words.
func attemptCount(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// driftEnded implements row 23.
func (w outcomes) driftEnded(r *Record, res Result) {
	c := res.Counts
	w.runQueue().endRun(r, outcomeOf(res.Outcome), res.Error)
	if res.Outcome != Done {
		return
	}
	if c == nil || *c == (Counts{}) {
		r.unset(Drifted)
		return
	}
	if r.condition(Drifted).Type == "" {
		w.notices().notice(r, noticeDrifted)
	}
	r.set(Drifted, "", fmt.Sprintf("%d added, %d changed, %d removed outside", c.Add, c.Change, c.Remove))
	if t := w.doc.template(r.Snapshot); t.Drift != nil && t.Drift.Remediate && !w.endings().expired(r) {
		w.changes().renew(r, w.runQueue().newRun(r, RunApply), "")
	}
}
