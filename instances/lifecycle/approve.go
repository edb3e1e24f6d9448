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

// Awaits returns what an approval has to name: the plan that waits, or a [RequestPlan]; "": none.
func Awaits(r *Record) string {
	switch {
	case r.Phase == Planned && r.Run != nil:
		return r.Run.Plan
	case r.Phase == Requested || r.waitsForChange():
		return RequestPlan(r)
	}
	return ""
}

// waitsForChange reports whether a change can be approved now, which it cannot during a run.
func (r *Record) waitsForChange() bool {
	return r.Pending != nil && (r.Phase == Ready || r.Phase == Failed)
}

// RequestPlan returns what the approval of a request names, a digest of all that is shown of it;
// that of a plan names [Run.Plan].
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

// applyTo implements rows 2, 4 and 10.
func (e Approve) applyTo(tx *tx) (Answer, error) {
	r, err := findInstance(tx, e.ID, verbApprove)
	if err != nil {
		return Answer{}, err
	}
	if err := tx.machine.CheckApprover(tx.command.Actor, r); err != nil {
		return Answer{}, err
	}
	plan := Awaits(r)
	if e.Plan != plan || plan == "" {
		return Answer{}, newRefusal(ErrStalePlan, "the plan changed since you reviewed it")
	}
	r = tx.edit(r)
	tx.recordEvent(r, "approved", plan)
	if e.Why != "" {
		tx.recordEvent(r, "commented", e.Why)
	}
	switch r.Phase {
	case Planned:
		r.Run.Confirmed = new(tx.storedActor())
		approvePlan(tx, r)
	case Requested:
		startApprovedLaunch(tx, r)
	default:
		applyApprovedChange(tx, r)
	}
	return Answer{Status: 200, Record: r}, nil
}

// CheckApprover refuses the requester of a run and the sole owner: it takes another person.
func (m *Machine) CheckApprover(a Actor, r *Record) error {
	switch {
	case a.Subject == "":
		return newRefusal(ErrDenied, "only a person can approve")
	case m.Limits.ApprovalSelf:
		return nil
	case a.isSame(r.WantedBy()), r.Phase == Planned && r.Run.First != nil && a.isSame(*r.Run.First):
		return newRefusal(ErrDenied, "it must be approved by someone other than the requester")
	case a.isOwner(r.Owner):
		return newRefusal(ErrDenied, "it must be approved by someone other than its owner")
	}
	return nil
}

// startApprovedLaunch runs an approved request: row 2.
func startApprovedLaunch(tx *tx, r *Record) {
	why := ""
	if r.Pending != nil {
		why = r.Pending.Why
	}
	r.Phase = Provisioning
	r.Since = tx.now
	r.Pending = nil
	setEndAfter(tx, r, r.TTL+runTime(tx.doc.template(r.Snapshot)))
	run := newRun(tx, r, RunApply)
	run.By = r.CreatedBy
	run.Why = why
	run.Confirmed = new(tx.storedActor())
	queueRun(tx, r, run)
}

// applyApprovedChange applies an approved change to an existing instance.
func applyApprovedChange(tx *tx, r *Record) {
	p := r.Pending
	r.Pending = nil
	if p.Update == nil {
		applyExtension(tx, r, p.Until, p.Until.Sub(laterOf(r.ExpiresAt, tx.now)))
		return
	}
	run := newRun(tx, r, RunApply)
	run.By = p.By
	run.Why = p.Why
	run.Confirmed = new(tx.storedActor())
	run.Auto = p.Update.Auto
	run.Source = p.Update.Source
	run.Snapshot = p.Update.Snapshot
	run.Parameters = p.Update.Parameters
	r.Approved = template.Owner{}
	queueUpdate(tx, r, run, "an update follows")
}

// needsApproval reports whether the template of a record, or that of its run, requires an approval
// of a kind: a change of template cannot bypass the present one.
func needsApproval(tx *tx, r *Record, snapshot, kind string) bool {
	return tx.doc.template(r.Snapshot).Approval == kind || tx.doc.template(cmp.Or(snapshot, r.Snapshot)).Approval == kind
}

// updateOrAsk queues another apply after the running one, or asks for its approval: row 10.
func updateOrAsk(tx *tx, r *Record, run *Run, detail string) (Answer, error) {
	if isUnapproved(tx, r, run) {
		return askRunApproval(tx, r, run)
	}
	tx.recordEvent(r, "updated", detail)
	queueUpdate(tx, r, run, "an update follows")
	return Answer{Status: 200, Record: r}, nil
}

// isUnapproved reports whether a run has to be approved first. A stop or start need not be.
func isUnapproved(tx *tx, r *Record, run *Run) bool {
	return needsApproval(tx, r, run.Snapshot, template.ApprovalRequest) && run.Confirmed == nil && !run.Switch && !run.changesNothing(r)
}

func askRunApproval(tx *tx, r *Record, run *Run) (Answer, error) {
	tx.recordEvent(r, "update requested", "version "+run.Source.Version)
	return askApproval(tx, r, Pending{By: run.By, Why: run.Why, Update: &pendingUpdate{
		Source: run.Source, Snapshot: run.Snapshot, Parameters: run.Parameters, Auto: run.Auto,
	}})
}

func isApprovedForOwner(r *Record) bool { return r.Approved.ID == "" || r.Approved.Same(r.Owner) }

// changesNothing reports whether a run would change nothing of a record, and needs no new approval.
func (r *Run) changesNothing(of *Record) bool {
	if r.Source != of.Source || r.Snapshot != of.Snapshot || !isApprovedForOwner(of) {
		return false
	}
	return r.Parameters == nil || maps.EqualFunc(r.Parameters, of.Parameters, func(a, b json.RawMessage) bool { return string(a) == string(b) })
}

// askApproval makes a change wait for approval. It does not replace a person's open request.
func askApproval(tx *tx, r *Record, p Pending) (Answer, error) {
	if had := r.Pending; had != nil && had.By.Subject != "" {
		return Answer{}, newRefusal(ErrPhase, "a change of instance %s is waiting for approval: have it approved or rejected, or cancel it first", r.ID)
	}
	if r.Phase != Ready && r.Phase != Failed {
		return Answer{}, newRefusal(ErrPhase, "instance %s is %s; changes that need approval can be requested when it is ready", r.ID, r.Phase)
	}
	p.At = tx.now
	p.Salt = tx.newNonce()
	p.Why = clipForeign(p.Why, maxDetail)
	r.Pending = &p
	tx.unusedTemplates = true // of the request that it replaces
	addNotice(tx, r, noticeApproval)
	return Answer{Status: 202, Record: r}, nil
}

// approvePlan applies exactly the waiting plan.
func approvePlan(tx *tx, r *Record) {
	r.Run.approve(tx.now)
	r.Phase = phaseOf(r.Run.From)
	awaitAttempt(tx, r, 0, WaitQueued, "")
}

// phaseOf returns the phase of an instance while a run requested in phase from is pending.
func phaseOf(from Phase) Phase {
	if from == Ready || from == Failed {
		return Updating
	}
	return Provisioning
}

// applyTo implements rows 2, 4 and 10.
func (e Reject) applyTo(tx *tx) (Answer, error) {
	r, err := findInstance(tx, e.ID, verbReject)
	if err != nil {
		return Answer{}, err
	}
	why := "rejected"
	if e.Reason != "" {
		why += ": " + e.Reason
	}
	r = tx.edit(r)
	tx.recordEvent(r, "rejected", e.Reason)
	declineRequest(tx, r, resultRejected, why)
	return Answer{Status: 200, Record: r}, nil
}

// resultRejected is the result of a run whose plan was rejected.
const resultRejected = string(Rejected)

// declineRequest discards what waits for approval, and ends its run with a result.
func declineRequest(tx *tx, r *Record, result, why string) {
	switch r.Phase {
	case Requested:
		finishRecord(tx, r, Rejected, why)
	case Planned:
		discardPlan(tx, r, result, why)
	default:
		dropPending(tx, r, why)
	}
}

// dropPending discards the pending change. The server does not propose the same one again.
func dropPending(tx *tx, r *Record, why string) {
	if u := r.Pending.Update; u != nil && u.Auto {
		r.Declined = updateOf(u.Snapshot, u.Source)
		r.setCondition(UpdateAvailable, "Rejected", "version "+u.Source.Version+" was "+why)
	}
	r.Pending = nil
	if r.Phase == Ready {
		r.Reason = clipForeign(why, maxText)
	}
	tx.unusedTemplates = true
}

// discardPlan discards a plan: the instance is ready or failed as before, or else destroyed.
func discardPlan(tx *tx, r *Record, result, why string) {
	from := r.Run.From
	endRun(tx, r, result, why)
	if from == Ready || from == Failed {
		r.Phase = from
		r.Reason = clipForeign(why, maxText)
		return
	}
	startDestroy(tx, r, why)
}

// explainTooLarge returns why a plan cannot be approved; "" if it can.
func explainTooLarge(size int64) string {
	if size <= plantext.Max {
		return ""
	}
	return fmt.Sprintf("plan too large to approve: %s, limit 1 MiB", text.Size(size))
}
