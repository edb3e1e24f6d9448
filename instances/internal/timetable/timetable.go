// SPDX-License-Identifier: Apache-2.0

package timetable

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// Shortest is the shortest allowed time between two switches.
	Shortest = 30 * time.Minute

	maxLine  = 100   // bytes
	maxZone  = 64    // bytes
	maxTried = 20000 // switches compared with each other, of five years
)

// Schedule is the schedule of a template. Its JSON is part of the template's.
type Schedule struct {
	Variable string          `json:"variable"` // the input of the module
	Stopped  json.RawMessage `json:"stopped"`  // its value while stopped
	Started  json.RawMessage `json:"started"`
	Stop     string          `json:"stop,omitempty"`  // five fields of cron; "": only on request
	Start    string          `json:"start,omitempty"` // likewise
	Timezone string          `json:"timezone"`        // IANA name, such as Europe/Berlin
}

// Value returns the value of the variable.
func (s *Schedule) Value(stopped bool) json.RawMessage {
	if stopped {
		return s.Stopped
	}
	return s.Started
}

// Table is a parsed schedule.
type Table struct {
	stop, start cron.Schedule // for wall-clock times, written as UTC; nil: never
	zone        *time.Location
}

// Part is an error in one part of a schedule: stop, start or timezone.
type Part struct {
	Name string
	Err  error
}

func (p *Part) Error() string { return p.Name + ": " + p.Err.Error() }

func (p *Part) Unwrap() error { return p.Err }

// Read parses a schedule. An error is a [*Part].
func (s *Schedule) Read() (*Table, error) {
	t := &Table{}
	var err error
	if t.zone, err = loadZone(s.Timezone); err != nil {
		return nil, &Part{"timezone", err}
	}
	if t.stop, err = parseCron(s.Stop); err != nil {
		return nil, &Part{"stop", err}
	}
	if t.start, err = parseCron(s.Start); err != nil {
		return nil, &Part{"start", err}
	}
	return t, nil
}

// loadZone returns a time zone by its name. The zone of this machine is refused.
func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" || len(name) > maxZone {
		return nil, fmt.Errorf("%.40q is not a time zone: use one such as Europe/Berlin or UTC", name)
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %.64q not found: use one such as Europe/Berlin or UTC", name)
	}
	return z, nil
}

// parseCron parses five fields of cron; nil if text is empty. Extensions of some crons, such
// as @daily, are refused.
func parseCron(text string) (cron.Schedule, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // never
	}
	if len(text) > maxLine || strings.ContainsAny(text, "=@") || strings.HasPrefix(text, ",") {
		return nil, errors.New(wanted)
	}
	for field := range strings.FieldsSeq(text) {
		if strings.Trim(field, ",") != field { // the library accepts an empty list element
			return nil, errors.New(wanted)
		}
	}
	s, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", wanted, err)
	}
	if s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("no such day")
	}
	return s, nil
}

const wanted = "must be five cron fields, such as 0 20 * * 1-5"

// Check refuses a table with two switches less than [Shortest] apart, by the wall clock:
// a change to summer time does not count.
func (t *Table) Check() error {
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
	end := at.AddDate(5, 0, 0)
	last := time.Time{}
	for range maxTried {
		stop := nextTime(t.stop, at)
		start := nextTime(t.start, at)
		at = firstOf(stop, start)
		if at.IsZero() || at.After(end) {
			return nil
		}
		if stop.Equal(start) || !last.IsZero() && at.Sub(last) < Shortest {
			return fmt.Errorf("at %s: less than %d minutes after another switch", at.Format("15:04"), Shortest/time.Minute)
		}
		last = at
	}
	return errors.New("more than ten stops and starts a day")
}

// firstOf returns the earlier of two times, either of which may be zero: never.
func firstOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func nextTime(s cron.Schedule, after time.Time) time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.Next(after)
}

// Next returns the next stop and the next start after a time; zero: never.
func (t *Table) Next(after time.Time) (stop, start time.Time) {
	stop, _ = t.nextClock(t.stop, after)
	start, _ = t.nextClock(t.start, after)
	return stop, start
}

// nextClock returns the first time of s after another, and the last wall-clock time of s that
// falls on it, since clocks may skip some. Clocks never jump by more than a day.
func (t *Table) nextClock(s cron.Schedule, after time.Time) (at, last time.Time) {
	clock := wallClock(after.In(t.zone)).Add(-25 * time.Hour)
	for {
		if clock = nextTime(s, clock); clock.IsZero() {
			return at, last
		}
		switch m := t.timeOfClock(clock); {
		case !m.After(after):
		case at.IsZero() || m.Equal(at):
			at = m
			last = clock
		default:
			return at, last
		}
	}
}

// wallClock returns the wall-clock time, written as UTC.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// timeOfClock returns the time at which the clocks show a wall-clock time.
func (t *Table) timeOfClock(clock time.Time) time.Time {
	var late time.Time
	for _, beside := range []time.Duration{-25 * time.Hour, 25 * time.Hour} { // before a jump the earlier one
		_, offset := clock.Add(beside).In(t.zone).Zone()
		at := clock.Add(-time.Duration(offset) * time.Second)
		if wallClock(at.In(t.zone)).Equal(clock) {
			return at
		}
		if late.IsZero() {
			late = at // after the jump
		}
	}
	jump, _ := late.In(t.zone).ZoneBounds()
	return jump.Add(-time.Second).UTC()
}

// Words formats a time on the wall clock: with the weekday within the next six days, else
// with the date.
func (t *Table) Words(at, now time.Time) string {
	at = at.In(t.zone)
	now = now.In(t.zone)
	if at.Sub(now) < 6*24*time.Hour {
		return at.Format("Mon 15:04")
	}
	return at.Format("Mon 2 Jan 15:04")
}

// longest is how far back [Table.Last] looks.
const longest = 366 * 24 * time.Hour

// Last returns the last switch of the table between two times, both included. Of a stop
// and a start that clocks skip together, the later one by the wall clock counts.
func (t *Table) Last(from, to time.Time) (stopped, found bool) {
	if from.Before(to.Add(-longest)) {
		from = to.Add(-longest)
	}
	for at := from.Add(-time.Nanosecond); ; found = true {
		stop, stopClock := t.nextClock(t.stop, at)
		start, startClock := t.nextClock(t.start, at)
		next := firstOf(stop, start)
		if next.IsZero() || next.After(to) {
			return stopped, found
		}
		at = next
		stopped = !start.Equal(next) || stop.Equal(next) && stopClock.After(startClock)
	}
}
