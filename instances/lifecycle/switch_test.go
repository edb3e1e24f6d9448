// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/internal/timetable"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// nightly stops from Monday to Friday at eight in the evening, and starts at seven.
func nightly() *template.Template {
	return with(func(t *template.Template) {
		t.Name = "sandbox/night"
		t.TTL.Default, t.TTL.Max = 40*24*time.Hour, 0
		t.Schedule = &timetable.Schedule{
			Variable: "running", Stopped: json.RawMessage("false"), Started: json.RawMessage("true"),
			Stop: "0 20 * * 1-5", Start: "0 7 * * 1-5", Timezone: "Europe/Berlin",
		}
	})
}

// berlin parses a local time in Berlin.
func (w *world) berlin(text string) time.Time {
	w.t.Helper()
	zone := must.Get(time.LoadLocation("Europe/Berlin"))(w.t)
	at := must.Get(time.ParseInLocation("2006-01-02 15:04", text, zone))(w.t)
	return at.UTC()
}

// until handles deadlines when due; runs end after two minutes.
func (w *world) until(text string, result lifecycle.Result) {
	w.t.Helper()
	end := w.berlin(text)
	for {
		pending, next := w.d.PendingIDs(w.now)
		for _, id := range pending {
			w.serve(lifecycle.ExpireCheck{ID: id})
		}
		w.start()
		if started := slices.Clone(w.effects); len(started) > 0 {
			w.advance(2 * time.Minute)
			for _, e := range started {
				if e.Kind == lifecycle.StartRun {
					w.serve(lifecycle.Ended{Ref: e.Ref, Result: result})
				}
			}
			continue
		}
		switch {
		case len(pending) > 0: // those that are pending then come next
		case next.IsZero() || next.After(end):
			w.now = end
			return
		default:
			w.now = next
		}
	}
}

// night returns a ready instance of anna, on a Thursday before the change to summer time.
func (w *world) night(t *template.Template) string {
	w.t.Helper()
	w.now = w.berlin("2026-03-19 12:00")
	id := w.create(anna, t)
	w.run(id, good)
	w.want(id, lifecycle.Ready)
	return id
}

// is checks that an instance is ready, and stopped or not.
func (w *world) is(id string, stopped bool) *lifecycle.Record {
	w.t.Helper()
	r := w.want(id, lifecycle.Ready)
	if r.Switch == nil || r.Switch.Stopped != stopped || r.Switch.Requested != "" {
		w.t.Fatalf("at %s: %+v, want stopped: %v", w.now, r.Switch, stopped)
	}
	return r
}

// rowsOfSwitch covers stops and starts.
func rowsOfSwitch() map[string]func(*world) {
	return map[string]func(*world){
		"25 its time": func(w *world) {
			id := w.night(nightly())
			if r := w.is(id, false); !r.Switch.StopsAt.Equal(w.berlin("2026-03-19 20:00")) || !r.Switch.StartsAt.Equal(w.berlin("2026-03-20 07:00")) || !r.Next.Equal(r.Switch.StopsAt) {
				w.t.Errorf("got %+v", r.Switch)
			}
			w.now = w.berlin("2026-03-19 20:00")
			w.serve(lifecycle.ExpireCheck{ID: id})
			r := w.want(id, lifecycle.Updating)
			if !r.Run.Off || !r.Run.Switch || r.Run.By.Subject != "" || r.Run.Source != r.Source || r.Run.Parameters != nil {
				w.t.Errorf("got %+v", r.Run)
			}
			w.run(id, good)
			if r := w.is(id, true); r.Events[0].Action != "stopped" || len(w.effects) > 0 {
				w.t.Errorf("got %+v, %v", r.Events[0], w.effects)
			}
		},
		"25 by hand": func(w *world) {
			id := w.night(nightly())
			if a := w.must(anna, lifecycle.Switch{ID: id, Stop: true}); a.Status != 202 || a.Record.Run.By.Subject != "anna" {
				w.t.Errorf("got %d %+v", a.Status, a.Record.Run)
			}
			w.run(id, good)
			w.is(id, true)
			before := w.d
			if a := w.must(anna, lifecycle.Switch{ID: id, Stop: true}); a.Status != 200 || w.d != before {
				w.t.Errorf("what is stopped is stopped again: %d", a.Status)
			}
		},
		"25 without a schedule": func(w *world) {
			id := w.reach(lifecycle.Ready)
			w.refused(anna, lifecycle.Switch{ID: id, Stop: true}, lifecycle.ErrPhase, "instance "+id+" cannot be stopped: its template has no schedule")
		},
		"25 never ready": func(w *world) {
			id := w.create(anna, nightly())
			w.broke(id)
			w.refused(anna, lifecycle.Switch{ID: id}, lifecycle.ErrPhase, "instance "+id+" was never ready and cannot be started")
		},
	}
}

// Each stop and start once, through both changes of the clock.
func TestNights(t *testing.T) {
	for _, c := range []struct{ from, to string }{{"2026-03-23 12:00", "2026-04-05 12:00"}, {"2026-10-19 12:00", "2026-11-01 12:00"}} {
		w := newWorld(t)
		w.now = w.berlin(c.from)
		id := w.create(anna, nightly())
		w.run(id, good)
		var want, got []string
		for day := w.berlin(c.from); day.Before(w.berlin(c.to)); day = day.Add(24 * time.Hour) {
			if d := day.Weekday(); d == time.Saturday || d == time.Sunday {
				continue
			}
			if text := day.Format("2006-01-02"); !strings.HasPrefix(c.from, text) {
				want = append(want, fmt.Sprint(w.berlin(text+" 07:00").Format(time.DateTime), " false"))
			}
			want = append(want, fmt.Sprint(w.berlin(day.Format("2006-01-02")+" 20:00").Format(time.DateTime), " true"))
		}
		for w.now.Before(w.berlin(c.to)) {
			pending, _ := w.d.PendingIDs(w.now)
			for _, id := range pending {
				w.serve(lifecycle.ExpireCheck{ID: id})
			}
			if r := w.record(id); r.Run != nil {
				got = append(got, fmt.Sprint(w.now.Format(time.DateTime), " ", r.Run.Off))
				w.run(id, good)
			}
			w.advance(time.Minute)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %s:\n%s", c.from, diff)
		}
	}
}

// Started at night it runs until evening.
func TestStartAtNight(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.until("2026-03-19 22:00", good)
	w.is(id, true)
	w.must(anna, lifecycle.Switch{ID: id})
	w.until("2026-03-20 19:59", good)
	n := w.is(id, false).Runs[0].N
	w.until("2026-03-20 21:00", good)
	if r := w.is(id, true); r.Runs[0].N != n+1 || r.Runs[1].By.Subject != "anna" {
		t.Errorf("runs %+v", r.Runs)
	}
}

// A request after the time of a stop that was not yet acted on takes precedence.
func TestStartAtTheTimeOfAStop(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.now = w.berlin("2026-03-19 20:01")
	w.must(anna, lifecycle.Switch{ID: id})
	w.until("2026-03-20 19:00", good)
	w.is(id, false)
}

// A manual stop holds until the start of the next morning.
func TestStopByDay(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.must(anna, lifecycle.Switch{ID: id, Stop: true})
	w.until("2026-03-20 06:59", good)
	w.is(id, true)
	w.until("2026-03-20 08:00", good)
	w.is(id, false)
}

// Without times in the schedule only requests stop and start.
func TestByHandOnly(t *testing.T) {
	w := newWorld(t)
	byHand := nightly()
	byHand.Schedule.Stop, byHand.Schedule.Start = "", ""
	id := w.night(byHand)
	w.must(anna, lifecycle.Switch{ID: id, Stop: true})
	w.until("2026-04-10 12:00", good)
	if r := w.is(id, true); !r.Switch.StartsAt.IsZero() || !r.Switch.StopsAt.IsZero() {
		t.Errorf("got %+v", r.Switch)
	}
}

// A stopped instance stays so after updates, retries and drift.
func TestUpdateOfStopped(t *testing.T) {
	w := newWorld(t)
	drifts := nightly()
	drifts.Drift = &template.Drift{Every: 3 * time.Hour, Remediate: true}
	id := w.night(drifts)
	w.until("2026-03-19 21:00", good)
	size := map[string]json.RawMessage{"size": json.RawMessage(`1`)}
	w.must(anna, lifecycle.Update{ID: id, Parameters: size})
	w.run(id, good)
	if r := w.is(id, true); string(r.Parameters["size"]) != "1" {
		t.Errorf("parameters %s", r.Parameters)
	}
	newer := source("2.0.0")
	w.must(anna, lifecycle.Update{ID: id, Source: &newer})
	w.broke(id)
	w.must(anna, lifecycle.Retry{ID: id})
	if !w.record(id).Run.Off || w.record(id).Run.Switch {
		t.Errorf("it is tried again with %+v", w.record(id).Run)
	}
	w.run(id, good)
	w.is(id, true)
	w.advance(4 * time.Hour)
	w.serve(lifecycle.ExpireCheck{ID: id})
	if r := w.record(id); r.Run.Kind != lifecycle.RunDrift || !r.Run.Off {
		t.Errorf("it is compared with %+v", r.Run)
	}
	w.run(id, lifecycle.Result{Outcome: lifecycle.Done, Counts: &lifecycle.Counts{Change: 1}, Resources: -1})
	w.want(id, lifecycle.Updating)
	w.run(id, good)
	w.is(id, true)
}

// A busy instance is stopped when it is ready again, unless its start is due by then too.
func TestBusy(t *testing.T) {
	for _, c := range []struct {
		at      string
		stopped bool
	}{{"2026-03-19 21:00", true}, {"2026-03-20 07:30", false}, {"2026-03-20 20:30", true}, {"2026-03-25 06:00", true}} {
		for _, checks := range []bool{true, false} {
			w := newWorld(t)
			id := w.night(nightly())
			w.now = w.berlin("2026-03-19 19:55")
			update := lifecycle.Update{ID: id}
			if !checks { // and the template is another one then
				newer, other := source("2.0.0"), nightly()
				other.Title, update.Source, update.Template = "other", &newer, other
				update.Digest = digestOf(other)
			}
			w.must(anna, update)
			w.start()
			ref := w.ref(id)
			if checks {
				w.now = w.berlin("2026-03-19 20:01")
				w.serve(lifecycle.ExpireCheck{ID: id})
			}
			w.now = w.berlin(c.at)
			if checks {
				w.serve(lifecycle.ExpireCheck{ID: id})
			}
			w.serve(lifecycle.Ended{Ref: ref, Result: good})
			if !c.stopped {
				w.is(id, false)
				continue
			}
			if r := w.want(id, lifecycle.Updating); !r.Run.Off || !r.Run.Switch {
				t.Errorf("%s: got %+v", c.at, r.Run)
			}
			w.run(id, good)
			w.is(id, true)
		}
	}
}

// A request during a stop is carried out when the stop is done.
func TestLatestWord(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.now = w.berlin("2026-03-19 20:00")
	w.serve(lifecycle.ExpireCheck{ID: id})
	w.start()
	ref := w.ref(id)
	for _, stop := range []bool{false, true, false} {
		w.must(anna, lifecycle.Switch{ID: id, Stop: stop})
	}
	w.serve(lifecycle.Ended{Ref: ref, Result: good})
	if r := w.want(id, lifecycle.Updating); r.Run.Off || r.Run.By.Subject != "anna" {
		t.Errorf("got %+v", r.Run)
	}
	w.run(id, good)
	w.is(id, false)
}

// A request is not lost while a drift comparison ends for a stop.
func TestStartWhileDriftEnds(t *testing.T) {
	w := newWorld(t)
	drifts := nightly()
	drifts.Drift = &template.Drift{Every: time.Hour}
	id := w.night(drifts)
	w.advance(61 * time.Minute)
	w.serve(lifecycle.ExpireCheck{ID: id})
	w.start()
	drift := w.ref(id)
	w.must(anna, lifecycle.Switch{ID: id, Stop: true})
	if a := w.must(anna, lifecycle.Switch{ID: id}); a.Status != 202 {
		t.Errorf("a start is answered with %d", a.Status)
	}
	w.serve(lifecycle.Ended{Ref: drift, Result: lifecycle.Result{Outcome: lifecycle.Cancelled}})
	w.until("2026-03-19 13:30", good)
	w.is(id, false)
}

// A stop in the queue is dropped when a start is requested.
func TestDroppedInTheQueue(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.now = w.berlin("2026-03-19 20:00")
	w.serve(lifecycle.ExpireCheck{ID: id})
	w.want(id, lifecycle.Updating)
	w.must(anna, lifecycle.Switch{ID: id})
	if r := w.is(id, false); r.Run != nil || r.Runs[0].Result != lifecycle.Cancelled {
		t.Errorf("got %+v", r)
	}
}

// A failed stop may have stopped something: it is completed.
func TestNotDroppedBetweenAttempts(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.now = w.berlin("2026-03-19 20:00")
	w.serve(lifecycle.ExpireCheck{ID: id})
	w.run(id, broken)
	w.must(anna, lifecycle.Switch{ID: id})
	if r := w.want(id, lifecycle.Updating); !r.Run.Off {
		t.Fatalf("got %+v", r.Run)
	}
	w.until("2026-03-19 21:00", good)
	if r := w.is(id, false); !r.Runs[0].Switch || r.Runs[0].Off || !r.Runs[1].Off {
		t.Errorf("runs %+v", r.Runs)
	}
}

// A failed stop is retried like any run, and again at the next time.
func TestFailedSwitch(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.until("2026-03-19 23:00", broken)
	r := w.want(id, lifecycle.Failed)
	if run := r.Runs[0]; !run.Switch || run.Attempt != 3 || r.Runs[1].Switch {
		t.Fatalf("runs %+v", r.Runs)
	}
	w.until("2026-03-20 06:59", broken)
	if got := w.want(id, lifecycle.Failed); got.Runs[0].N != r.Runs[0].N {
		t.Error("it was tried again before its time")
	}
	w.until("2026-03-20 08:00", good)
	if r := w.is(id, false); !r.Runs[0].Switch || r.Runs[0].Off {
		t.Errorf("it is ready, and nothing started it: %+v", r.Runs[0])
	}
}

// Retrying a failed stop stops the instance, and so does an update of it.
func TestFailedSwitchByHand(t *testing.T) {
	for _, c := range []struct {
		event   func(id string) lifecycle.Event
		stopped bool
	}{
		{func(id string) lifecycle.Event { return lifecycle.Retry{ID: id} }, true},
		{func(id string) lifecycle.Event { return lifecycle.Switch{ID: id, Stop: true} }, true},
		{func(id string) lifecycle.Event { return lifecycle.Switch{ID: id} }, false},
		{func(id string) lifecycle.Event { return lifecycle.Update{ID: id} }, true},
	} {
		w := newWorld(t)
		id := w.night(nightly())
		w.until("2026-03-19 23:00", broken)
		w.want(id, lifecycle.Failed)
		w.must(anna, c.event(id))
		w.run(id, good)
		w.is(id, c.stopped)
	}
}

// An update after a failed stop does not start the instance, even after another failure.
func TestUpdatesAfterFailedStop(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.until("2026-03-20 23:00", broken) // a Friday
	newer := source("2.0.0")
	w.must(anna, lifecycle.Update{ID: id, Source: &newer})
	w.broke(id)
	w.must(anna, lifecycle.Update{ID: id})
	w.run(id, good)
	w.until("2026-03-22 12:00", good)
	w.is(id, true)
}

// Cancelling a stop in the queue leaves the instance unchanged.
func TestCancelOfQueuedStop(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.must(anna, lifecycle.Switch{ID: id, Stop: true})
	w.must(anna, lifecycle.Cancel{ID: id})
	if r := w.is(id, false); r.Run != nil || r.Runs[0].Result != lifecycle.Cancelled || r.Reason != "cancelled by Anna" {
		t.Errorf("got %+v", r)
	}
}

// An instance that failed for another reason is not stopped until it is ready again.
func TestFailedUpdateIsNotStopped(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.must(anna, lifecycle.Update{ID: id})
	w.broke(id)
	w.until("2026-03-19 22:00", good)
	if r := w.want(id, lifecycle.Failed); r.Run != nil {
		t.Fatalf("it runs %+v", r.Run)
	}
	w.must(anna, lifecycle.Retry{ID: id})
	w.until("2026-03-19 23:00", good)
	w.is(id, true)
}

// While the clock is not trusted, nothing is stopped by schedule.
func TestSwitchHeld(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.serve(lifecycle.ClockHeld{Reason: "clocks"})
	w.until("2026-03-19 22:00", good)
	w.is(id, false)
	w.must(admin, lifecycle.AcceptClock{})
	w.until("2026-03-19 22:10", good)
	w.is(id, true)
}

// A user's request is carried out even while the clock is held.
func TestWordWhileClocksAreHeld(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	w.must(anna, lifecycle.Update{ID: id})
	w.start()
	ref := w.ref(id)
	w.must(anna, lifecycle.Switch{ID: id, Stop: true})
	w.serve(lifecycle.ClockHeld{Reason: "clocks"})
	w.serve(lifecycle.Ended{Ref: ref, Result: good})
	w.until("2026-03-19 13:00", good)
	w.is(id, true)
}

// Another leader may take over between a stop's time and its run.
func TestSwitchOfAnotherLeader(t *testing.T) {
	for _, begun := range []bool{false, true} {
		w := newWorld(t)
		id := w.night(nightly())
		w.now = w.berlin("2026-03-19 20:00")
		w.serve(lifecycle.ExpireCheck{ID: id})
		if begun {
			w.start()
		}
		b, err := lifecycle.Encode(w.d)
		if err != nil {
			t.Fatal(err)
		}
		if w.d, err = lifecycle.Decode(b); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Hour)
		again := slices.ContainsFunc(w.m.Outstanding(w.d), func(e lifecycle.Effect) bool { return e.Kind == lifecycle.StartRun && e.Ref.ID == id })
		if again != begun {
			t.Errorf("begun: %v, begun again: %v", begun, again)
		}
		if begun {
			w.end(id, lost)
			w.advance(time.Minute)
		}
		w.run(id, good)
		w.is(id, true)
		w.until("2026-03-20 06:59", good)
		w.is(id, true)
	}
}

// A document from before schedules has neither schedules nor positions in them.
func TestBeforeSchedules(t *testing.T) {
	w := newWorld(t)
	tpl := nightly()
	before := *tpl
	before.Schedule = nil
	id := w.create(anna, &before)
	w.run(id, good)
	b, err := lifecycle.Encode(w.d)
	if err != nil || strings.Contains(string(b), `"switch"`) || strings.Contains(string(b), `"schedule"`) || strings.Contains(string(b), `"off"`) {
		t.Fatalf("%v: %s", err, b)
	}
	newer := source("2.0.0")
	w.must(anna, lifecycle.Update{ID: id, Template: tpl, Digest: digestOf(tpl), Source: &newer})
	w.run(id, good)
	if r := w.is(id, false); r.Switch.StopsAt.IsZero() {
		t.Errorf("its new template stops it never")
	}
	w.until("2026-03-02 21:00", good)
	w.is(id, true)
	w.must(anna, lifecycle.Update{ID: id, Template: &before, Digest: digestOf(&before), Source: &newer})
	w.run(id, good)
	if r := w.want(id, lifecycle.Ready); r.Switch != nil {
		t.Errorf("its template has no schedule, and it stands in one: %+v", r.Switch)
	}
}

// Pool members run until they are claimed.
func TestSwitchOfPool(t *testing.T) {
	w := newWorld(t)
	w.now = w.berlin("2026-03-19 12:00")
	pool := nightly()
	pool.Pool = &template.PoolSize{Size: 1, WhenEmpty: "refuse"}
	w.fill(pool)
	w.runAll(good)
	w.until("2026-03-19 22:00", good)
	id := w.create(anna, pool)
	w.is(id, false)
	w.until("2026-03-20 21:00", good)
	w.is(id, true)
}

// A stop needs no approval, beside another change that does.
func TestSwitchNeedsNoApproval(t *testing.T) {
	w := newWorld(t)
	w.now = w.berlin("2026-03-19 12:00")
	ask := nightly()
	ask.Approval = "request"
	id := w.create(anna, ask)
	w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.RequestPlan(w.record(id))})
	w.run(id, good)
	newer := source("2.0.0")
	w.must(anna, lifecycle.Update{ID: id, Source: &newer})
	w.until("2026-03-19 21:00", good)
	r := w.is(id, true)
	if r.Pending == nil {
		t.Fatal("the update waits no more")
	}
	w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.RequestPlan(r)})
	w.run(id, good)
	w.is(id, true)
	w.must(anna, lifecycle.Switch{ID: id})
	other := broken
	other.Lock = "sha256:other"
	for range 3 {
		w.run(id, other)
		w.advance(10 * time.Minute)
	}
	w.want(id, lifecycle.Failed)
	if r := w.must(anna, lifecycle.Retry{ID: id}).Record; r.Pending != nil || r.Run == nil || !r.Run.Switch {
		t.Errorf("a start that failed is tried again with %+v, pending %+v", r.Run, r.Pending)
	}
}

// Requests of users go first, including a manual stop.
func TestSwitchesWaitForPeople(t *testing.T) {
	w := newWorld(t)
	id := w.night(nightly())
	two := w.create(ben, nightly())
	w.run(two, good)
	w.now = w.berlin("2026-03-19 20:00")
	w.serve(lifecycle.ExpireCheck{ID: id})
	w.advance(time.Minute)
	w.must(ben, lifecycle.Switch{ID: two, Stop: true})
	w.serve(lifecycle.Schedule{Concurrency: 1})
	if w.record(two).Run.StartedAt.IsZero() || !w.record(id).Run.StartedAt.IsZero() {
		t.Error("the stop by the schedule went first")
	}
}

// An instance whose start failed no longer counts, and does not exceed the limit again.
func TestSwitchWithinLimits(t *testing.T) {
	w := newWorld(t)
	once := nightly()
	once.Max = 1
	id := w.night(once)
	w.until("2026-03-19 22:00", lifecycle.Result{Outcome: lifecycle.Done, Resources: 0})
	w.until("2026-03-20 08:00", lifecycle.Result{Outcome: lifecycle.RunFailed, Resources: 0})
	w.want(id, lifecycle.Failed)
	w.create(ben, once)
	_, err := w.try(anna, lifecycle.Switch{ID: id})
	if _, ok := errors.AsType[*lifecycle.QuotaError](err); !ok {
		t.Errorf("it is started beyond a limit: %v", err)
	}
	w.until("2026-03-21 08:00", good)
	w.want(id, lifecycle.Failed)
}

// An instance ends whether it is stopped or not.
func TestEndOfStopped(t *testing.T) {
	w := newWorld(t)
	short := nightly()
	short.TTL.Default = 10 * time.Hour
	id := w.night(short)
	w.until("2026-03-19 21:00", good)
	w.is(id, true)
	w.until("2026-03-19 22:30", gone)
	if r := w.want(id, lifecycle.Destroyed); r.Switch != nil || !r.Runs[0].Off {
		t.Errorf("got %+v", r)
	}
}

// An adopted instance follows the schedule of its template.
func TestAdoptedIsStopped(t *testing.T) {
	w := newWorld(t)
	w.now = w.berlin("2026-03-19 12:00")
	tpl := nightly()
	r := lifecycle.Record{ID: "abcdefghjk", Template: tpl.Name, Snapshot: digestOf(tpl), Source: source("1.0.0"), Owner: user(anna), Phase: lifecycle.Ready}
	w.must(admin, lifecycle.Adopt{Record: r, Template: tpl})
	w.until("2026-03-19 21:00", good)
	w.is(r.ID, true)
}
