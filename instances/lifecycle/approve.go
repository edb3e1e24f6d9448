// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/plantext"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
)

// Awaits returns what an approval has to name now: the plan that waits, or the digest
// of a request ([RequestPlan]); "" if nothing waits for approval.
func Awaits(r *Record) string {
	switch {
	case r.Phase == Planned && r.Run != nil:
		return r.Run.Plan
	case r.Phase == Requested || r.waitsForChange():
		return RequestPlan(r)
	}
	return ""
}

// waitsForChange reports whether a change of an existing instance can be approved now.
// It cannot while the instance runs.
func (r *Record) waitsForChange() bool {
	return r.Pending != nil && (r.Phase == Ready || r.Phase == Failed)
}

// RequestPlan returns what an approval of a request names: a digest of everything shown
// of the request and of what it changes. An approval of a plan names [Run.Plan].
func RequestPlan(r *Record) string {
	seen, err := json.Marshal(struct {
		Snapshot   string
		Source     template.Source
		Parameters map[string]json.RawMessage
		Owner      [3]string
		Claims     map[string]string
		TTL        time.Duration
		Pending    *Pending
	}{r.Snapshot, r.Source, r.Parameters, [3]string{r.Owner.Kind, r.Owner.Issuer, r.Owner.ID}, r.Claims, r.TTL, r.Pending})
	if err != nil {
		return "" // no approval can name it
	}
	sum := sha256.Sum256(seen)
	return "request@sha256:" + hex.EncodeToString(sum[:])
}

// WantedBy returns the requester of what waits for approval ([Awaits]).
func (r *Record) WantedBy() Actor {
	switch {
	case r.Phase == Planned:
		return r.Run.By
	case r.Phase == Requested:
		return r.CreatedBy
	}
	return r.Pending.By
}

// approve implements rows 2, 4 and 10.
func (w approvals) approve(e Approve) (Answer, error) {
	r, err := w.lookup(e.ID, verbApprove)
	if err != nil {
		return Answer{}, err
	}
	if err := w.mayApprove(r); err != nil {
		return Answer{}, err
	}
	plan := Awaits(r)
	if e.Plan != plan || plan == "" {
		return Answer{}, refuse(ErrStalePlan, "the plan changed since you looked at it")
	}
	r = w.edit(r)
	w.note(r, "approved", plan)
	if e.Why != "" {
		w.note(r, "commented", e.Why)
	}
	switch r.Phase {
	case Planned:
		r.Run.Confirmed = new(w.person())
		w.approvePlan(r)
	case Requested:
		w.makeApproved(r)
	default:
		w.changeApproved(r)
	}
	return Answer{Status: 200, Record: r}, nil
}

// mayApprove refuses the requester of a run and the sole owner: another person must
// approve.
func (w approvals) mayApprove(r *Record) error {
	a := w.command.Actor
	switch {
	case a.Subject == "":
		return refuse(ErrDenied, "only a person approves")
	case w.Limits.ApprovalSelf:
		return nil
	case a.same(r.WantedBy()), r.Phase == Planned && r.Run.First != nil && a.same(*r.Run.First):
		return refuse(ErrDenied, "it must be approved by someone other than the requester")
	case a.is(r.Owner):
		return refuse(ErrDenied, "it must be approved by someone other than its owner")
	}
	return nil
}

// makeApproved runs an approved request: row 2.
func (w approvals) makeApproved(r *Record) {
	why := ""
	if r.Pending != nil {
		why = r.Pending.Why
	}
	r.Phase = Provisioning
	r.Since = w.now
	r.Pending = nil
	w.endings().endAfter(r, r.TTL+runTime(w.doc.template(r.Snapshot)))
	run := w.runQueue().newRun(r, RunApply)
	run.By = r.CreatedBy
	run.Why = why
	run.Confirmed = new(w.person())
	w.runQueue().queue(r, run)
}

// changeApproved applies an approved change to an existing instance.
func (w approvals) changeApproved(r *Record) {
	p := r.Pending
	r.Pending = nil
	if p.Update == nil {
		w.endings().endLater(r, p.Until, p.Until.Sub(later(r.ExpiresAt, w.now)))
		return
	}
	run := w.runQueue().newRun(r, RunApply)
	run.By = p.By
	run.Why = p.Why
	run.Confirmed = new(w.person())
	run.Auto = p.Update.Auto
	run.Source = p.Update.Source
	run.Snapshot = p.Update.Snapshot
	run.Parameters = p.Update.Parameters
	r.Approved = template.Owner{}
	w.changes().renew(r, run, "an update follows")
}

// approval reports whether the template of a record, or the one that its run would use,
// requires an approval of a kind. Both count, so that a change of template cannot
// bypass the approval that the current template requires.
func (w approvals) approval(r *Record, snapshot, kind string) bool {
	return w.doc.template(r.Snapshot).Approval == kind || w.doc.template(cmp.Or(snapshot, r.Snapshot)).Approval == kind
}

// apply queues another apply after the running one, or lets it wait for approval: row
// 10.
func (w approvals) apply(r *Record, run *Run, detail string) (Answer, error) {
	if w.unapproved(r, run) {
		return w.askRun(r, run)
	}
	w.note(r, "updated", detail)
	w.changes().renew(r, run, "an update follows")
	return Answer{Status: 200, Record: r}, nil
}

// unapproved reports whether a run has to be approved before it begins. A stop or start
// needs no approval.
func (w approvals) unapproved(r *Record, run *Run) bool {
	return w.approval(r, run.Snapshot, template.ApprovalRequest) && run.Confirmed == nil && !run.Switch && !run.same(r)
}

// askRun makes a run wait for approval.
func (w approvals) askRun(r *Record, run *Run) (Answer, error) {
	w.note(r, "update requested", "version "+run.Source.Version)
	return w.ask(r, Pending{By: run.By, Why: run.Why, Update: &pendingUpdate{
		Source: run.Source, Snapshot: run.Snapshot, Parameters: run.Parameters, Auto: run.Auto,
	}})
}

// approvedFor reports whether an approval of a record was given for its present owner.
func approvedFor(r *Record) bool { return r.Approved.ID == "" || r.Approved.Same(r.Owner) }

// same reports whether a run would change nothing of a record. An approved run may be
// repeated without another approval.
func (r *Run) same(of *Record) bool {
	if r.Source != of.Source || r.Snapshot != of.Snapshot || !approvedFor(of) {
		return false
	}
	return r.Parameters == nil || maps.EqualFunc(r.Parameters, of.Parameters, func(a, b json.RawMessage) bool { return string(a) == string(b) })
}

// ask makes a change wait for approval. A person's request is not replaced by another
// one before it is decided or withdrawn.
func (w approvals) ask(r *Record, p Pending) (Answer, error) {
	if had := r.Pending; had != nil && had.By.Subject != "" {
		return Answer{}, refuse(ErrPhase, "a change of instance %s waits for approval: let that be decided, or cancel it first", r.ID)
	}
	if r.Phase != Ready && r.Phase != Failed {
		return Answer{}, refuse(ErrPhase, "instance %s is %s, and what needs approval can be asked for when it is ready", r.ID, r.Phase)
	}
	p.At = w.now
	p.Salt = w.newNonce()
	p.Why = clip(p.Why, maxDetail)
	r.Pending = &p
	w.unusedTemplates = true // of the request that it replaces
	w.notices().notice(r, noticeApproval)
	return Answer{Status: 202, Record: r}, nil
}

// approvePlan applies exactly the waiting plan.
func (w approvals) approvePlan(r *Record) {
	run := r.Run
	run.Approved = run.Plan
	run.Kind = RunApply
	run.QueuedAt = w.now
	r.Phase = phaseOf(run.From)
	w.runQueue().await(r, 0, WaitQueued, "")
}

// phaseOf returns the phase of an instance while a run is pending that was requested in
// phase from.
func phaseOf(from Phase) Phase {
	if from == Ready || from == Failed {
		return Updating
	}
	return Provisioning
}

// reject implements rows 2, 4 and 10.
func (w approvals) reject(e Reject) (Answer, error) {
	r, err := w.lookup(e.ID, verbReject)
	if err != nil {
		return Answer{}, err
	}
	why := "rejected"
	if e.Reason != "" {
		why += ": " + e.Reason
	}
	r = w.edit(r)
	w.note(r, "rejected", e.Reason)
	w.decline(r, resultRejected, why)
	return Answer{Status: 200, Record: r}, nil
}

// resultRejected is the result of a run whose plan was rejected.
const resultRejected = string(Rejected)

// decline discards what waits for approval, and ends its run with a result.
func (w approvals) decline(r *Record, result, why string) {
	switch r.Phase {
	case Requested:
		w.endings().finish(r, Rejected, why)
	case Planned:
		w.putBack(r, result, why)
	default:
		w.dropPending(r, why)
	}
}

// dropPending discards the pending change and leaves the instance unchanged. The server
// does not propose the same update again.
func (w approvals) dropPending(r *Record, why string) {
	if u := r.Pending.Update; u != nil && u.Auto {
		r.Declined = revisionOf(u.Snapshot, u.Source)
		r.set(UpdateAvailable, "Rejected", "version "+u.Source.Version+" was "+why)
	}
	r.Pending = nil
	if r.Phase == Ready {
		r.Reason = clip(why, maxText)
	}
	w.unusedTemplates = true
}

// putBack discards a plan: an instance that was ready or failed before goes back to
// that phase, any other is destroyed.
func (w approvals) putBack(r *Record, result, why string) {
	from := r.Run.From
	w.runQueue().endRun(r, result, why)
	if from == Ready || from == Failed {
		r.Phase = from
		r.Reason = clip(why, maxText)
		return
	}
	w.endings().destroy(r, why)
}

// tooLarge returns why a plan cannot be approved; "" if it can.
func tooLarge(size int64) string {
	if size <= plantext.Max {
		return ""
	}
	return fmt.Sprintf("plan too large to approve: %s, limit 1 MiB", text.Size(size))
}
