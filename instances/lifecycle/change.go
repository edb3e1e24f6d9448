// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-141914ff/okara/instances/template"
)

// The values of [Record.Protected].
const (
	byOwner = "owner"
	byAdmin = "admin"
)

// applyTo implements row 21. Only an admin removes an admin's protection.
func (e Protect) applyTo(tx *tx) (Answer, error) {
	v := verbProtect
	if !e.On {
		v = verbFree
	}
	r, err := findInstance(tx, e.ID, v)
	if err != nil {
		return Answer{}, err
	}
	admin := tx.command.Actor.Admin
	switch {
	case admin:
	case r.Protected == byAdmin:
		return Answer{}, newRefusal(ErrDenied, "an admin protected instance %s", r.ID)
	case e.On && !canOwnerProtect(tx, r):
		return Answer{}, newRefusal(ErrDenied, "the template allows only an admin to protect an instance")
	}
	by := ""
	if e.On {
		by = byOwner
		if admin {
			by = byAdmin
		}
	}
	r = tx.edit(r)
	r.Protected = by
	r.unsetCondition(ExpiredProtected)
	tx.recordEvent(r, string(v), "")
	return Answer{Status: 200, Record: r}, nil
}

// canOwnerProtect reports whether owners may protect: not beyond an approved launch.
func canOwnerProtect(tx *tx, r *Record) bool {
	t := tx.doc.template(r.Snapshot)
	return t.Protection && t.Approval != template.ApprovalRequest
}

// applyTo implements row 21.
func (e Rename) applyTo(tx *tx) (Answer, error) {
	r, err := findInstance(tx, e.ID, verbRename)
	if err != nil {
		return Answer{}, err
	}
	if err := checkName(e.Name); err != nil {
		return Answer{}, err
	}
	r = tx.edit(r)
	r.Name = e.Name
	tx.recordEvent(r, "renamed", e.Name)
	return Answer{Status: 200, Record: r}, nil
}

// applyTo implements row 20.
func (e Orphan) applyTo(tx *tx) (Answer, error) {
	r, err := findInstance(tx, e.ID, verbOrphan)
	switch {
	case err != nil:
		return Answer{}, err
	case !tx.command.Actor.Admin:
		return Answer{}, newRefusal(ErrDenied, "only an admin can orphan an instance")
	case e.Reason == "":
		return Answer{}, &template.FieldError{Path: "/reason", Text: "a reason is required"}
	}
	r = tx.edit(r)
	tx.recordEvent(r, "orphaned", e.Reason)
	orphanResources(tx, r, e.Reason)
	return Answer{Status: 200, Record: r}, nil
}

// applyTo implements rows 2 and 15. Kept resources of an ended instance are removed by an admin.
func (e DestroyNow) applyTo(tx *tx) (Answer, error) {
	if r := tx.doc.Records[e.ID]; r != nil && r.Phase == Orphaned && r.Kept && !r.Removing && tx.command.Actor.Admin {
		r = tx.edit(r)
		tx.recordEvent(r, "removed", "")
		removeRecord(tx, r)
		return Answer{Status: 202, Record: r}, nil
	}
	r, err := findInstance(tx, e.ID, verbDestroy)
	if err != nil {
		return Answer{}, err
	}
	if r.Protected != "" {
		return Answer{}, newRefusal(ErrProtected, "instance %s is protected by its %s", r.ID, map[string]string{byOwner: "owner", byAdmin: "admin"}[r.Protected])
	}
	r = tx.edit(r)
	tx.recordEvent(r, "destroy", "")
	if r.Phase == Requested {
		finishRecord(tx, r, Rejected, "withdrawn")
		return Answer{Status: 200, Record: r}, nil
	}
	startDestroy(tx, r, "requested")
	return Answer{Status: 202, Record: r}, nil
}

// applyTo implements rows 2, 4 and 7.
func (e Cancel) applyTo(tx *tx) (Answer, error) {
	r, err := findInstance(tx, e.ID, verbCancel)
	if err != nil {
		return Answer{}, err
	}
	r = tx.edit(r)
	tx.recordEvent(r, "cancelled", "")
	why := "cancelled"
	if r.Phase == Destroying {
		why = "stopped"
	}
	why += byActor(tx)
	switch {
	case Awaits(r) != "":
		declineRequest(tx, r, Cancelled, why)
	case r.Phase == Destroying:
		attempts := "1 attempt"
		if n := r.Run.Failures; n != 1 {
			attempts = fmt.Sprintf("%d attempts", n)
		}
		failDestroy(tx, r, Cancelled, why+" after "+attempts+": "+r.Run.Error)
	case r.Run.Switch && r.Run.Attempt == 0:
		discardPlan(tx, r, Cancelled, why)
	case r.Run.Active():
		stopRun(tx, r, why)
		if r.Then != nil {
			r.Then.Cancel = why
		}
		return Answer{Status: 202, Record: r}, nil
	default:
		failInstance(tx, r, Cancelled, why)
	}
	return Answer{Status: 200, Record: r}, nil
}

// applyTo implements rows 16 and 19: it repeats the last run, or makes the next attempt start now.
func (e Retry) applyTo(tx *tx) (Answer, error) {
	r, err := findInstance(tx, e.ID, verbRetry)
	if err != nil {
		return Answer{}, err
	}
	if err := checkCountsAgain(tx, r); err != nil {
		return Answer{}, err
	}
	r = tx.edit(r)
	tx.recordEvent(r, "retried", "")
	if r.Run.isWaiting() {
		awaitAttempt(tx, r, 0, WaitQueued, "")
		return Answer{Status: 200, Record: r}, nil
	}
	if r.Phase == DestroyFailed {
		startDestroy(tx, r, "retried")
		return Answer{Status: 200, Record: r}, nil
	}
	run := newRun(tx, r, RunApply)
	run.From = Provisioning
	if !r.ReadyAt.IsZero() {
		run.From = Ready
	}
	if last := r.lastTriedRun(); last != nil {
		repeatRun(tx, r, run, last)
	}
	if isUnapproved(tx, r, run) {
		return askRunApproval(tx, r, run)
	}
	r.Phase = phaseOf(run.From)
	r.Reason = ""
	restoreEnd(tx, r, r.Snapshot)
	queueRun(tx, r, run)
	return Answer{Status: 200, Record: r}, nil
}

// repeatRun fills a run from the last one. Its first requester may not approve it, nor the retrying
// one; what was approved stays approved.
func repeatRun(tx *tx, r *Record, run, last *Run) {
	run.Source = last.Source
	run.Snapshot = last.Snapshot
	run.Parameters = last.Parameters
	run.From = last.From
	run.Why = last.Why
	run.Switch = last.Switch
	run.Off = last.Off
	if run.First = last.First; run.First == nil && last.By.Subject != "" && !last.By.isSame(run.By) {
		run.First = &last.By
	}
	if isApprovedForOwner(r) && needsApproval(tx, r, run.Snapshot, template.ApprovalRequest) {
		run.Confirmed = last.Confirmed
	}
}

// lastTriedRun returns the run that made an instance fail.
func (r *Record) lastTriedRun() *Run {
	for i := range r.Runs {
		if run := r.Runs[i]; (run.Kind == RunApply || run.Kind == RunPlan) && run.Snapshot != "" {
			return &run
		}
	}
	return nil
}

// applyTo implements rows 10 and 19.
func (e Update) applyTo(tx *tx) (Answer, error) {
	r, err := findInstance(tx, e.ID, verbUpdate)
	if err != nil {
		return Answer{}, err
	}
	if r.Owner.ID == "" {
		return Answer{}, newRefusal(ErrPhase, "instance %s belongs to a pool", r.ID)
	}
	if r.Phase == DestroyFailed {
		return destroyWithVersion(tx, r, e)
	}
	if hasOtherTool(tx, r, e.Template) {
		return Answer{}, newRefusal(ErrPhase, "instance %s and its template differ: one is a module, the other a chart; launch a new instance", r.ID)
	}
	merged, err := r.mergeParameters(e.Parameters)
	if err != nil {
		return Answer{}, err
	}
	if err := checkCountsAgain(tx, r); err != nil {
		return Answer{}, err
	}
	r = tx.edit(r)
	run := newRun(tx, r, RunApply)
	run.Parameters = merged
	run.Why = clipForeign(e.Why, maxDetail)
	r.Sensitive = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.Sensitive, e.Sensitive))))
	if e.Source != nil {
		run.Source = *e.Source
	}
	if e.Template != nil && e.Digest != "" {
		tx.keepTemplate(e.Digest, e.Template)
		run.Snapshot = e.Digest
	}
	return updateOrAsk(tx, r, run, "")
}

// hasOtherTool reports whether just one of template and instance is a chart: no tool updates both.
func hasOtherTool(tx *tx, r *Record, t *template.Template) bool {
	return t != nil && (t.Chart == nil) != (tx.doc.template(r.Snapshot).Chart == nil)
}

// mergeParameters returns the parameters after an update; nil if it changes none.
func (r *Record) mergeParameters(changed map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	if changed == nil {
		return nil, nil
	}
	all := map[string]json.RawMessage{}
	maps.Copy(all, r.WantedParameters())
	maps.Copy(all, changed)
	return all, checkSize("/parameters", sizeOf(all), template.MaxParameters)
}

// WantedParameters returns the values that an update starts from: of the change that failed, else
// those applied last.
func (r *Record) WantedParameters() map[string]json.RawMessage {
	if last := r.lastTriedRun(); r.Phase == Failed && last != nil && last.Parameters != nil {
		return last.Parameters
	}
	return r.Parameters
}

// queueUpdate queues another apply after the running one: row 10.
func queueUpdate(tx *tx, r *Record, run *Run, why string) {
	r.Phase = Updating
	r.Reason = ""
	restoreEnd(tx, r, cmp.Or(run.Snapshot, r.Snapshot))
	followRun(tx, r, run, why)
}

// destroyWithVersion destroys an instance with another version of the module, after the
// current version failed to: row 19.
func destroyWithVersion(tx *tx, r *Record, e Update) (Answer, error) {
	switch {
	case !tx.command.Actor.Admin:
		return Answer{}, newRefusal(ErrPhase, "instance %s is %s and cannot be updated", r.ID, r.Phase)
	case e.Source == nil || len(e.Parameters) > 0 || hasOtherTool(tx, r, e.Template):
		return Answer{}, &template.FieldError{Path: "/version", Text: "only the version of the module can be changed, to destroy the instance with it"}
	}
	r = tx.edit(r)
	r.Source = *e.Source
	if e.Template != nil && e.Digest != "" {
		tx.keepTemplate(e.Digest, e.Template)
		r.Snapshot = e.Digest
		r.Revised = true
		tx.unusedTemplates = true
	}
	r.forgetRuns(false)
	tx.recordEvent(r, "destroy", "with version "+e.Source.Version)
	startDestroy(tx, r, "retried with another version")
	return Answer{Status: 200, Record: r}, nil
}

// applyTo stops new instances of a template, and the refilling of its pool.
func (e PauseTemplate) applyTo(tx *tx) (Answer, error) {
	if e.Template == "" {
		return Answer{}, &template.FieldError{Path: "/template", Text: "a template is required"}
	}
	p := tx.editPool(e.Template)
	p.By = cmp.Or(tx.actorName(), byAdmin)
	p.Paused = cmp.Or(clipForeign(e.Reason, maxText), "paused by "+p.By)
	return Answer{Status: 200}, nil
}

func (e ResumeTemplate) applyTo(tx *tx) (Answer, error) {
	if tx.doc.Pools[e.Template] == nil {
		return Answer{Status: 200}, nil
	}
	p := tx.editPool(e.Template)
	*p = Pool{Revision: p.Revision, Notices: p.Notices}
	tidyPool(tx, e.Template)
	return Answer{Status: 200}, nil
}

// applyTo lets expiry and drain continue: an admin has checked the clocks.
func (AcceptClock) applyTo(tx *tx) (Answer, error) {
	if !tx.command.Actor.Admin {
		return Answer{}, newRefusal(ErrDenied, "only an admin can accept the clock")
	}
	d := tx.editDocument()
	d.Clock.Held = ""
	d.Clock.Accept = tx.now
	return Answer{Status: 200}, nil
}

// holdClock holds back expiry and drain; an empty reason lets them continue.
func holdClock(tx *tx, reason string) {
	reason = clipForeign(reason, maxText)
	if tx.doc.Clock.Held == reason {
		return
	}
	d := tx.editDocument()
	if d.Clock.Held == "" {
		d.Clock.Notices = appendNotice(tx, d.Clock.Notices, ofClock, noticeClock)
	}
	d.Clock.Held = reason
}
