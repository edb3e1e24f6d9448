// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
)

// Kinds of deadlines, in the order in which they are handled.
const (
	deadlineEnd           = iota // rows 13, 14
	deadlineRequest              // rows 2, 10
	deadlinePlan                 // row 4
	deadlineDrain                // row 9, by age
	deadlineOffer                // row 24
	deadlineHoldOff              // row 14, daily
	deadlineNotice               // before the end
	deadlineDestroyAgain         // row 19
	deadlineRemove               // row 22
	deadlineSwitch               // row 25, by the schedule
	deadlineSwitchRequest        // row 25, by a person
	deadlineDrift                // row 23
)

// deadline is a time at which something has to be done.
type deadline struct {
	what int
	at   time.Time
}

// waitsForClock reports whether a deadline waits for a trusted clock: all that take something away.
func (y deadline) waitsForClock() bool {
	return !slices.Contains([]int{deadlineHoldOff, deadlineNotice, deadlineDestroyAgain, deadlineDrift, deadlineSwitchRequest}, y.what)
}

func (d *Document) deadlines(r *Record) []deadline {
	all := d.phaseDeadlines(r)
	if r.Offer != nil {
		all = append(all, deadline{deadlineOffer, r.Offer.Until()})
	}
	return all
}

func (d *Document) phaseDeadlines(r *Record) []deadline {
	switch {
	case !r.Phase.Live():
		if r.Kept || r.Removing {
			return nil
		}
		return []deadline{{deadlineRemove, r.FinishedAt.Add(finalStays)}}
	case r.Phase == Requested:
		return []deadline{{deadlineRequest, r.CreatedAt.Add(requestWaits)}}
	case r.Phase == Available:
		return d.ageDeadline(r)
	case r.Phase == DestroyFailed:
		if len(r.Runs) == 0 {
			return []deadline{{deadlineDestroyAgain, r.CreatedAt}}
		}
		return []deadline{{deadlineDestroyAgain, r.Runs[0].EndedAt.Add(destroyAgain)}}
	case canExpire(r.Phase):
		return d.liveDeadlines(r)
	}
	return nil
}

func (d *Document) ageDeadline(r *Record) []deadline {
	if p := d.template(r.Snapshot).Pool; p != nil && p.MaxAge > 0 {
		return []deadline{{deadlineDrain, r.ReadyAt.Add(p.MaxAge)}}
	}
	return nil
}

func (d *Document) liveDeadlines(r *Record) []deadline {
	all := append(d.endDeadlines(r), planDeadlines(r)...)
	if r.Pending != nil {
		all = append(all, deadline{deadlineRequest, r.Pending.At.Add(requestWaits)})
	}
	if r.Phase == Planned && r.Run != nil {
		all = append(all, deadline{deadlinePlan, r.Run.EndedAt.Add(planWaits)})
	}
	all = append(all, switchDeadlines(r)...)
	if at := d.driftAt(r); !at.IsZero() {
		all = append(all, deadline{deadlineDrift, at})
	}
	return all
}

func (d *Document) endDeadlines(r *Record) []deadline {
	if r.ExpiresAt.IsZero() {
		return nil
	}
	var all []deadline
	if at := d.endOf(r); !at.IsZero() && !d.isLeaving(r) {
		all = append(all, deadline{deadlineEnd, at})
	}
	if r.Protected != "" {
		at := r.ExpiresAt
		for _, n := range r.Notices {
			if n.Kind == noticeProtected {
				at = laterOf(at, n.At.Add(daily))
			}
		}
		all = append(all, deadline{deadlineHoldOff, at})
	}
	for _, lead := range d.leadTimes(r) {
		if !r.hasNotice(noticeBefore(lead)) {
			all = append(all, deadline{deadlineNotice, r.ExpiresAt.Add(-lead)})
		}
	}
	return all
}

// isLeaving reports whether a record waits for its run to end and is orphaned then.
func (d *Document) isLeaving(r *Record) bool {
	t := d.template(r.Snapshot).TTL
	keeps := t != nil && t.OnExpire == "keep"
	return keeps && r.Run.Active() && r.Run.Kind != RunDrift && r.Run.Cancel != ""
}

// driftAt returns when an instance is next compared with its state; zero: never.
func (d *Document) driftAt(r *Record) time.Time {
	t := d.template(r.Snapshot)
	if r.Phase != Ready || r.Run != nil || t.Drift == nil || t.Drift.Every <= 0 {
		return time.Time{}
	}
	at := laterOf(r.ReadyAt, r.ClaimedAt)
	if len(r.Runs) > 0 {
		at = laterOf(at, r.Runs[0].EndedAt)
	}
	return at.Add(t.Drift.Every)
}

// nextDeadline returns the earliest deadline of a record; zero: none.
func (d *Document) nextDeadline(r *Record) time.Time {
	var at time.Time
	for _, y := range d.deadlines(r) {
		if at.IsZero() || y.at.Before(at) {
			at = y.at
		}
	}
	return at
}

// firstPending returns the kind of the passed deadline that is handled first.
func (d *Document) firstPending(r *Record, now time.Time) (what int, ok bool) {
	first := -1
	for _, y := range d.deadlines(r) {
		passed := !y.at.After(now) && (d.Clock.Held == "" || !y.waitsForClock())
		if passed && (first < 0 || y.what < first) {
			first = y.what
		}
	}
	return first, first >= 0
}

// PendingIDs returns the instances with a passed deadline, soonest first, and when anything is due
// next, timed runs and refills included; zero: never. Queued runs are due with every [Schedule].
func (d *Document) PendingIDs(now time.Time) (ids []string, next time.Time) {
	var pending []*Record
	soon := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, r := range d.Records {
		if r.Run.isWaiting() {
			soon(r.Run.NotBefore)
		}
		if r.Next.IsZero() || r.Next.After(now) {
			soon(r.Next)
			continue
		}
		if _, ok := d.firstPending(r, now); ok {
			pending = append(pending, r)
		}
		for _, y := range d.deadlines(r) {
			soon(y.at)
		}
	}
	for _, p := range d.Pools {
		soon(p.Backoff)
	}
	slices.SortFunc(pending, func(a, b *Record) int {
		return cmp.Or(a.Next.Compare(b.Next), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range pending {
		ids = append(ids, r.ID)
	}
	return ids, next
}

// Templates is what is known of the templates at present.
type Templates interface {
	// Known returns the templates by name, and whether all names are known: if not, a missing one
	// may be unreadable, and its pool stays, like that of a template without digest.
	Known() (all []template.Entry, complete bool)
	Current(name string) (*template.Entry, bool)
}

// Pending returns the events that may change something now, ends before beginnings, with at most
// concurrency runs under way. next is when more is due; zero: never.
func (d *Document) Pending(t Templates, concurrency int, now time.Time) (events []Event, next time.Time) {
	ids, next := d.PendingIDs(now)
	for _, id := range ids {
		events = append(events, ExpireCheck{ID: id})
	}
	for _, q := range d.Requests {
		if now.Sub(q.At) > 2*requestAge { // not for each single one
			events = append(events, Prune{})
			break
		}
	}
	events = append(events, d.fillEvents(t)...)
	events = append(events, d.updateEvents(t)...)
	return append(events, Schedule{Concurrency: concurrency}), next
}

// fillEvents returns a Fill for every pool: those of templates, and of members without one.
func (d *Document) fillEvents(t Templates) []Event {
	var events []Event
	pooled := map[string]bool{}
	all, complete := t.Known()
	for i := range all {
		e := &all[i]
		if e.Template.Pool == nil {
			pooled[e.Template.Name] = e.Digest == "" // it could not be read, and may have one
			continue
		}
		pooled[e.Template.Name] = true
		if !e.Unseen {
			events = append(events, Fill{Name: e.Template.Name, Template: e.Template, Digest: e.Digest, Source: e.Source, Invalid: e.Problem})
		}
	}
	if !complete {
		return events
	}
	for _, id := range slices.Sorted(maps.Keys(d.Records)) {
		if r := d.Records[id]; r.isUnclaimed() && r.Phase.Live() && !pooled[r.Template] {
			pooled[r.Template] = true
			events = append(events, Fill{Name: r.Template})
		}
	}
	return events
}

// updateEvents returns events for instances whose template, module or update notice is outdated.
func (d *Document) updateEvents(t Templates) []Event {
	var events []Event
	for _, id := range slices.Sorted(maps.Keys(d.Records)) {
		r := d.Records[id]
		e, ok := t.Current(r.Template)
		if !ok || e.Problem != "" || !r.Phase.Live() || r.Owner == (template.Owner{}) {
			continue
		}
		shown := slices.ContainsFunc(r.Conditions, func(c Condition) bool { return c.Type == UpdateAvailable })
		newer := e.Digest != r.Snapshot || e.Source.Digest != r.Source.Digest
		if shown || newer {
			events = append(events, UpdateCheck{ID: id, Template: e.Template, Digest: e.Digest, Source: e.Source})
		}
	}
	return events
}

// maxDeadlines is how many deadlines one check handles: more than there are kinds.
const maxDeadlines = 13

func handleDeadlines(tx *tx, id string) {
	for range maxDeadlines {
		r := tx.doc.Records[id]
		if r == nil {
			return
		}
		what, ok := tx.doc.firstPending(r, tx.now)
		if !ok {
			return
		}
		handleDeadline(tx, tx.edit(r), what)
	}
}

func handleDeadline(tx *tx, r *Record, what int) {
	switch what {
	case deadlineEnd:
		expireInstance(tx, r)
	case deadlineRequest:
		tx.recordEvent(r, "rejected", "not approved in time")
		declineRequest(tx, r, Cancelled, "not approved in time")
	case deadlinePlan:
		if len(r.Open) > 0 {
			discardOldPlans(tx, r)
			return
		}
		tx.recordEvent(r, "rejected", "the plan was not approved in time")
		discardPlan(tx, r, Cancelled, "the plan was not approved in time")
	case deadlineDrain:
		drainMember(tx, r, "it is too old")
	case deadlineOffer:
		endOffer(tx, r, "offer ended", "not accepted in time")
	case deadlineHoldOff:
		reportProtected(tx, r)
	case deadlineNotice:
		reportEnd(tx, r)
	case deadlineDestroyAgain:
		startDestroy(tx, r, "retried")
	case deadlineRemove:
		removeRecord(tx, r)
	case deadlineSwitch:
		applySchedule(tx, r)
	case deadlineSwitchRequest:
		carryOutSwitch(tx, r)
	case deadlineDrift:
		queueRun(tx, r, newRun(tx, r, RunDrift))
	}
}
