// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
)

const (
	poolFailures = 3 // this many in a row pause a pool
	poolBackoff  = time.Minute
	poolMaximum  = time.Hour
)

// revisionOf identifies what a pool member is made of.
func revisionOf(snapshot string, s template.Source) string { return snapshot + " " + s.Digest }

func (r *Record) revision() string { return revisionOf(r.Snapshot, r.Source) }

// members returns the records of a template that a pool made and that have no owner,
// oldest first.
func (d *Document) members(template string, which func(*Record) bool) []*Record {
	var all []*Record
	for _, r := range d.Records {
		if r.Template == template && r.Pooled && r.Owner.ID == "" && which(r) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Record) int {
		if c := later(a.CreatedAt, a.ReadyAt).Compare(later(b.CreatedAt, b.ReadyAt)); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

// fill keeps a pool at its size: it makes members, and drains surplus and outdated
// ones.
func (w poolMembers) fill(e Fill) {
	t := e.Template
	if e.Invalid != "" {
		w.pausePool(e.Name, e.Invalid, "")
		return
	}
	if t == nil || t.Pool == nil || !t.Enabled {
		w.empty(e.Name)
		return
	}
	revision := revisionOf(e.Digest, e.Source)
	w.revise(t.Name, revision)
	w.drainPool(t, revision)
	w.refill(e, revision)
}

// revise records what members are made of now. A change resumes a pool that the machine
// paused.
func (w poolMembers) revise(name, revision string) {
	p := w.doc.Pools[name]
	if p != nil && p.Revision == revision {
		return
	}
	mine := w.pool(name)
	mine.Revision = revision
	mine.Failures = 0
	mine.Backoff = time.Time{}
	if mine.By == "" {
		mine.Paused = ""
	}
}

// refill makes as many members as the pool lacks and the template's limit allows.
func (w poolMembers) refill(e Fill, revision string) {
	t := e.Template
	if p := w.doc.Pools[t.Name]; p != nil && (p.Paused != "" || p.Backoff.After(w.now)) {
		return
	}
	short := t.Pool.Size - len(w.doc.members(t.Name, func(r *Record) bool {
		return r.revision() == revision && (r.Phase == Available || r.Phase == Provisioning)
	}))
	if limit := t.Limit(); limit > 0 {
		short = min(short, limit-w.doc.live(t.Name))
	}
	for range short {
		if w.creations().fits() != nil {
			return
		}
		r := w.creations().add(w.newID(), t, e.Digest, e.Source)
		r.Pooled = true
		w.note(r, "created", "for the pool")
		w.runQueue().queue(r, w.runQueue().newRun(r, RunApply))
	}
}

// drainPool implements row 9, without age: of the available members, those beyond the
// size go, old revisions first. If the template's limit leaves no room for a successor,
// one old member is drained at a time.
func (w poolMembers) drainPool(t *template.Template, revision string) {
	if w.doc.Clock.Held != "" {
		return
	}
	available := w.doc.members(t.Name, func(r *Record) bool { return r.Phase == Available })
	slices.SortStableFunc(available, func(a, b *Record) int {
		return notFirst(a.revision() == revision, b.revision() == revision)
	})
	surplus := len(available) - t.Pool.Size
	if surplus <= 0 && w.stuck(t, available, revision) {
		surplus = 1
	}
	for i := range max(surplus, 0) {
		w.drain(w.edit(available[i]), "the pool has a newer one, or enough")
	}
}

// notFirst orders false before true.
func notFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// stuck reports whether no successor of an old member can be made, because the
// template's limit is used up and no member is being made or destroyed.
func (w poolMembers) stuck(t *template.Template, available []*Record, revision string) bool {
	if len(available) == 0 || available[0].revision() == revision || t.Limit() == 0 || w.doc.live(t.Name) < t.Limit() {
		return false
	}
	if p := w.doc.Pools[t.Name]; p != nil && (p.Paused != "" || p.Backoff.After(w.now)) {
		return false
	}
	return len(w.doc.members(t.Name, func(r *Record) bool {
		return r.Phase == Destroying || r.Phase == Provisioning
	})) == 0
}

// empty drains all available members: the pool is gone.
func (w poolMembers) empty(name string) {
	if w.doc.Clock.Held == "" {
		for _, r := range w.doc.members(name, func(r *Record) bool { return r.Phase == Available }) {
			w.drain(w.edit(r), "the pool is gone")
		}
	}
	if p := w.doc.Pools[name]; p != nil && p.By == "" && p.remembers() {
		mine := w.pool(name)
		*mine = Pool{Notices: mine.Notices}
		w.tidy(name)
	}
}

// drain implements row 9.
func (w poolMembers) drain(r *Record, why string) {
	w.note(r, "drained", why)
	w.endings().destroy(r, why)
}

// remembers reports whether a pool has a revision, a pause or failures to remember.
func (p *Pool) remembers() bool { return p.Revision != "" || p.Paused != "" || p.Failures != 0 }

// tidy deletes a pool that has nothing to remember.
func (w poolMembers) tidy(name string) {
	p := w.doc.Pools[name]
	if p != nil && !p.remembers() && len(p.Notices) == 0 {
		delete(w.pools(), name)
	}
}

// pausePool pauses a pool on behalf of the machine, unless it is paused already.
func (w poolMembers) pausePool(name, why, revision string) {
	if p := w.doc.Pools[name]; p != nil && p.Paused != "" {
		return
	}
	p := w.pool(name)
	p.Paused = clip(why, maxText)
	p.Revision = revision
	p.Notices = w.notices().report(p.Notices, name, noticePool)
}

// memberFailed makes a pool wait longer after each failure in a row, and pauses it
// after [poolFailures]. One failed member is kept as evidence.
func (w poolMembers) memberFailed(r *Record) {
	for _, old := range w.doc.members(r.Template, func(o *Record) bool {
		return o.Phase == Failed && o.ID != r.ID && o.Protected == ""
	}) {
		old = w.edit(old)
		w.note(old, "drained", "a newer one failed")
		w.endings().destroy(old, "a newer one failed")
	}
	p := w.pool(r.Template)
	p.Failures++
	p.Backoff = w.now.Add(min(poolBackoff<<min(p.Failures-1, 10), poolMaximum))
	if p.Failures >= poolFailures {
		w.pausePool(r.Template, "members failed: "+r.Reason, p.Revision)
	}
}

// memberReady ends a series of failures.
func (w poolMembers) memberReady(name string) {
	if p := w.doc.Pools[name]; p != nil && p.Failures > 0 {
		mine := w.pool(name)
		mine.Failures = 0
		mine.Backoff = time.Time{}
	}
}

// checkUpdate shows that an update is available, and applies it if the template says
// so.
func (w poolMembers) checkUpdate(e UpdateCheck) {
	r := w.doc.Records[e.ID]
	if r == nil || r.Owner.ID == "" || !ends(r.Phase) || w.endings().expired(r) {
		return
	}
	same := e.Template == nil || w.changes().differs(r, e.Template) || e.Digest == r.Snapshot && e.Source.Digest == r.Source.Digest
	was := r.condition(UpdateAvailable)
	text := clip("version "+e.Source.Version, maxText)
	switch {
	case same && was.Type != "":
		w.edit(r).unset(UpdateAvailable)
	case same || r.tried(e) || r.Declined == revisionOf(e.Digest, e.Source):
	case w.updatesItself(r):
		r = w.edit(r)
		run := w.runQueue().newRun(r, RunApply)
		run.Source = e.Source
		run.Snapshot = e.Digest
		run.Auto = true
		w.keep(e.Digest, e.Template)
		_, _ = w.approvals().apply(r, run, text) // the instance is ready, and no change of it waits
	case was.Type == "" || was.Message != text && was.Reason == "":
		w.edit(r).set(UpdateAvailable, "", text)
	}
}

// updatesItself reports whether an instance takes newer versions automatically, and can
// now.
func (w poolMembers) updatesItself(r *Record) bool {
	idle := r.Pending == nil && r.Then == nil && (r.Run == nil || r.Run.Kind == RunDrift)
	return r.Phase == Ready && idle && w.doc.template(r.Snapshot).Update == "auto"
}

// tried reports whether an automatic update to the same version already failed.
func (r *Record) tried(e UpdateCheck) bool {
	return slices.ContainsFunc(r.Runs, func(run Run) bool {
		same := run.Source.Digest == e.Source.Digest && (run.Snapshot == "" || run.Snapshot == e.Digest)
		return run.Auto && run.Result != Done && same
	})
}
