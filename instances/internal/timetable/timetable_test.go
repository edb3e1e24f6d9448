// SPDX-License-Identifier: Apache-2.0

package timetable_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/timetable"
	"github.com/seed-141914ff/okara/internal/must"
)

func table(t *testing.T, stop, start, zone string) *timetable.Table {
	t.Helper()
	return must.Get((&timetable.Schedule{Stop: stop, Start: start, Timezone: zone}).Read())(t)
}

func utc(t *testing.T, text string) time.Time {
	t.Helper()
	return must.Get(time.Parse("2006-01-02 15:04:05", text))(t)
}

// stops returns the stops between two times.
func stops(table *timetable.Table, from, to time.Time) (all []string) {
	for at, _ := table.Next(from); !at.IsZero() && at.Before(to); at, _ = table.Next(at) {
		all = append(all, at.Format("2006-01-02 15:04:05"))
	}
	return all
}

// On each day of a week with a clock change there is one stop, at any hour.
func TestChangeDays(t *testing.T) {
	for _, c := range []struct{ line, zone, from, want string }{
		{"0 20 * * *", "Europe/Berlin", "2026-03-27 12:00:00", "2026-03-27 19:00:00 2026-03-28 19:00:00 2026-03-29 18:00:00 2026-03-30 18:00:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-27 12:00:00", "2026-03-28 01:30:00 2026-03-29 00:59:59 2026-03-30 00:30:00 2026-03-31 00:30:00"},
		{"0 2 * * *", "Europe/Berlin", "2026-03-27 12:00:00", "2026-03-28 01:00:00 2026-03-29 00:59:59 2026-03-30 00:00:00 2026-03-31 00:00:00"},
		{"0 3 * * *", "Europe/Berlin", "2026-03-27 12:00:00", "2026-03-28 02:00:00 2026-03-29 01:00:00 2026-03-30 01:00:00 2026-03-31 01:00:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-23 12:00:00", "2026-10-24 00:30:00 2026-10-25 00:30:00 2026-10-26 01:30:00 2026-10-27 01:30:00"},
		{"0 20 * * *", "Europe/Berlin", "2026-10-23 12:00:00", "2026-10-23 18:00:00 2026-10-24 18:00:00 2026-10-25 19:00:00 2026-10-26 19:00:00"},
		{"0 20 * * *", "America/New_York", "2026-11-01 12:00:00", "2026-11-02 01:00:00 2026-11-03 01:00:00 2026-11-04 01:00:00 2026-11-05 01:00:00"},
		{"0 20 * * *", "UTC", "2026-03-28 12:00:00", "2026-03-28 20:00:00 2026-03-29 20:00:00 2026-03-30 20:00:00 2026-03-31 20:00:00"},
		{"30 0 * * *", "Africa/Cairo", "2026-04-22 12:00:00", "2026-04-22 22:30:00 2026-04-23 21:59:59 2026-04-24 21:30:00 2026-04-25 21:30:00"},
	} {
		from := utc(t, c.from)
		got := strings.Join(stops(table(t, c.line, "", c.zone), from, from.Add(4*24*time.Hour)), " ")
		if got != c.want {
			t.Errorf("%s in %s:\n got %s\nwant %s", c.line, c.zone, got, c.want)
		}
	}
}

// A wall-clock time counts once, though it comes twice.
func TestSecondTime(t *testing.T) {
	got, _ := table(t, "30 2 * * *", "", "Europe/Berlin").Next(utc(t, "2026-10-25 00:45:00"))
	if want := utc(t, "2026-10-26 01:30:00"); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A skipped time stays before the times after the jump.
func TestOrderStays(t *testing.T) {
	stop, start := table(t, "30 2 * * *", "0 3 * * *", "Europe/Berlin").Next(utc(t, "2026-03-29 00:00:00"))
	if !stop.Before(start) {
		t.Errorf("it stops at %s and starts at %s", stop, start)
	}
}

// Of a stop and a start that are skipped together, the later one counts.
func TestOrderInGap(t *testing.T) {
	for _, c := range []struct {
		stop, start string
		want        bool
	}{{"50 2 * * *", "10 2 * * *", true}, {"10 2 * * *", "50 2 * * *", false}, {"0,59 2 * * *", "30 2 * * *", true}, {"30 2 * * *", "0,59 2 * * *", false}} {
		stopped, found := table(t, c.stop, c.start, "Europe/Berlin").Last(utc(t, "2026-03-29 00:00:00"), utc(t, "2026-03-29 12:00:00"))
		if !found || stopped != c.want {
			t.Errorf("stop %q, start %q: stopped %v", c.stop, c.start, stopped)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ stop, start, zone, part string }{
		{"0 20 * *", "", "UTC", "stop"}, {"0 20 * * * *", "", "UTC", "stop"}, {"@daily", "", "UTC", "stop"}, {"TZ=UTC", "", "UTC", "stop"},
		{"CRON_TZ=UTC 0 20 * * *", "", "UTC", "stop"}, {"60 20 * * *", "", "UTC", "stop"}, {"0 20 31 2 *", "", "UTC", "stop"}, {"0 20 * * ,", "", "UTC", "stop"},
		{"0 20 * * mo", "", "UTC", "stop"}, {strings.Repeat("0", 200) + " 20 * * *", "", "UTC", "stop"}, {"0 20 * * *", "0 7 * * 9", "UTC", "start"},
		{"0 20 * * *", "", "Europe/Nowhere", "timezone"}, {"0 20 * * *", "", "", "timezone"}, {"0 20 * * *", "", "Local", "timezone"}, {"", "", "../../etc/passwd", "timezone"},
	} {
		_, err := (&timetable.Schedule{Stop: c.stop, Start: c.start, Timezone: c.zone}).Read()
		if part, ok := errors.AsType[*timetable.Part](err); !ok || part.Name != c.part {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		stop, start string
		ok          bool
	}{
		{"0 20 * * 1-5", "0 7 * * 1-5", true}, {"0 20 * * mon-fri", "", true}, {"", "", true}, {"0 */3 * * *", "", true}, {"0 18 * * 5", "0 18 * * 1", true},
		{"*/15 * * * *", "", false}, {"*/30 * * * *", "", false}, {"0,30 * * * *", "15 0 25 12 *", false}, {"0 20 * * *", "29 20 * * *", false}, {"50 23 * * *", "10 0 * * *", false}, {"0 20 * * *", "0 20 * * *", false},
		{"0 20 * * *", "0 20 * * 1", false}, {"0 20 29 2 *", "10 20 29 2 *", false}, {"0 0 * * *", "*/30 * 1-31 1-12 *", false},
	} {
		if err := table(t, c.stop, c.start, "Europe/Berlin").Check(); (err == nil) != c.ok {
			t.Errorf("%q, %q: %v", c.stop, c.start, err)
		}
	}
}

func TestWords(t *testing.T) {
	berlin, now := table(t, "", "", "Europe/Berlin"), utc(t, "2026-11-27 19:30:00")
	for at, want := range map[string]string{"2026-11-30 06:00:00": "Mon 07:00", "2026-12-07 06:00:00": "Mon 7 Dec 07:00"} {
		must.Equal(t, at, berlin.Words(utc(t, at), now), want)
	}
}
