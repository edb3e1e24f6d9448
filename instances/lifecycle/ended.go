// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
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

// How long the retries wait: rows 6 and 18.
var (
	applyWaits   = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute}
	destroyWaits = []time.Duration{time.Minute, 5 * time.Minute, 20 * time.Minute, time.Hour}
)

// retryWait returns how long the n-th retry waits; after the last, as long as that.
func retryWait(waits []time.Duration, n int) time.Duration {
	return waits[min(max(n, 1), len(waits))-1]
}

// endAttempt handles the end of the current attempt, of no other: rows 3, 5 to 7, 11, 17, 18, 23.
func endAttempt(tx *tx, e Ended) {
	r := findRunning(tx, e.Ref)
	if r == nil {
		return
	}
	r = tx.edit(r)
	if isExpired(tx, r) {
		expireInstance(tx, r)
	}
	tx.effects = slices.DeleteFunc(tx.effects, func(x Effect) bool { return x.Kind == CancelRun && x.Ref == e.Ref })
	if r.Run == nil {
		return // the drift comparison of an instance that was orphaned
	}
	r.unsetCondition(Waiting)
	r.Run.recordResult(e.Result)
	if r.Run.Ask != nil {
		endWorkspaceAttempt(tx, r, e.Result)
		return
	}
	r.Applied = r.Applied || e.Result.State
	left := e.Result.Left
	if r.Run.Kind == RunApply && !e.Result.Untouched {
		left = r.Run.forgets()
	}
	keepLeft(r, left)
	r.Untouched = r.Untouched && e.Result.Untouched && !e.Result.State
	if n := e.Result.Resources; n >= 0 || r.Run.Kind != RunDestroy { // a destroy creates no resources
		r.Empty = n == 0
		r.Unsure = r.Unsure && n <= 0
		r.Made = n > 0 || r.Made && n < 0
	}
	switch {
	case r.Then != nil || r.Phase == Destroying && r.Run.Kind != RunDestroy:
		continueStopped(tx, r, e)
	case r.Run.Kind == RunDestroy:
		handleDestroyEnd(tx, r, e.Result)
	case r.Run.Kind == RunDrift:
		handleDriftEnd(tx, r, e.Result)
	default:
		handleApplyEnd(tx, r, e)
	}
	handleDeadlines(tx, r.ID)
}

// recordResult records what an attempt found out.
func (r *Run) recordResult(res Result) {
	r.Applied = r.Applied || r.Kind == RunApply && !res.Untouched
	if res.Lock != "" && len(res.Lock) <= 128 {
		r.Source.Lock = res.Lock
	}
	if res.Counts != nil {
		r.Counts = new(*res.Counts)
		if res.Plan != "" {
			r.Notes = nil
		}
		r.Notes = JoinNotes(r.Notes, res.Notes)
	}
	if res.Plan != "" {
		r.Cost = res.Cost
	}
}

// forgets returns the addresses of resources that an apply stopped managing and did not destroy.
func (r *Run) forgets() (list []string) {
	for _, n := range r.Notes {
		if n.Kind == NoteForget {
			list = append(list, n.Text)
		}
	}
	if c := r.Counts; c != nil && c.Forget > len(list) && len(list) > 0 {
		list = append(list, fmt.Sprintf("and %d more", c.Forget-len(list)))
	}
	return list
}

// keepLeft records resources that a run left behind. One address may be left by several runs, but by one attempt only.
func keepLeft(r *Record, left []string) {
	for _, address := range left[:min(len(left), MaxLeft)] {
		if address = clipForeign(address, MaxLeftAddress); len(r.Left) < MaxLeft && (r.Run.Failures == 0 || !slices.Contains(r.Left, address)) {
			r.Left = append(slices.Clone(r.Left), address)
		}
	}
}

// leftWords says what was left behind; "" if nothing was.
func leftWords(r *Record) string {
	if len(r.Left) == 0 {
		return ""
	}
	return "left behind, as the module specifies, and may incur costs: " + strings.Join(r.Left, ", ")
}

// JoinNotes adds notes to those of the plan, whose checks are made again when it is applied.
func JoinNotes(plan, now []Note) (all []Note) {
	for i, n := range slices.Concat(plan, now) {
		n = Note{clipForeign(n.Kind, 20), clipForeign(n.Text, MaxLeftAddress)}
		if len(all) < MaxNotes && !slices.Contains(all, n) && (i >= len(plan) || n.Kind != NoteCheck) {
			all = append(all, n)
		}
	}
	return all
}

func continueStopped(tx *tx, r *Record, e Ended) {
	if e.Result.Outcome == Done && r.Run.Kind == RunApply {
		recordApplied(tx, r)
	}
	then := r.Then
	outcome := e.Result.Outcome
	r.Then = nil
	endRun(tx, r, outcomeOf(outcome), e.Result.Error)
	switch {
	case r.Phase == Destroying:
		queueDestroy(tx, r)
	case then.Cancel != "":
		why := then.Cancel
		then.Cancel = ""
		r.Run = then
		failInstance(tx, r, Cancelled, why)
	default:
		queueRun(tx, r, then)
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

func handleApplyEnd(tx *tx, r *Record, e Ended) {
	run := r.Run
	res := e.Result
	switch {
	case res.Outcome == Done && run.Kind == RunApply:
		finishApply(tx, r, e)
	case run.Cancel != "":
		failInstance(tx, r, outcomeOf(res.Outcome), run.Cancel)
	case res.Outcome == Done && isValidPlan(res.Plan):
		reviewPlan(tx, r, res)
	case res.Outcome == Done:
		retryRun(tx, r, Result{Error: "the plan has no digest"})
	case res.Outcome == Held:
		awaitAttempt(tx, r, lockedAgain, WaitStateLocked, res.Error)
	case res.Outcome == Stale:
		planAgain(tx, r)
		awaitAttempt(tx, r, 0, WaitQueued, "the plan is out of date")
	default:
		retryRun(tx, r, res)
	}
}

func failureText(res Result) string {
	if res.Outcome == Lost {
		return cmp.Or(res.Error, "contact with the run was lost")
	}
	return cmp.Or(res.Error, "the run "+outcomeOf(res.Outcome))
}

func isValidPlan(plan string) bool { return plan != "" && len(plan) <= 256 }

// planAgain makes the next attempt plan again, if the plan is reviewed.
func planAgain(tx *tx, r *Record) {
	run := r.Run
	run.Approved = ""
	run.Plan = ""
	run.Planned = 0
	if needsApproval(tx, r, run.Snapshot, template.ApprovalPlan) {
		run.Confirmed = nil
	}
	if needsPlanFirst(tx, r, run) {
		run.Kind = RunPlan
	}
}

// retryRun implements rows 6 and 7: another attempt, if one is left and the error may pass.
func retryRun(tx *tx, r *Record, res Result) {
	run := r.Run
	text := failureText(res)
	run.Failures++
	run.Error = clipForeign(text, maxText)
	retries := tx.doc.template(run.Snapshot).Retries
	if run.Failures > retries || res.Permanent {
		failInstance(tx, r, RunFailed, text)
		return
	}
	planAgain(tx, r)
	awaitAttempt(tx, r, retryWait(applyWaits, run.Failures), WaitRetry, fmt.Sprintf("attempt %d of %d failed: %s", run.Failures, retries+1, text))
}

// failInstance implements row 7.
func failInstance(tx *tx, r *Record, result, why string) {
	endRun(tx, r, result, why)
	r.Phase = Failed
	r.Reason = clipForeign(why, maxText)
	recordRunEnd(tx, r, "failed", why)
	if t := tx.doc.template(r.Snapshot).TTL; t != nil && t.Failed > 0 && r.ReadyAt.IsZero() {
		end := tx.now.Add(max(t.Failed, template.MinTTL))
		if r.ExpiresAt.IsZero() || end.Before(r.ExpiresAt) {
			setEnd(tx, r, end)
		}
	}
	addNotice(tx, r, NoticeFailed)
	if r.Owner.ID == "" {
		countMemberFailure(tx, r)
	}
}

// recordApplied makes what a run applied the source, template and parameters of the instance.
func recordApplied(tx *tx, r *Record) {
	run := r.Run
	requestScheduled(tx, r)
	r.Source = run.Source
	revised := run.Snapshot != "" && run.Snapshot != r.Snapshot
	if revised {
		r.Snapshot = run.Snapshot
		r.Revised = true
		tx.unusedTemplates = true
	}
	if run.Parameters != nil {
		r.Parameters = run.Parameters
	}
	recordSwitched(tx, r, revised, run.Off)
}

// finishApply implements rows 5 and 11.
func finishApply(tx *tx, r *Record, e Ended) {
	recordApplied(tx, r)
	endRun(tx, r, Done, "")
	t := tx.doc.template(r.Snapshot)
	r.Reason = clipForeign(leftWords(r), maxText)
	recordRunEnd(tx, r, r.Runs[0].stateReached(), r.Reason)
	r.Outputs = listOutputs(e.Result.Outputs, t.Outputs)
	r.Connection = limitConnection(e.Connection)
	r.unsetCondition(Drifted)
	if r.Runs[0].Switch {
		r.Phase = Ready
		return
	}
	r.unsetCondition(UpdateAvailable)
	first := r.ReadyAt.IsZero()
	if first {
		r.ReadyAt = tx.now
	}
	if r.Owner.ID == "" {
		r.Phase = Available
		r.ExpiresAt = time.Time{} // its lifetime begins with the claim
		armNotices(tx, r)
		clearMemberFailures(tx, r.Template)
		return
	}
	r.Phase = Ready
	beginLifetime(tx, r, t, first)
	addNotice(tx, r, noticeReady)
}

func (r *Run) stateReached() string {
	switch {
	case !r.Switch:
		return "ready"
	case r.Off:
		return "stopped"
	}
	return "started"
}

// beginLifetime starts the lifetime at the first ready, or at the update that gives one.
func beginLifetime(tx *tx, r *Record, t *template.Template, first bool) {
	if t.TTL == nil || !first && !r.ExpiresAt.IsZero() {
		return
	}
	r.TTL = cmp.Or(r.TTL, max(t.TTL.Default, template.MinTTL))
	setEndAfter(tx, r, r.TTL)
}

// listOutputs returns the outputs that a template lists, each up to 4 KiB.
func listOutputs(outputs map[string]json.RawMessage, names []string) map[string]json.RawMessage {
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

// limitConnection cuts a connection to the size that a record stores.
func limitConnection(c *template.Connection) *template.Connection {
	if c == nil || len(c.URL) > maxOutput {
		return nil
	}
	return &template.Connection{Type: clipForeign(c.Type, 32), URL: c.URL, Message: clipForeign(c.Message, maxOutput)}
}

// reviewPlan implements row 3. An automatic update that destroys and replaces nothing is applied.
func reviewPlan(tx *tx, r *Record, res Result) {
	run := r.Run
	approved := !run.Auto || needsApproval(tx, r, run.Snapshot, template.ApprovalPlan)
	if why := explainTooLarge(res.PlanSize); why != "" && approved {
		failInstance(tx, r, RunFailed, why) // any other attempt would fail too
		return
	}
	run.Plan = res.Plan
	run.Planned = run.Attempt
	run.EndedAt = tx.now
	recordRunEvent(tx, r, "plan made", run, "")
	if approved {
		r.Phase = Planned
		addNotice(tx, r, noticeApproval)
		return
	}
	if c := run.Counts; c != nil && c.Remove == 0 && c.Replace == 0 {
		approvePlan(tx, r)
		return
	}
	r.setCondition(UpdateAvailable, "Destroys", "version "+run.Source.Version+" would destroy or replace resources")
	r.Phase = run.From
	endRun(tx, r, Cancelled, "the update would destroy or replace resources")
}

// handleDestroyEnd implements rows 17 and 18.
func handleDestroyEnd(tx *tx, r *Record, res Result) {
	if res.Outcome == Held {
		awaitAttempt(tx, r, lockedAgain, WaitStateLocked, res.Error)
		return
	}
	if res.Outcome == Done && res.Resources == 0 {
		why := cmp.Or(leftWords(r), r.Reason)
		endRun(tx, r, Done, "")
		recordRunEnd(tx, r, "destroyed", why)
		finishRecord(tx, r, Destroyed, why)
		return
	}
	text := failureText(res)
	if res.Outcome == Done {
		text = "resources are left in the state"
	}
	run := r.Run
	run.Failures++
	run.Error = clipForeign(text, maxText)
	if run.Failures < destroyAttempts {
		awaitAttempt(tx, r, retryWait(destroyWaits, run.Failures), WaitRetry, fmt.Sprintf("attempt %d of %d failed: %s", run.Failures, destroyAttempts, text))
		return
	}
	failDestroy(tx, r, RunFailed, fmt.Sprintf("destroy failed %d times: %s", run.Failures, text))
}

// failDestroy ends a destroy run that left resources: again in a day, or on request.
func failDestroy(tx *tx, r *Record, result, why string) {
	endRun(tx, r, result, r.Run.Error)
	r.Phase = DestroyFailed
	r.Reason = clipForeign(why, maxText)
	recordRunEnd(tx, r, "not destroyed", why)
	addNotice(tx, r, NoticeDestroyFailed)
}

// handleDriftEnd implements row 23.
func handleDriftEnd(tx *tx, r *Record, res Result) {
	c := res.Counts
	endRun(tx, r, outcomeOf(res.Outcome), res.Error)
	if res.Outcome != Done {
		return
	}
	if c == nil || *c == (Counts{}) {
		r.unsetCondition(Drifted)
		return
	}
	if r.condition(Drifted).Type == "" {
		addNotice(tx, r, noticeDrifted)
	}
	r.setCondition(Drifted, "", fmt.Sprintf("%d added, %d changed, %d removed outside of okara", c.Add, c.Change, c.Remove))
	if t := tx.doc.template(r.Snapshot); t.Drift != nil && t.Drift.Remediate && !isExpired(tx, r) {
		queueUpdate(tx, r, newRun(tx, r, RunApply), "")
	}
}
