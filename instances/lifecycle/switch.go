// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	"github.com/seed-141914ff/okara/instances/internal/timetable"
)

// switching is the state of an instance in the schedule of its template.
type switching struct {
	Stopped  bool      `json:"stopped,omitempty"`  // as applied last
	StopsAt  time.Time `json:"stops_at,omitzero"`  // the next time by the schedule; zero: only on request
	StartsAt time.Time `json:"starts_at,omitzero"` // likewise
	// Requested is the latest stop or start that is not carried out; "": none.
	Requested   string    `json:"said,omitempty"`
	RequestedAt time.Time `json:"said_at,omitzero"`
	RequestedBy Actor     `json:"said_by,omitzero"` // zero: the schedule
}

// Values of switching.Requested.
const (
	wordStop  = "stop"
	wordStart = "start"
)

func wordOf(stop bool) string {
	if stop {
		return wordStop
	}
	return wordStart
}

// applyTo handles a person's request, which holds until the schedule's next time.
func (e Switch) applyTo(tx *tx) (Answer, error) {
	v := verbStart
	if e.Stop {
		v = verbStop
	}
	r, err := findInstance(tx, e.ID, v)
	switch {
	case err != nil:
		return Answer{}, err
	case tx.doc.template(r.Snapshot).Schedule == nil:
		return Answer{}, newRefusal(ErrPhase, "instance %s cannot be %s: its template has no schedule", r.ID, v)
	case r.Switch == nil:
		return Answer{}, newRefusal(ErrPhase, "instance %s was never ready and cannot be %s", r.ID, v)
	case r.Phase != Failed && isToBeStopped(r) == e.Stop && !r.Switch.isDue(tx.now):
		return Answer{Status: 200, Record: r}, nil
	}
	if err := checkCountsAgain(tx, r); err != nil {
		return Answer{}, err
	}
	r = tx.edit(r)
	requestScheduled(tx, r)
	requestSwitch(tx, r, e.Stop, tx.storedActor())
	tx.recordEvent(r, wordOf(e.Stop), "")
	if r.Phase == Failed || canSwitchNow(r) {
		carryOutSwitch(tx, r)
	}
	return Answer{Status: 202, Record: r}, nil
}

// isToBeStopped reports whether an instance will be stopped in the end.
func isToBeStopped(r *Record) bool {
	switch {
	case r.Switch.Requested != "":
		return r.Switch.Requested == wordStop
	case r.Then != nil && r.Then.Switch:
		return r.Then.Off
	case r.Run != nil && r.Run.Switch:
		return r.Run.Off
	}
	return r.Switch.Stopped
}

// isOff reports whether the last apply stopped the instance.
func (s *switching) isOff() bool { return s != nil && s.Stopped }

// requestSwitch records a request in place of an earlier one.
func requestSwitch(tx *tx, r *Record, stop bool, by Actor) {
	r.Switch.Requested = wordOf(stop)
	r.Switch.RequestedAt = tx.now
	r.Switch.RequestedBy = by
}

// requestScheduled records the schedule's request whose time has come, the last of several.
func requestScheduled(tx *tx, r *Record) {
	s := r.Switch
	if s == nil || !s.isDue(tx.now) {
		return
	}
	if stop, found := timetableOf(tx, r).Last(s.nextTime(), tx.now); found {
		requestSwitch(tx, r, stop, Actor{})
	}
	setSwitchTimes(tx, r)
}

// nextTime returns the next time of the schedule; zero: never.
func (s *switching) nextTime() time.Time {
	if s.StopsAt.IsZero() {
		return s.StartsAt
	}
	if s.StartsAt.IsZero() {
		return s.StopsAt
	}
	return earlierOf(s.StopsAt, s.StartsAt)
}

// isDue reports whether a time of the schedule has come and is not yet recorded.
func (s *switching) isDue(now time.Time) bool {
	return !s.nextTime().IsZero() && !s.nextTime().After(now)
}

func setSwitchTimes(tx *tx, r *Record) {
	r.Switch.StopsAt, r.Switch.StartsAt = timetableOf(tx, r).Next(tx.now)
}

// timetableOf returns the schedule of a record's template, or an empty one.
func timetableOf(tx *tx, r *Record) *timetable.Table {
	if s := tx.doc.template(r.Snapshot).Schedule; s != nil {
		if t, err := s.Read(); err == nil {
			return t
		}
	}
	return &timetable.Table{}
}

func beginSchedule(tx *tx, r *Record, stopped bool) {
	if tx.doc.template(r.Snapshot).Schedule == nil {
		r.Switch = nil
		return
	}
	if r.Switch == nil {
		r.Switch = &switching{}
	}
	r.Switch.Stopped = stopped
	setSwitchTimes(tx, r)
}

// recordSwitched records what a run made of an instance; a revised template resets the times.
func recordSwitched(tx *tx, r *Record, revised, stopped bool) {
	if r.Switch == nil || revised {
		beginSchedule(tx, r, stopped)
		return
	}
	r.Switch.Stopped = stopped
}

// canSwitchNow reports whether the instance is ready, failed to switch, or waits to do so.
func canSwitchNow(r *Record) bool {
	switch r.Phase {
	case Ready:
		return r.Run == nil || r.Run.Kind == RunDrift
	case Failed:
		return len(r.Runs) > 0 && r.Runs[0].Switch
	case Updating:
		return r.Run.isWaiting() && r.Run.Switch && r.Run.Attempt == 0
	}
	return false
}

// carryOutSwitch carries out the request, unless the instance is in that state already.
func carryOutSwitch(tx *tx, r *Record) {
	s := r.Switch
	stop := s.Requested == wordStop
	by := s.RequestedBy
	s.Requested = ""
	s.RequestedAt = time.Time{}
	s.RequestedBy = Actor{}
	if r.Phase == Updating {
		from := r.Run.From
		endRun(tx, r, Cancelled, "replaced by a request to "+wordOf(stop)+" it")
		r.Phase = from
		r.Reason = ""
	}
	if r.Phase == Ready && s.Stopped == stop || checkCountsAgain(tx, r) != nil {
		return
	}
	run := newRun(tx, r, RunApply)
	run.By = by
	run.Switch = true
	run.Off = stop
	queueUpdate(tx, r, run, "replaced by a request to "+wordOf(stop)+" it")
}

// applySchedule implements row 25 by time.
func applySchedule(tx *tx, r *Record) {
	requestScheduled(tx, r)
	if r.Switch.Requested != "" && canSwitchNow(r) {
		carryOutSwitch(tx, r)
	}
}

// switchDeadlines returns the deadlines of the schedule and of a waiting request.
func switchDeadlines(r *Record) []deadline {
	var all []deadline
	if r.Switch == nil {
		return nil
	}
	if at := r.Switch.nextTime(); !at.IsZero() {
		all = append(all, deadline{deadlineSwitch, at})
	}
	if r.Switch.Requested != "" && canSwitchNow(r) {
		what := deadlineSwitchRequest
		if r.Switch.RequestedBy.Subject == "" {
			what = deadlineSwitch
		}
		all = append(all, deadline{what, r.Switch.RequestedAt})
	}
	return all
}

// checkSwitch checks that an instance has a place in a schedule only if its template has
// one, and that only a run of an existing instance stops or starts it.
func checkSwitch(d *Document, _ string, r *Record) string {
	t := d.Templates[r.Snapshot]
	switch {
	case t == nil || !canExpire(r.Phase):
		return ""
	case r.Switch != nil && t.Schedule == nil:
		return "scheduled, but its template has no schedule"
	case r.Switch == nil && t.Schedule != nil && r.Phase == Ready:
		return "ready, but its schedule is not recorded"
	case r.Run != nil && r.Run.Switch && (r.Run.Kind != RunApply || r.Phase != Updating || r.Switch == nil):
		return "a run stops or starts it, but must not"
	}
	return ""
}
