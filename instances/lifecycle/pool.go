// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
)

const (
	poolFailures = 3 // this many in a row pause a pool
	poolBackoff  = time.Minute
	poolMaximum  = time.Hour
)

// updateOf identifies an update: a template and a version of its module.
func updateOf(snapshot string, s template.Source) string { return snapshot + " " + s.Digest }

// revisionOf identifies what a pool member's runs are made of: not its title, nor the pool's size.
func revisionOf(t *template.Template, s template.Source) string {
	b, err := json.Marshal(struct {
		Path        string
		Chart       json.RawMessage `json:",omitempty"`
		Executor    string
		Inputs      json.RawMessage `json:",omitempty"`
		Credentials []string
	}{t.Module.Path, t.Chart, t.Executor, t.Inputs, t.Credentials})
	if err != nil {
		return "unreadable inputs " + s.Digest
	}
	return fmt.Sprintf("sha256:%x %s", sha256.Sum256(b), s.Digest)
}

func (d *Document) revision(r *Record) string { return revisionOf(d.template(r.Snapshot), r.Source) }

// isUnclaimed reports whether a pool made the instance and nobody owns it yet.
func (r *Record) isUnclaimed() bool { return r.Pooled && r.Owner.ID == "" }

// poolMembers returns a template's records that a pool made and nobody owns, oldest first.
func (d *Document) poolMembers(template string, which func(*Record) bool) []*Record {
	var all []*Record
	for _, r := range d.Records {
		if r.Template == template && r.isUnclaimed() && which(r) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Record) int {
		return cmp.Or(laterOf(a.CreatedAt, a.ReadyAt).Compare(laterOf(b.CreatedAt, b.ReadyAt)), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// fillPool keeps a pool at its size: it makes members, drains surplus and outdated ones.
func fillPool(tx *tx, e Fill) {
	t := e.Template
	if e.Invalid != "" {
		pausePool(tx, e.Name, e.Invalid, "")
		return
	}
	if t == nil || t.Pool == nil || !t.Enabled {
		emptyPool(tx, e.Name)
		return
	}
	revision := revisionOf(t, e.Source)
	revisePool(tx, t.Name, revision)
	drainPool(tx, t, revision)
	refillPool(tx, e, revision)
}

// revisePool records what members are made of. A change resumes a paused pool.
func revisePool(tx *tx, name, revision string) {
	if p := tx.doc.Pools[name]; p != nil && p.Revision == revision {
		return
	}
	mine := tx.editPool(name)
	mine.Revision = revision
	mine.Failures = 0
	mine.Backoff = time.Time{}
	if mine.By == "" {
		mine.Paused = ""
	}
}

// refillPool makes as many members as the pool lacks and the template's limit allows.
func refillPool(tx *tx, e Fill, revision string) {
	t := e.Template
	if p := tx.doc.Pools[t.Name]; p != nil && (p.Paused != "" || p.Backoff.After(tx.now)) {
		return
	}
	short := t.Pool.Size - len(tx.doc.poolMembers(t.Name, func(r *Record) bool {
		return tx.doc.revision(r) == revision && (r.Phase == Available || r.Phase == Provisioning)
	}))
	if limit := t.Limit(); limit > 0 {
		short = min(short, limit-tx.doc.countOf(t.Name))
	}
	for range short {
		if checkRoom(tx) != nil {
			return
		}
		r := addRecord(tx, tx.newID(), t, e.Digest, e.Source)
		r.Pooled = true
		tx.recordEvent(r, "created", "for the pool")
		queueRun(tx, r, newRun(tx, r, RunApply))
	}
}

// drainPool implements row 9: available members beyond the size go, old revisions first; one at a
// time if the template's limit leaves no room for a successor.
func drainPool(tx *tx, t *template.Template, revision string) {
	if tx.doc.Clock.Held != "" {
		return
	}
	members := func(current bool) []*Record {
		return tx.doc.poolMembers(t.Name, func(r *Record) bool { return r.Phase == Available && (tx.doc.revision(r) == revision) == current })
	}
	available := slices.Concat(members(false), members(true))
	surplus := len(available) - t.Pool.Size
	if surplus <= 0 && isPoolStuck(tx, t, available, revision) {
		surplus = 1
	}
	for i := range max(surplus, 0) {
		drainMember(tx, tx.edit(available[i]), "the pool has a newer member, or enough members")
	}
}

// isPoolStuck reports whether the limit leaves no room for a successor, and none is under way.
func isPoolStuck(tx *tx, t *template.Template, available []*Record, revision string) bool {
	if len(available) == 0 || tx.doc.revision(available[0]) == revision || t.Limit() == 0 || tx.doc.countOf(t.Name) < t.Limit() {
		return false
	}
	if p := tx.doc.Pools[t.Name]; p != nil && (p.Paused != "" || p.Backoff.After(tx.now)) {
		return false
	}
	return len(tx.doc.poolMembers(t.Name, func(r *Record) bool {
		return r.Phase == Destroying || r.Phase == Provisioning
	})) == 0
}

// emptyPool drains all available members: the pool is gone.
func emptyPool(tx *tx, name string) {
	if tx.doc.Clock.Held == "" {
		for _, r := range tx.doc.poolMembers(name, func(r *Record) bool { return r.Phase == Available }) {
			drainMember(tx, tx.edit(r), "the pool is gone")
		}
	}
	if p := tx.doc.Pools[name]; p != nil && p.By == "" && p.hasState() {
		mine := tx.editPool(name)
		*mine = Pool{Notices: mine.Notices}
		tidyPool(tx, name)
	}
}

// drainMember implements row 9.
func drainMember(tx *tx, r *Record, why string) {
	tx.recordEvent(r, "drained", why)
	startDestroy(tx, r, why)
}

func (p *Pool) hasState() bool { return p.Revision != "" || p.Paused != "" || p.Failures != 0 }

// tidyPool deletes a pool that has nothing to remember.
func tidyPool(tx *tx, name string) {
	if p := tx.doc.Pools[name]; p != nil && !p.hasState() && len(p.Notices) == 0 {
		delete(tx.editPools(), name)
	}
}

// pausePool pauses a pool on behalf of the machine, unless it is paused already.
func pausePool(tx *tx, name, why, revision string) {
	if p := tx.doc.Pools[name]; p != nil && p.Paused != "" {
		return
	}
	p := tx.editPool(name)
	p.Paused = clipForeign(why, maxText)
	p.Revision = revision
	p.Notices = appendNotice(tx, p.Notices, name, noticePool)
}

// countMemberFailure lets a pool wait longer after each failure, and pauses it at [poolFailures].
func countMemberFailure(tx *tx, r *Record) {
	for _, old := range tx.doc.poolMembers(r.Template, func(o *Record) bool {
		return o.Phase == Failed && o.ID != r.ID && o.Protected == ""
	}) {
		drainMember(tx, tx.edit(old), "a newer member failed")
	}
	p := tx.editPool(r.Template)
	p.Failures++
	p.Backoff = tx.now.Add(min(poolBackoff<<min(p.Failures-1, 10), poolMaximum))
	if p.Failures >= poolFailures {
		pausePool(tx, r.Template, "members failed: "+r.Reason, p.Revision)
	}
}

func clearMemberFailures(tx *tx, name string) {
	if p := tx.doc.Pools[name]; p != nil && p.Failures > 0 {
		mine := tx.editPool(name)
		mine.Failures = 0
		mine.Backoff = time.Time{}
	}
}

// checkUpdate shows that an update is available, or applies it.
func checkUpdate(tx *tx, e UpdateCheck) {
	r := tx.doc.Records[e.ID]
	if r == nil || r.Owner.ID == "" || !canExpire(r.Phase) || isExpired(tx, r) {
		return
	}
	same := e.Template == nil || e.Digest == r.Snapshot && isOlder(e.Source, r.Source) || hasOtherTool(tx, r, e.Template) || e.Digest == r.Snapshot && e.Source.Digest == r.Source.Digest
	was := r.condition(UpdateAvailable)
	text := clipForeign("version "+e.Source.Version, maxText)
	switch {
	case same && was.Type != "":
		tx.edit(r).unsetCondition(UpdateAvailable)
	case same || r.hasTried(e) || r.Declined == updateOf(e.Digest, e.Source):
	case canUpdateItself(tx, r):
		r = tx.edit(r)
		run := newRun(tx, r, RunApply)
		run.Source = e.Source
		run.Snapshot = e.Digest
		run.Auto = true
		tx.keepTemplate(e.Digest, e.Template)
		_, _ = updateOrAsk(tx, r, run, text) // the instance is ready, and no change of it waits
	case was.Type == "" || was.Message != text && was.Reason == "":
		tx.edit(r).setCondition(UpdateAvailable, "", text)
	}
}

// isOlder reports whether a source is a lower version of the same module: the registry was read before it was updated.
func isOlder(offered, has template.Source) bool {
	o, err := addr.ParseVersion(offered.Version)
	h, wrong := addr.ParseVersion(has.Version)
	return err == nil && wrong == nil && offered.Module == has.Module && offered.Chart == has.Chart && o.Compare(h) < 0
}

// canUpdateItself reports whether an instance takes newer versions, and can now.
func canUpdateItself(tx *tx, r *Record) bool {
	idle := r.Pending == nil && r.Then == nil && (r.Run == nil || r.Run.Kind == RunDrift)
	return r.Phase == Ready && idle && tx.doc.template(r.Snapshot).Update == "auto"
}

// hasTried reports whether an automatic update to the same version already failed.
func (r *Record) hasTried(e UpdateCheck) bool {
	return slices.ContainsFunc(r.Runs, func(run Run) bool {
		same := run.Source.Digest == e.Source.Digest && (run.Snapshot == "" || run.Snapshot == e.Digest)
		return run.Auto && run.Result != Done && same
	})
}
