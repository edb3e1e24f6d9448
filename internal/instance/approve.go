// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// RequestPlan is what an approval of a request names: all that was seen of it.
// An approval of a plan names [Run.Plan].
func RequestPlan(r *Record) string {
	seen, err := json.Marshal(struct {
		Snapshot   string
		Source     Source
		Parameters map[string]json.RawMessage
		Owner      [3]string
	}{r.Snapshot, r.Source, r.Parameters, [3]string{r.Owner.Kind, r.Owner.Issuer, r.Owner.ID}})
	if err != nil {
		return "" // no approval can name it
	}
	sum := sha256.Sum256(seen)
	return "request@sha256:" + hex.EncodeToString(sum[:])
}

// approve is rows 2 and 4.
func (w *work) approve(e Approve) (Answer, error) {
	r, err := w.meet(e.ID, verbApprove)
	if err != nil {
		return Answer{}, err
	}
	asked, plan := r.CreatedBy, RequestPlan(r)
	if r.Phase == Planned {
		asked, plan = r.Run.By, r.Run.Plan
	}
	if err := w.mayApprove(r, asked); err != nil {
		return Answer{}, err
	}
	if e.Plan != plan || plan == "" {
		return Answer{}, refuse(ErrStalePlan, "the plan changed since you looked at it")
	}
	r = w.edit(r)
	w.note(r, "approved", plan)
	if r.Phase == Planned {
		w.letThrough(r)
		return Answer{Status: 200, Record: r}, nil
	}
	r.Phase, r.Since = Provisioning, w.now
	w.endAfter(r, r.TTL+runTime(w.doc.template(r.Snapshot)))
	run := w.newRun(r, RunApply)
	run.By = r.CreatedBy
	w.queue(r, run)
	return Answer{Status: 200, Record: r}, nil
}

// mayApprove refuses who asked for a run, or alone owns it: four eyes see more.
func (w *work) mayApprove(r *Record, asked Actor) error {
	a := w.command.Actor
	switch {
	case a.Subject == "":
		return refuse(ErrDenied, "only a person approves")
	case w.Limits.ApprovalSelf:
		return nil
	case a.Issuer == asked.Issuer && a.Subject == asked.Subject:
		return refuse(ErrDenied, "somebody else than who asked for it approves it")
	case a.is(r.Owner):
		return refuse(ErrDenied, "somebody else than its owner approves it")
	}
	return nil
}

// letThrough applies exactly the plan that waits.
func (w *work) letThrough(r *Record) {
	run := r.Run
	run.Approved, run.Kind = run.Plan, RunApply
	run.QueuedAt = w.now
	r.Phase = phaseOf(run.From)
	w.await(r, 0, WaitQueued, "")
}

// phaseOf is the phase of an instance while a run is due that was asked for in
// another one.
func phaseOf(from Phase) Phase {
	if from == Ready || from == Failed {
		return Updating
	}
	return Provisioning
}

// reject is rows 2 and 4.
func (w *work) reject(e Reject) (Answer, error) {
	r, err := w.meet(e.ID, verbReject)
	if err != nil {
		return Answer{}, err
	}
	why := "rejected"
	if e.Reason != "" {
		why += ": " + e.Reason
	}
	r = w.edit(r)
	w.note(r, "rejected", e.Reason)
	if r.Phase == Requested {
		w.finish(r, Rejected, why)
	} else {
		w.putBack(r, why)
	}
	return Answer{Status: 200, Record: r}, nil
}

// putBack leaves a plan that nobody wants: an instance that was there before
// stays, any other goes.
func (w *work) putBack(r *Record, why string) {
	from := r.Run.From
	w.endRun(r, Cancelled, why)
	if from == Ready || from == Failed {
		r.Phase, r.Reason = from, clip(why, maxText)
		return
	}
	w.destroy(r, why)
}
