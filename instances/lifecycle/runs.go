// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
)

// Active reports whether an attempt was begun and its end is not known.
func (r *Run) Active() bool { return r != nil && !r.StartedAt.IsZero() && r.EndedAt.IsZero() }

// isWaiting reports whether a run waits in the queue, or for its start time.
func (r *Run) isWaiting() bool { return r != nil && r.StartedAt.IsZero() }

// Ref identifies the newest attempt of a run, whose record has the given ID.
func (r *Run) Ref(id string) Ref {
	return Ref{ID: id, Kind: r.Kind, N: r.N, Attempt: r.Attempt, Nonce: r.Nonce}
}

// openRuns returns the runs of a record that have not ended, without [Record.Then].
func openRuns(r *Record) []*Run {
	var all []*Run
	if r.Run != nil {
		all = append(all, r.Run)
	}
	for i := range r.Open {
		all = append(all, &r.Open[i])
	}
	return all
}

// AllRuns returns the known runs of a record, newest first, without [Record.Then].
func (r *Record) AllRuns() []*Run {
	all := openRuns(r)
	for i := range r.Runs {
		all = append(all, &r.Runs[i])
	}
	slices.SortStableFunc(all, func(a, b *Run) int { return b.N - a.N })
	return all
}

// FindRun returns a known run by its number; nil: there is none, or it is kept no longer.
func (r *Record) FindRun(n int) *Run {
	for _, run := range r.AllRuns() {
		if run.N == n {
			return run
		}
	}
	return nil
}

// HasEnded reports whether an attempt is known here to have ended: any but the active one.
func (r *Record) HasEnded(n, attempt int) bool {
	run := r.FindRun(n)
	switch {
	case !r.Phase.Live():
		return true
	case run == nil:
		return n <= max(r.Numbered, r.lastRunNumber())
	case run.Attempt != attempt:
		return run.Attempt > attempt
	}
	return !run.Active()
}

// HasPlanWaiting reports whether a run waits for a decision about its plan.
func (r *Run) HasPlanWaiting() bool {
	return r.Result == "" && r.Plan != "" && r.Approved == "" && !r.Active()
}

// PlanRef identifies the attempt that made a run's plan; without nonce it is not known.
func (r *Run) PlanRef(id string) Ref {
	ref := r.Ref(id)
	if r.Kind != RunApply || r.Planned == 0 {
		return ref
	}
	ref.Kind = RunPlan
	if r.Attempt > r.Planned { // this attempt applies the plan of that one
		ref.Attempt = r.Planned
		ref.Nonce = ""
		if r.Planned == r.Attempt-1 {
			ref.Nonce = r.Before
		}
	}
	return ref
}

func (r *Record) lastRunNumber() int {
	n := 0
	if len(r.Runs) > 0 {
		n = r.Runs[0].N
	}
	for _, run := range []*Run{r.Run, r.Then} {
		if run != nil {
			n = max(n, run.N)
		}
	}
	return n
}

// newRun returns a run of the record's source and snapshot, and repeats a failed switch.
func newRun(tx *tx, r *Record, kind RunKind) *Run {
	run := &Run{
		N: r.lastRunNumber() + 1, Kind: kind, By: tx.storedActor(), QueuedAt: tx.now,
		Source: r.Source, Snapshot: r.Snapshot, From: r.Phase, Off: r.Switch.isOff(),
	}
	if last := r.lastTriedRun(); r.Phase == Failed && last != nil {
		run.Off = last.Off
	}
	return run
}

func queueRun(tx *tx, r *Record, run *Run) {
	r.Run = run
	if run.Kind == RunApply && needsPlanFirst(tx, r, run) {
		run.Kind = RunPlan
	}
	awaitAttempt(tx, r, 0, WaitQueued, "")
}

// needsPlanFirst reports whether a plan is reviewed, by a person or the machine, before its apply.
func needsPlanFirst(tx *tx, r *Record, run *Run) bool {
	return run.Auto || needsApproval(tx, r, run.Snapshot, template.ApprovalPlan)
}

// awaitAttempt makes the next attempt of a run wait in the queue, and for wait.
func awaitAttempt(tx *tx, r *Record, wait time.Duration, reason, message string) {
	run := r.Run
	run.StartedAt = time.Time{}
	run.EndedAt = time.Time{}
	run.Handle = ""
	run.NotBefore = time.Time{}
	if wait > 0 {
		run.NotBefore = tx.now.Add(wait)
	}
	r.setCondition(Waiting, reason, message)
}

// followRun queues a run after the running one, which is stopped for it.
func followRun(tx *tx, r *Record, next *Run, why string) {
	if r.Run.Active() {
		r.Then = next
		stopRun(tx, r, why)
		return
	}
	if r.Run != nil {
		endRun(tx, r, Cancelled, why)
	}
	queueRun(tx, r, next)
}

// stopRun asks an attempt to end early.
func stopRun(tx *tx, r *Record, why string) {
	r.Run.Cancel = cmp.Or(r.Run.Cancel, clipForeign(why, maxText))
	tx.addEffect(CancelRun, r.Run.Ref(r.ID))
}

// endRun moves a run to the ended ones. The newest failed one keeps what a retry or destroy needs.
func endRun(tx *tx, r *Record, result, text string) {
	run := *r.Run
	changes := run.Kind == RunApply || run.Kind == RunPlan
	if changes {
		r.forgetRuns(!run.Applied)
	}
	if !changes || result == Done {
		run.Snapshot = ""
		run.Parameters = nil
	}
	r.Run = nil
	r.unsetCondition(Waiting)
	addEnded(tx, r, run, result, text)
}

func addEnded(tx *tx, r *Record, run Run, result, text string) {
	run.Result = result
	run.Error = clipForeign(text, maxText)
	run.EndedAt = tx.now
	run.NotBefore = time.Time{}
	run.Handle = ""
	run.Cancel = ""
	all := slices.Concat([]Run{run}, r.Runs)
	for i := len(all) - 1; i > 0 && len(all) > maxRuns; i-- {
		if !all[i].Applied || all[i].Snapshot == "" { // else a destroy needs it
			all = slices.Delete(all, i, i+1)
		}
	}
	r.Runs = all
	tx.unusedTemplates = true
}

// forgetRuns drops the snapshots and parameters of ended runs, but of the last that applied
// something if it is to be kept.
func (r *Record) forgetRuns(keepApplied bool) {
	for i := range r.Runs {
		if run := &r.Runs[i]; keepApplied && run.Applied && run.Snapshot != "" {
			keepApplied = false
		} else {
			run.Snapshot = ""
			run.Parameters = nil
		}
	}
}

// scheduleRuns starts waiting runs that fit: destroys, users' runs, pools, drift; owners served
// longest ago first, each up to half of the concurrency, rounded up, destroys aside.
func scheduleRuns(tx *tx, e Schedule) {
	for {
		r := tx.doc.nextToStart(tx.now, e.Concurrency)
		if r == nil {
			return
		}
		r = tx.edit(r)
		if isExpired(tx, r) {
			handleDeadlines(tx, r.ID)
			continue
		}
		beginAttempt(tx, r)
	}
}

// nextToStart returns the record whose run is started next; nil: none fits.
func (d *Document) nextToStart(now time.Time, concurrency int) *Record {
	q := d.readQueue(now)
	if q.running >= concurrency {
		return nil
	}
	half := concurrency - concurrency/2
	for _, r := range q.waiting {
		if r.Run.Kind == RunDestroy || q.usage[r.queueOwner()].running < half {
			return r
		}
	}
	return nil
}

func beginAttempt(tx *tx, r *Record) {
	run := r.Run
	run.Attempt++
	run.Before = run.Nonce
	run.Nonce = tx.newNonce()
	run.StartedAt = tx.now
	run.EndedAt = time.Time{}
	run.NotBefore = time.Time{}
	run.Handle = ""
	if run.Ask != nil { // its state is not stored with its record
		run.After = r.Latest
		r.Latest = new(run.Ref(r.ID))
	} else if run.Kind == RunApply {
		r.Untouched = r.Untouched || !r.Applied
		r.Applied = true
	}
	r.unsetCondition(Waiting)
	tx.addEffect(StartRun, r.Run.Ref(r.ID))
}

// queue holds the waiting runs, the next one first.
type queue struct {
	running int // all running attempts
	waiting []*Record
	usage   map[template.Owner]ownerUsage
}

// ownerUsage is how much of the concurrency an owner uses.
type ownerUsage struct {
	running int       // without destroys
	served  time.Time // when the owner's last attempt was started
}

func (d *Document) readQueue(now time.Time) queue {
	q := queue{usage: map[template.Owner]ownerUsage{}}
	for _, r := range d.Records {
		if r.Run.isWaiting() && !r.Run.NotBefore.After(now) {
			q.waiting = append(q.waiting, r)
		}
		if !r.Run.Active() && len(r.Runs) == 0 {
			continue
		}
		t := q.usage[r.queueOwner()]
		if r.Run.Active() {
			q.running++
			if r.Run.Kind != RunDestroy {
				t.running++
			}
		}
		t.served = laterOf(t.served, r.lastServed())
		q.usage[r.queueOwner()] = t
	}
	slices.SortFunc(q.waiting, func(a, b *Record) int { return compareRuns(a, b, q.usage) })
	return q
}

func compareRuns(a, b *Record, usage map[template.Owner]ownerUsage) int {
	x := usage[a.queueOwner()]
	y := usage[b.queueOwner()]
	return cmp.Or(
		cmp.Compare(a.priority(), b.priority()), x.served.Compare(y.served), cmp.Compare(x.running, y.running),
		a.Run.QueuedAt.Compare(b.Run.QueuedAt), strings.Compare(a.ID, b.ID))
}

// ownerKey returns an owner without its label.
func ownerKey(o template.Owner) template.Owner {
	return template.Owner{Kind: o.Kind, Issuer: o.Issuer, ID: o.ID}
}

// queueOwner returns whose usage a run counts for: its owner, or its organization.
func (r *Record) queueOwner() template.Owner {
	if r.Workspace != "" {
		return template.Owner{Kind: "organization", ID: r.Template}
	}
	return ownerKey(r.Owner)
}

func (r *Record) lastServed() time.Time {
	var at time.Time
	if r.Run != nil {
		at = r.Run.StartedAt
	}
	if len(r.Runs) > 0 {
		at = laterOf(at, r.Runs[0].StartedAt)
	}
	return at
}

// priority returns the priority of a run; lower runs first.
func (r *Record) priority() int {
	switch {
	case r.Run.Kind == RunDestroy:
		return 0
	case r.Run.Kind == RunDrift:
		return 3
	case r.isUnclaimed() || r.Run.By.Subject == "":
		return 2 // of a pool, or not requested by a user
	}
	return 1
}

// HasResources reports whether the state of an instance is known to have had resources, and not to
// have lost them by a run.
func HasResources(r *Record) bool { return r.Made || !r.ReadyAt.IsZero() && !r.Empty && !r.Unsure }

// findRunning returns the record whose current attempt it is, or nil.
func findRunning(tx *tx, ref Ref) *Record {
	r := tx.doc.Records[ref.ID]
	if r == nil || !r.Run.Active() || r.Run.Ref(r.ID) != ref || ref.Nonce == "" {
		return nil
	}
	return r
}

func recordHandle(tx *tx, e Started) {
	r := findRunning(tx, e.Ref)
	if r == nil || e.Handle == "" || len(e.Handle) > 256 || r.Run.Handle == e.Handle {
		return
	}
	tx.edit(r).Run.Handle = e.Handle
}

// recordWait records why an attempt does not proceed; an empty Reason clears it.
func recordWait(tx *tx, e Wait) {
	r := findRunning(tx, e.Ref)
	if r == nil {
		return
	}
	message := clipForeign(e.Message, maxText)
	was := r.condition(Waiting)
	switch {
	case e.Reason == "" && was.Type != "":
		tx.edit(r).unsetCondition(Waiting)
	case e.Reason != "" && (was.Reason != e.Reason || was.Message != message):
		tx.edit(r).setCondition(Waiting, clipForeign(e.Reason, 64), message)
	}
}

// Outstanding returns the effects that a new leader repeats: begun, and maybe not done.
func (m *Machine) Outstanding(d *Document) []Effect {
	var all []Effect
	for _, id := range sortedKeys(d.Records) {
		r := d.Records[id]
		if r.Run.Active() {
			all = append(all, r.Run.outstandingEffects(r.Run.Ref(r.ID))...)
		}
		all = append(all, unsentEffects(r.Notices, id)...)
		switch {
		case r.Phase.Live():
		case !r.Archived:
			all = append(all, Effect{Kind: Archive, Ref: Ref{ID: id}})
		case r.Removing:
			all = append(all, Effect{Kind: Remove, Ref: Ref{ID: id}})
		}
	}
	for _, name := range sortedKeys(d.Pools) {
		all = append(all, unsentEffects(d.Pools[name].Notices, name)...)
	}
	all = append(all, unsentEffects(d.Clock.Notices, ofClock)...)
	for i := range all {
		all[i].Again = true
	}
	return all
}

// outstandingEffects returns an attempt's effects that may not be done yet, its start included.
func (r *Run) outstandingEffects(ref Ref) []Effect {
	all := []Effect{{Kind: StartRun, Ref: ref}}
	if r.Cancel != "" {
		all = append(all, Effect{Kind: CancelRun, Ref: ref})
	}
	if r.Force {
		all = append(all, Effect{Kind: KillRun, Ref: ref})
	}
	return all
}

// QueuePosition returns the place of an instance's run in the queue, from 1, as of the last commit;
// 0: it does not wait there. Limits per owner may change the order.
func (d *Document) QueuePosition(id string) int {
	if r := d.Records[id]; r == nil || !r.Run.isWaiting() {
		return 0
	}
	return 1 + slices.IndexFunc(d.readQueue(d.Clock.At).waiting, func(w *Record) bool { return w.ID == id })
}

// WaitState is why a run does not proceed.
type WaitState struct {
	Reason   string `json:"reason"`          // of the condition [Waiting]; "": it proceeds, or waits for nothing
	Position int    `json:"place,omitempty"` // in the queue, the next one being 1
	Message  string `json:"message,omitempty"`
}

// WaitOf returns why a run does not proceed; zero: it does, waits for a decision, or has ended.
func (d *Document) WaitOf(r *Record, run *Run) WaitState {
	switch {
	case run.Result != "" || run.HasPlanWaiting():
		return WaitState{}
	case r.Run == nil || r.Run.N != run.N:
		return WaitState{Reason: "turn", Message: "Other runs of this workspace are ahead of it."}
	}
	c := r.condition(Waiting)
	if c.Type == "" {
		return WaitState{}
	}
	return WaitState{c.Reason, d.QueuePosition(r.ID), c.Message}
}
