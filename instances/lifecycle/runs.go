// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
)

// active reports whether an attempt was begun whose end is not known.
func (r *Run) active() bool {
	return r != nil && !r.StartedAt.IsZero() && r.EndedAt.IsZero()
}

// waits reports whether a run waits in the queue, or for its time.
func (r *Run) waits() bool { return r != nil && r.StartedAt.IsZero() }

// ref names the attempt of a record that was begun.
func (r *Record) ref() Ref {
	return Ref{ID: r.ID, Kind: r.Run.Kind, N: r.Run.N, Attempt: r.Run.Attempt, Nonce: r.Run.Nonce}
}

// lastN is the highest number of a run of a record.
func (r *Record) lastN() int {
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

// newRun is a run of what a record has. After a stop or start that failed it does that too.
func (w runQueue) newRun(r *Record, kind RunKind) *Run {
	run := &Run{
		N: r.lastN() + 1, Kind: kind, By: w.person(), QueuedAt: w.now,
		Source: r.Source, Snapshot: r.Snapshot, From: r.Phase, Off: r.Switch.off(),
	}
	if last := r.lastTried(); r.Phase == Failed && last != nil {
		run.Off = last.Off
	}
	return run
}

// queue puts a run into the queue.
func (w runQueue) queue(r *Record, run *Run) {
	r.Run = run
	if run.Kind == RunApply && w.planFirst(r, run) {
		run.Kind = RunPlan
	}
	w.await(r, 0, WaitQueued, "")
}

// planFirst reports whether somebody, or the machine itself, looks at a plan
// before it is applied.
func (w runQueue) planFirst(r *Record, run *Run) bool {
	return run.Auto || w.approvals().approval(r, run.Snapshot, template.ApprovalPlan)
}

// await lets the next attempt of a run wait: for a place, and for its time.
func (w runQueue) await(r *Record, wait time.Duration, reason, message string) {
	run := r.Run
	run.StartedAt = time.Time{}
	run.EndedAt = time.Time{}
	run.Handle = ""
	run.NotBefore = time.Time{}
	if wait > 0 {
		run.NotBefore = w.now.Add(wait)
	}
	r.set(Waiting, reason, message)
}

// follow lets a run come after what runs now, which is stopped for it.
func (w runQueue) follow(r *Record, next *Run, why string) {
	if r.Run.active() {
		r.Then = next
		w.stop(r, why)
		return
	}
	if r.Run != nil {
		w.endRun(r, Cancelled, why)
	}
	w.queue(r, next)
}

// stop asks an attempt to end early.
func (w runQueue) stop(r *Record, why string) {
	if r.Run.Cancel == "" {
		r.Run.Cancel = clip(why, maxText)
	}
	w.effects = append(w.effects, Effect{Kind: CancelRun, Ref: r.ref()})
}

// endRun puts the run of a record among those that ended. What it was to run is
// kept of the newest that did not come to its end, for a retry and for what
// destroys.
func (w runQueue) endRun(r *Record, result, text string) {
	run := *r.Run
	run.Result = result
	run.Error = clip(text, maxText)
	run.EndedAt = w.now
	run.NotBefore = time.Time{}
	run.Handle = ""
	run.Cancel = ""
	changes := run.Kind == RunApply || run.Kind == RunPlan
	if changes {
		r.forget()
	}
	if !changes || result == Done {
		run.Snapshot = ""
		run.Parameters = nil
	}
	r.Run = nil
	r.Runs = append([]Run{run}, r.Runs[:min(len(r.Runs), maxRuns-1)]...)
	r.unset(Waiting)
	w.unusedTemplates = true
}

// forget drops what runs that ended were to run.
func (r *Record) forget() {
	for i := range r.Runs {
		r.Runs[i].Snapshot = ""
		r.Runs[i].Parameters = nil
	}
}

// schedule starts what fits of the runs that wait: those that destroy first,
// then those that a person waits for, pools, drift; within that, the owner who
// was served longest ago. One owner has at most half the places, rounded up, but
// for what he destroys.
func (w runQueue) schedule(concurrency int) {
	for {
		r := w.doc.candidate(w.now, concurrency)
		if r == nil {
			return
		}
		r = w.edit(r)
		if w.endings().expired(r) {
			w.endings().expireCheck(r.ID)
			continue
		}
		w.begin(r)
	}
}

// candidate is the record whose run is started next; nil: none fits.
func (d *Document) candidate(now time.Time, concurrency int) *Record {
	q := d.queue(now)
	if q.running >= concurrency {
		return nil
	}
	share := concurrency - concurrency/2
	for _, r := range q.waiting {
		if r.Run.Kind == RunDestroy || q.usage[r.queueOwner()].running < share {
			return r
		}
	}
	return nil
}

// begin starts an attempt.
func (w runQueue) begin(r *Record) {
	run := r.Run
	run.Attempt++
	run.Before = run.Nonce
	run.Nonce = w.newNonce()
	run.StartedAt = w.now
	run.EndedAt = time.Time{}
	run.NotBefore = time.Time{}
	run.Handle = ""
	if run.Kind == RunApply && !r.isWorkspace() {
		run.Applied = true
		r.Applied = true
	}
	if r.isWorkspace() {
		run.After = r.Latest
		r.Latest = new(r.ref())
	}
	r.unset(Waiting)
	w.effects = append(w.effects, Effect{Kind: StartRun, Ref: r.ref()})
}

// queue has the runs that wait, the next one first.
type queue struct {
	running int // of all
	waiting []*Record
	usage   map[template.Owner]ownerUsage
}

// ownerUsage is what an owner has of the concurrent runs.
type ownerUsage struct {
	running int       // that do not destroy
	served  time.Time // last
}

func (d *Document) queue(now time.Time) queue {
	q := queue{usage: map[template.Owner]ownerUsage{}}
	for _, r := range d.Records {
		if r.Run.waits() && !r.Run.NotBefore.After(now) {
			q.waiting = append(q.waiting, r)
		}
		if !r.Run.active() && len(r.Runs) == 0 {
			continue
		}
		t := q.usage[r.queueOwner()]
		if r.Run.active() {
			q.running++
			if r.Run.Kind != RunDestroy {
				t.running++
			}
		}
		t.served = later(t.served, r.served())
		q.usage[r.queueOwner()] = t
	}
	slices.SortFunc(q.waiting, func(a, b *Record) int { return order(a, b, q.usage) })
	return q
}

func order(a, b *Record, usage map[template.Owner]ownerUsage) int {
	x := usage[a.queueOwner()]
	y := usage[b.queueOwner()]
	return cmp.Or(
		cmp.Compare(a.class(), b.class()), x.served.Compare(y.served), cmp.Compare(x.running, y.running),
		a.Run.QueuedAt.Compare(b.Run.QueuedAt), strings.Compare(a.ID, b.ID))
}

// ownerKey is an owner without what he is called.
func ownerKey(o template.Owner) template.Owner {
	return template.Owner{Kind: o.Kind, Issuer: o.Issuer, ID: o.ID}
}

// queueOwner is with whom a record shares its turns: its owner, or its organization.
func (r *Record) queueOwner() template.Owner {
	if r.isWorkspace() {
		return template.Owner{Kind: "organization", ID: r.Template}
	}
	return ownerKey(r.Owner)
}

// served tells when an attempt of a record was begun last.
func (r *Record) served() time.Time {
	var at time.Time
	if r.Run != nil {
		at = r.Run.StartedAt
	}
	if len(r.Runs) > 0 {
		at = later(at, r.Runs[0].StartedAt)
	}
	return at
}

// class is how soon a run gets a place.
func (r *Record) class() int {
	switch {
	case r.Run.Kind == RunDestroy:
		return 0
	case r.Run.Kind == RunDrift:
		return 3
	case r.Owner.ID == "" && !r.isWorkspace() || r.Run.By.Subject == "":
		return 2 // of a pool, or asked for by nobody
	}
	return 1
}

// running returns the record that an attempt is of; nil if it is not the one
// that the record names, in full.
func (w runQueue) running(ref Ref) *Record {
	r := w.doc.Records[ref.ID]
	if r == nil || !r.Run.active() || r.ref() != ref || ref.Nonce == "" {
		return nil
	}
	return r
}

// started keeps the handle of an attempt.
func (w runQueue) started(e Started) {
	r := w.running(e.Ref)
	if r == nil || e.Handle == "" || len(e.Handle) > 256 || r.Run.Handle == e.Handle {
		return
	}
	w.edit(r).Run.Handle = e.Handle
}

// wait tells why an attempt does not go on; Reason "" that it does.
func (w runQueue) wait(e Wait) {
	r := w.running(e.Ref)
	if r == nil {
		return
	}
	message := clip(e.Message, maxText)
	was := r.condition(Waiting)
	switch {
	case e.Reason == "" && was.Type != "":
		w.edit(r).unset(Waiting)
	case e.Reason != "" && (was.Reason != e.Reason || was.Message != message):
		w.edit(r).set(Waiting, clip(e.Reason, 64), message)
	}
}

// Outstanding are the effects that a new leader repeats: what the document says
// was begun, and of which nobody knows whether it was done.
func (m *Machine) Outstanding(d *Document) []Effect {
	var all []Effect
	for _, id := range sortedKeys(d.Records) {
		r := d.Records[id]
		if r.Run.active() {
			all = append(all, r.Run.outstanding(r.ref())...)
		}
		all = append(all, unsent(r.Notices, id)...)
		switch {
		case r.Phase.Live():
		case !r.Archived:
			all = append(all, Effect{Kind: Archive, Ref: Ref{ID: id}})
		case r.Removing:
			all = append(all, Effect{Kind: Remove, Ref: Ref{ID: id}})
		}
	}
	for _, name := range sortedKeys(d.Pools) {
		all = append(all, unsent(d.Pools[name].Notices, name)...)
	}
	all = append(all, unsent(d.Clock.Notices, ofClock)...)
	for i := range all {
		all[i].Again = true
	}
	return all
}

// outstanding is what may not have been done of an attempt. One that was started
// is named as well: its end is still to be seen.
func (r *Run) outstanding(ref Ref) []Effect {
	all := []Effect{{Kind: StartRun, Ref: ref}}
	if r.Cancel != "" {
		all = append(all, Effect{Kind: CancelRun, Ref: ref})
	}
	if r.Force {
		all = append(all, Effect{Kind: KillRun, Ref: ref})
	}
	return all
}

// QueuePosition is where the run of an instance stands among those that wait in the queue,
// the next one being 1, as of the last commit. 0: it runs, or waits for something
// else. Shares of owners may let a later one go first.
func (d *Document) QueuePosition(id string) int {
	r := d.Records[id]
	if r == nil || !r.Run.waits() {
		return 0
	}
	return 1 + slices.IndexFunc(d.queue(d.Clock.At).waiting, func(w *Record) bool { return w.ID == id })
}
