// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/timetable"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestSwitchOfLeaders changes leaders between the time of a stop and its run, and after each
// start of one: the instance is stopped once, and started in the morning.
func TestSwitchOfLeaders(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, 10*time.Minute)
		tpl := testTemplate("sandbox/night")
		tpl.TTL.Default, tpl.TTL.Max = 720*time.Hour, 0
		tpl.Schedule = &timetable.Schedule{
			Variable: "running", Stopped: json.RawMessage("false"), Started: json.RawMessage("true"), Stop: "0 20 * * *", Start: "0 7 * * *", Timezone: "Europe/Berlin",
		}
		stop := w.run(t)
		rec := w.launch(t, tpl, "anna")
		rec = w.until(t, rec.ID, time.Hour, lifecycle.Ready)
		time.Sleep(time.Until(rec.Switch.StopsAt.Add(-time.Minute)))
		stop()
		time.Sleep(5 * time.Minute) // its time comes while there is no leader
		if w.record(rec.ID).Phase != lifecycle.Ready {
			t.Fatalf("phase %s", w.record(rec.ID).Phase)
		}
		for range 3 {
			stop = w.run(t)
			time.Sleep(3 * time.Minute)
			stop()
		}
		defer w.run(t)()
		w.until(t, rec.ID, time.Hour, lifecycle.Ready)
		time.Sleep(time.Until(w.record(rec.ID).Switch.StartsAt.Add(time.Hour)))
		want := []string{"true", "false", "true"}
		var got []string
		for _, spec := range w.program.specs(rec.ID) {
			got = append(got, string(spec.Variables["running"]))
		}
		if r := w.record(rec.ID); !slices.Equal(got, want) || r.Switch.Stopped {
			t.Errorf("it ran with running = %v, and is %+v", got, r.Switch)
		}
	})
}
