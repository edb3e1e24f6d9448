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

// protect implements row 21. An owner may protect an instance if its template allows
// it; only an admin removes an admin's protection.
func (w changes) protect(e Protect) (Answer, error) {
	v := verbProtect
	if !e.On {
		v = verbFree
	}
	r, err := w.lookup(e.ID, v)
	if err != nil {
		return Answer{}, err
	}
	admin := w.command.Actor.Admin
	switch {
	case admin:
	case r.Protected == byAdmin:
		return Answer{}, refuse(ErrDenied, "an admin protected instance %s", r.ID)
	case e.On && !w.ownersProtect(r):
		return Answer{}, refuse(ErrDenied, "the template lets only an admin protect an instance")
	}
	by := ""
	if e.On {
		by = byOwner
		if admin {
			by = byAdmin
		}
	}
	r = w.edit(r)
	r.Protected = by
	r.unset(ExpiredProtected)
	w.note(r, string(v), "")
	return Answer{Status: 200, Record: r}, nil
}

// ownersProtect reports whether owners may protect an instance. They may not if its
// launch was approved, since it would outlive what was approved.
func (w changes) ownersProtect(r *Record) bool {
	t := w.doc.template(r.Snapshot)
	return t.Protection && t.Approval != template.ApprovalRequest
}

// rename implements row 21.
func (w changes) rename(e Rename) (Answer, error) {
	r, err := w.lookup(e.ID, verbRename)
	if err != nil {
		return Answer{}, err
	}
	if err := checkName(e.Name); err != nil {
		return Answer{}, err
	}
	r = w.edit(r)
	r.Name = e.Name
	w.note(r, "renamed", e.Name)
	return Answer{Status: 200, Record: r}, nil
}

// orphan implements row 20.
func (w changes) orphan(e Orphan) (Answer, error) {
	r, err := w.lookup(e.ID, verbOrphan)
	switch {
	case err != nil:
		return Answer{}, err
	case !w.command.Actor.Admin:
		return Answer{}, refuse(ErrDenied, "only an admin can orphan an instance")
	case e.Reason == "":
		return Answer{}, &template.FieldError{Path: "/reason", Text: "a reason is needed"}
	}
	r = w.edit(r)
	w.note(r, "orphaned", e.Reason)
	w.endings().abandon(r, e.Reason)
	return Answer{Status: 200, Record: r}, nil
}

// keptOrphan reports whether the resources of a record are orphaned and not removed yet.
func keptOrphan(r *Record) bool { return r.Phase == Orphaned && r.Kept && !r.Removing }

// destroyNow implements rows 2 and 15. Resources that were kept when an instance ended
// are removed by an admin.
func (w changes) destroyNow(e DestroyNow) (Answer, error) {
	if r := w.doc.Records[e.ID]; r != nil && keptOrphan(r) && w.command.Actor.Admin {
		r = w.edit(r)
		w.note(r, "removed", "")
		w.endings().remove(r)
		return Answer{Status: 202, Record: r}, nil
	}
	r, err := w.lookup(e.ID, verbDestroy)
	if err != nil {
		return Answer{}, err
	}
	if r.Protected != "" {
		return Answer{}, refuse(ErrProtected, "instance %s is protected by its %s", r.ID, map[string]string{byOwner: "owner", byAdmin: "admin"}[r.Protected])
	}
	r = w.edit(r)
	w.note(r, "destroy", "")
	if r.Phase == Requested {
		w.endings().finish(r, Rejected, "withdrawn")
		return Answer{Status: 200, Record: r}, nil
	}
	w.endings().destroy(r, "asked for")
	return Answer{Status: 202, Record: r}, nil
}

// cancel implements rows 2, 4 and 7.
func (w changes) cancel(e Cancel) (Answer, error) {
	r, err := w.lookup(e.ID, verbCancel)
	if err != nil {
		return Answer{}, err
	}
	r = w.edit(r)
	w.note(r, "cancelled", "")
	why := "cancelled"
	if r.Phase == Destroying {
		why = "stopped"
	}
	if actor := w.actorName(); actor != "" {
		why += " by " + actor
	}
	switch {
	case Awaits(r) != "":
		w.approvals().decline(r, Cancelled, why)
	case r.Phase == Destroying:
		n := r.Run.Failures
		text := r.Run.Error
		notDestroyed(w.step, r, Cancelled, fmt.Sprintf("%s after %s: %s", why, attemptCount(n), text))
	case r.Run.Switch && r.Run.Attempt == 0:
		w.approvals().putBack(r, Cancelled, why)
	case r.Run.active():
		w.runQueue().stop(r, why)
		if r.Then != nil {
			r.Then.Cancel = why
		}
		return Answer{Status: 202, Record: r}, nil
	default:
		w.outcomes().fail(r, Cancelled, why)
	}
	return Answer{Status: 200, Record: r}, nil
}

// retry implements rows 16 and 19: it repeats the last run. If a run waits between two
// attempts, the next one starts at once.
func (w changes) retry(e Retry) (Answer, error) {
	r, err := w.lookup(e.ID, verbRetry)
	if err != nil {
		return Answer{}, err
	}
	if err := countAgain(w.step, r); err != nil {
		return Answer{}, err
	}
	r = w.edit(r)
	w.note(r, "retried", "")
	if r.Run.waits() {
		w.runQueue().await(r, 0, WaitQueued, "")
		return Answer{Status: 200, Record: r}, nil
	}
	if r.Phase == DestroyFailed {
		w.endings().destroy(r, "tried again")
		return Answer{Status: 200, Record: r}, nil
	}
	run := w.runQueue().newRun(r, RunApply)
	run.From = Provisioning
	if !r.ReadyAt.IsZero() {
		run.From = Ready
	}
	if last := r.lastTried(); last != nil {
		w.repeat(r, run, last)
	}
	if w.approvals().unapproved(r, run) {
		return w.approvals().askRun(r, run)
	}
	r.Phase = phaseOf(run.From)
	r.Reason = ""
	endAnew(w.step, r, r.Snapshot)
	w.runQueue().queue(r, run)
	return Answer{Status: 200, Record: r}, nil
}

// repeat fills a run from the last one. The first requester is remembered, since
// neither that person nor the retrying one may approve it; an approved request stays
// approved.
func (w changes) repeat(r *Record, run, last *Run) {
	run.Source = last.Source
	run.Snapshot = last.Snapshot
	run.Parameters = last.Parameters
	run.From = last.From
	run.Why = last.Why
	run.Switch = last.Switch
	run.Off = last.Off
	if run.First = last.First; run.First == nil && last.By.Subject != "" && !last.By.same(run.By) {
		run.First = &last.By
	}
	if approvedFor(r) && w.approvals().approval(r, run.Snapshot, template.ApprovalRequest) {
		run.Confirmed = last.Confirmed
	}
}

// lastTried returns the run that made an instance fail, with its source and parameters.
func (r *Record) lastTried() *Run {
	for i := range r.Runs {
		if run := r.Runs[i]; (run.Kind == RunApply || run.Kind == RunPlan) && run.Snapshot != "" {
			return &run
		}
	}
	return nil
}

// update implements rows 10 and 19.
func (w changes) update(e Update) (Answer, error) {
	r, err := w.lookup(e.ID, verbUpdate)
	if err != nil {
		return Answer{}, err
	}
	if r.Owner.ID == "" {
		return Answer{}, refuse(ErrPhase, "instance %s belongs to a pool", r.ID)
	}
	if r.Phase == DestroyFailed {
		return w.destroyWith(r, e)
	}
	if w.differs(r, e.Template) {
		return Answer{}, refuse(ErrPhase, "instance %s and its template differ: one is a module, the other a chart; launch a new instance", r.ID)
	}
	merged, err := r.merged(e.Parameters)
	if err != nil {
		return Answer{}, err
	}
	if err := countAgain(w.step, r); err != nil {
		return Answer{}, err
	}
	r = w.edit(r)
	run := w.runQueue().newRun(r, RunApply)
	run.Parameters = merged
	run.Why = clip(e.Why, maxDetail)
	r.Sensitive = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.Sensitive, e.Sensitive))))
	if e.Source != nil {
		run.Source = *e.Source
	}
	if e.Template != nil && e.Digest != "" {
		w.keep(e.Digest, e.Template)
		run.Snapshot = e.Digest
	}
	return w.approvals().apply(r, run, "")
}

// differs reports whether one of template and instance is for a chart and the other for
// a module: neither tool can update what the other created.
func (w changes) differs(r *Record, t *template.Template) bool {
	return t != nil && (t.Chart == nil) != (w.doc.template(r.Snapshot).Chart == nil)
}

// merged returns the parameters after an update; nil if it changes none.
func (r *Record) merged(changed map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	if changed == nil {
		return nil, nil
	}
	all := maps.Clone(r.Parameters)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, changed)
	return all, checkSize("/parameters", rawSize(all), template.MaxParameters)
}

// renew queues another apply after the running one: row 10.
func (w changes) renew(r *Record, run *Run, why string) {
	r.Phase = Updating
	r.Reason = ""
	endAnew(w.step, r, cmp.Or(run.Snapshot, r.Snapshot))
	w.runQueue().follow(r, run, why)
}

// destroyWith destroys an instance with another version of the module, after the
// current version failed to: row 19.
func (w changes) destroyWith(r *Record, e Update) (Answer, error) {
	switch {
	case !w.command.Actor.Admin:
		return Answer{}, refuse(ErrPhase, "instance %s is %s and cannot be updated", r.ID, r.Phase)
	case e.Source == nil || len(e.Parameters) > 0 || w.differs(r, e.Template):
		return Answer{}, &template.FieldError{Path: "/version", Text: "only a version of the module can be given to destroy it"}
	}
	r = w.edit(r)
	r.Source = *e.Source
	if e.Template != nil && e.Digest != "" {
		w.keep(e.Digest, e.Template)
		r.Snapshot = e.Digest
		r.Revised = true
		w.unusedTemplates = true
	}
	r.forget()
	w.note(r, "destroy", "with version "+e.Source.Version)
	w.endings().destroy(r, "tried with another version")
	return Answer{Status: 200, Record: r}, nil
}

// pause stops new instances of a template, and the refilling of its pool.
func (w changes) pause(e Pause) (Answer, error) {
	if e.Template == "" {
		return Answer{}, &template.FieldError{Path: "/template", Text: "a template is needed"}
	}
	p := w.pool(e.Template)
	p.By = w.actorName()
	p.Paused = clip(e.Reason, maxText)
	if p.By == "" {
		p.By = byAdmin
	}
	if p.Paused == "" {
		p.Paused = "paused by " + p.By
	}
	return Answer{Status: 200}, nil
}

func (w changes) resume(e Resume) (Answer, error) {
	if w.doc.Pools[e.Template] == nil {
		return Answer{Status: 200}, nil
	}
	p := w.pool(e.Template)
	*p = Pool{Revision: p.Revision, Notices: p.Notices}
	w.poolMembers().tidy(e.Template)
	return Answer{Status: 200}, nil
}

// acceptClock lets expiry and drain continue: an admin has checked the clocks.
func (w changes) acceptClock() (Answer, error) {
	if !w.command.Actor.Admin {
		return Answer{}, refuse(ErrDenied, "only an admin accepts the clock")
	}
	d := w.change()
	d.Clock.Held = ""
	d.Clock.Accept = w.now
	return Answer{Status: 200}, nil
}

// clockHeld holds back expiry and drain; an empty reason lets them continue.
func (w changes) clockHeld(reason string) {
	reason = clip(reason, maxText)
	if w.doc.Clock.Held == reason {
		return
	}
	d := w.change()
	if d.Clock.Held == "" {
		d.Clock.Notices = w.notices().report(d.Clock.Notices, ofClock, noticeClock)
	}
	d.Clock.Held = reason
}
