// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
)

const maxFinal = 20 // final records of an owner

// startDestroy starts to destroy: rows 4, 9, 13, 15 and 19. A running attempt is stopped first.
func startDestroy(tx *tx, r *Record, why string) {
	r.Phase = Destroying
	r.Reason = clipForeign(why, maxText)
	r.Protected = ""
	r.Conditions = nil
	r.Pending = nil
	r.Offer = nil
	switch {
	case r.Run.Active():
		r.Then = nil
		if r.Applied {
			r.Then = newDestroyRun(tx, r)
		}
		stopRun(tx, r, why)
	case r.Run != nil:
		r.Then = nil
		endRun(tx, r, Cancelled, why)
		fallthrough
	default:
		queueDestroy(tx, r)
	}
}

// queueDestroy queues a destroy run, if there may be resources.
func queueDestroy(tx *tx, r *Record) {
	if !r.Applied || r.Untouched {
		addHistory(tx, r, History{Action: "destroyed", Detail: "nothing was created"})
		finishRecord(tx, r, Destroyed, r.Reason)
		return
	}
	queueRun(tx, r, newDestroyRun(tx, r))
}

// newDestroyRun returns a run that destroys what was applied last, successfully or not. A change
// that failed before it applied is no obstacle: neither its version nor its values count.
func newDestroyRun(tx *tx, r *Record) *Run {
	run := newRun(tx, r, RunDestroy)
	for i := range r.Runs {
		if last := &r.Runs[i]; last.Applied && last.Snapshot != "" {
			run.Source = last.Source
			run.Snapshot = last.Snapshot
			run.Parameters = last.Parameters
			break
		}
	}
	return run
}

// orphanResources orphans the resources of an instance: rows 13 and 20.
func orphanResources(tx *tx, r *Record, why string) {
	if r.Run.Active() {
		stopRun(tx, r, why)
	}
	if r.Run != nil {
		endRun(tx, r, Cancelled, why)
	}
	finishRecord(tx, r, Orphaned, why)
}

// finishRecord puts an instance into a final phase.
func finishRecord(tx *tx, r *Record, p Phase, why string) {
	r.Phase = p
	r.Reason = clipForeign(why, maxText)
	r.FinishedAt = tx.now
	r.Run = nil
	r.Then = nil
	r.Open = nil
	r.Conditions = nil
	r.Protected = ""
	r.Pending = nil
	r.Declined = ""
	r.Offer = nil
	r.Switch = nil
	r.Notices = slices.DeleteFunc(r.Notices, func(n Notice) bool { return n.Sent })
	tx.unusedTemplates = true
	switch p {
	case Destroyed:
		addNotice(tx, r, noticeDestroyed)
	case Rejected:
		addNotice(tx, r, NoticeRejected)
	}
	if r.hasRun() {
		tx.addEffect(Archive, Ref{ID: r.ID})
	} else {
		r.Archived = true
		r.cut()
	}
	trimFinal(tx, r.Owner)
}

// hasRun reports whether an attempt was ever begun, which may have left other data.
func (r *Record) hasRun() bool {
	return r.Applied || slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Attempt > 0 })
}

// trimFinal removes the oldest final records of an owner if there are too many.
func trimFinal(tx *tx, o template.Owner) {
	var final []*Record
	for _, r := range tx.doc.Records {
		if !r.Phase.Live() && !r.Removing && !r.Kept && r.Owner.Same(o) {
			final = append(final, r)
		}
	}
	if len(final) <= maxFinal {
		return
	}
	slices.SortFunc(final, func(a, b *Record) int {
		return cmp.Or(a.FinishedAt.Compare(b.FinishedAt), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range final[:len(final)-maxFinal] {
		removeRecord(tx, tx.edit(r))
	}
}

// removeRecord implements row 22: it writes the archive, removes the tags, then the record.
func removeRecord(tx *tx, r *Record) {
	if !r.hasRun() {
		tx.dropRecord(r)
		return
	}
	r.Removing = true
	if r.Archived {
		tx.addEffect(Remove, Ref{ID: r.ID})
	}
}

// markArchived cuts a final record whose archive has been written.
func markArchived(tx *tx, id string) {
	r := tx.doc.Records[id]
	if r == nil || r.Phase.Live() || r.Archived {
		return
	}
	r = tx.edit(r)
	r.Archived = true
	r.cut()
	tx.unusedTemplates = true
	if r.Removing {
		tx.addEffect(Remove, Ref{ID: r.ID})
	}
}

// dropRemoved drops a record of which nothing else is left.
func dropRemoved(tx *tx, id string) {
	if r := tx.doc.Records[id]; r != nil && r.Removing && r.Archived {
		tx.dropRecord(r)
	}
}

// cut reduces a final record to what lists show: about 1 KiB.
func (r *Record) cut() {
	r.Parameters = nil
	r.Claims = nil
	r.Outputs = nil
	r.Connection = nil
	r.Snapshot = ""
	r.Source.Archive = ""
	r.Source.Lock = ""
	r.Source.Size = 0
	r.Reason = clipForeign(r.Reason, maxDetail)
	r.Runs = slices.Clone(r.Runs[:min(len(r.Runs), 1)])
	for i, run := range r.Runs {
		r.Runs[i] = Run{
			N: run.N, Attempt: run.Attempt, Kind: run.Kind, QueuedAt: run.QueuedAt, StartedAt: run.StartedAt, EndedAt: run.EndedAt, CreatedAt: run.CreatedAt,
			Failures: run.Failures, Force: run.Force, Auto: run.Auto, Applied: run.Applied, Planned: run.Planned, Changes: run.Changes, Off: run.Off, Switch: run.Switch,
			Counts: run.Counts, Cost: run.Cost, Result: run.Result, Error: clipForeign(run.Error, 80),
		}
	}
	r.TTL = 0
	r.Since = time.Time{}
	r.Events = slices.Clone(r.Events[:min(len(r.Events), 1)])
}
