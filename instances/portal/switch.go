// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"net/http"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/timetable"
	"github.com/seed-141914ff/okara/instances/lifecycle"
)

// stop and start switch an instance off and on by hand.
func (s verbs) stop(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return change(s.server, w, r, "stop", func(none) (lifecycle.Event, error) { return lifecycle.Switch{ID: r.at.ID, Stop: true}, nil })
}

func (s verbs) start(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return change(s.server, w, r, "start", func(none) (lifecycle.Event, error) { return lifecycle.Switch{ID: r.at.ID}, nil })
}

// stand says where an instance stands in its schedule.
func stand(doc *api.Instance, d *lifecycle.Document, r *lifecycle.Record) {
	s := r.Switch
	doc.Stopped, doc.StopsAt, doc.StartsAt = s.Stopped, s.StopsAt, s.StartsAt
	t := d.Templates[r.Snapshot]
	if !s.Stopped || s.StartsAt.IsZero() || t == nil || t.Schedule == nil {
		return
	}
	if table, err := t.Schedule.Read(); err == nil { // as the machine read it
		doc.StoppedUntil = table.Words(s.StartsAt, d.Clock.At)
	}
}

// hours are the next times of a schedule in words, on its own clocks; "": there is none.
func hours(s *timetable.Schedule, now time.Time) string {
	if s == nil {
		return ""
	}
	table, err := s.Read()
	if err != nil {
		return ""
	}
	stop, start := table.Next(now)
	var words []string
	if !stop.IsZero() {
		words = append(words, "stops "+table.Words(stop, now))
	}
	if !start.IsZero() {
		words = append(words, "starts "+table.Words(start, now))
	}
	switch {
	case len(words) == 0:
		return "stopped and started by hand"
	case len(words) == 2 && start.Before(stop):
		words[0], words[1] = words[1], words[0]
	}
	return strings.Join(words, ", ") + " (" + s.Timezone + ")"
}
