// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// person returns one of many users.
func person(n int) lifecycle.Actor {
	return lifecycle.Actor{Issuer: "https://id", Subject: fmt.Sprintf("p%d", n)}
}

// An instance ends although its template, even its snapshot, is gone.
//
// Shows: crash K12
// Shows: platform-mistakes 2
// Shows: instances 2 | an instance ends although its template and module are gone
func TestEndWithoutTemplate(t *testing.T) {
	for _, snapshot := range []bool{true, false} {
		w := newWorld(t)
		id := w.create(anna, plain())
		w.run(id, good)
		if !snapshot {
			d := *w.d
			d.Templates = nil
			w.d = &d
		}
		w.advance(8 * time.Hour)
		pending, _ := w.d.PendingIDs(w.now)
		if !slices.Equal(pending, []string{id}) {
			t.Fatalf("due are %v", pending)
		}
		d, _, _, err := w.m.Step(w.d, lifecycle.Command{Event: lifecycle.ExpireCheck{ID: id}}, w.now)
		if err != nil || d.Records[id].Phase != lifecycle.Destroying || d.Records[id].Run.Kind != lifecycle.RunDestroy {
			t.Errorf("%v: %s", err, d.Records[id].Phase)
		}
	}
}

// A temporary error is not a failure.
//
// Shows: platform-mistakes 9
func TestPassingTrouble(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, plain())
	for _, r := range []lifecycle.Result{broken, lost} {
		w.run(id, r)
		w.want(id, lifecycle.Provisioning)
		w.advance(time.Minute)
	}
	w.run(id, good)
	w.want(id, lifecycle.Ready)
	if text := mustJSON(t, w.d); strings.Contains(text, `"phase":"failed"`) || strings.Contains(text, `"kind":"failed"`) {
		t.Errorf("it failed: %s", text)
	}
}

// Renaming, extending, protecting or transferring an instance changes neither its source,
// runs, parameters nor repository.
//
// Shows: platform-mistakes 15 | a change of the schedule loses the state
func TestChangesLeaveTheState(t *testing.T) {
	w := newWorld(t)
	id := w.reach(lifecycle.Ready)
	before := w.record(id)
	w.must(anna, lifecycle.Extend{ID: id})
	w.must(anna, lifecycle.Rename{ID: id, Name: "other"})
	w.must(admin, lifecycle.Transfer{ID: id, To: user(ben)})
	w.must(ben, lifecycle.Protect{ID: id, On: true})
	after := w.record(id)
	for name, pair := range map[string][2]any{
		"id": {before.ID, after.ID}, "source": {before.Source, after.Source}, "snapshot": {before.Snapshot, after.Snapshot},
		"runs": {before.Runs, after.Runs}, "parameters": {before.Parameters, after.Parameters}, "phase": {before.Phase, after.Phase},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s was %v and is %v", name, pair[0], pair[1])
		}
	}
	if after.Run != nil {
		t.Errorf("it runs %+v", after.Run)
	}
}

// A repeated request gets the same answer; a different one with its key is refused.
//
// Shows: platform-attacks 4
func TestRepeatedRequests(t *testing.T) {
	w := newWorld(t)
	c := lifecycle.Command{Event: creation(anna, plain()), Actor: anna, Key: "k1", Caller: "anna", Digest: "d1"}
	first := must.Get(w.command(c))(t)
	before := w.d
	again, err := w.command(c)
	if err != nil || !again.Repeat || again.Status != first.Status || again.Record.ID != first.Record.ID || w.d != before {
		t.Errorf("got %+v %v", again, err)
	}
	c.Digest = "d2"
	if _, err := w.command(c); !errors.Is(err, lifecycle.ErrKeyReused) {
		t.Errorf("got %v", err)
	}
	w.advance(2 * time.Hour)
	w.serve(lifecycle.Prune{})
	must.Equal(t, "kept", len(w.d.Requests), 0)
	c.Digest = "d1"
	if a, err := w.command(c); err != nil || a.Record.ID != first.Record.ID || a.Status != 200 {
		t.Errorf("after an hour: %+v %v", a, err)
	}
	c.Event, c.Key = lifecycle.Rename{ID: "nobody"}, "k2"
	if _, err := w.command(c); !errors.Is(err, lifecycle.ErrNotFound) || w.d.Requests["k2"] != nil {
		t.Errorf("a refusal is kept: %v", err)
	}
}

// Of 2,000 answers the oldest one of the caller with the most is dropped.
//
// Shows: platform-attacks 4
func TestAnswersAreBounded(t *testing.T) {
	m, d := lifecycle.Machine{}, &lifecycle.Document{Version: 1, Requests: map[string]*lifecycle.Request{}}
	for n := range 2000 {
		caller := "many"
		if n < 10 {
			caller = "few"
		}
		d.Requests[fmt.Sprintf("%04d", n)] = &lifecycle.Request{Caller: caller, Status: 200, At: epoch.Add(time.Duration(n) * time.Millisecond)}
	}
	c := lifecycle.Command{Event: lifecycle.ResumeTemplate{Template: "a/b"}, Actor: admin, Key: "new", Caller: "third"}
	after, _, _, err := m.Step(d, c, epoch.Add(time.Minute))
	if err != nil || len(after.Requests) != 2000 || after.Requests["0010"] != nil || after.Requests["0000"] == nil || after.Requests["new"] == nil {
		t.Errorf("%v: %d are kept", err, len(after.Requests))
	}
}

// Clocks that disagree hold back what takes something away, and nothing else.
//
// Shows: crash K16
// Shows: platform-attacks 6
// Shows: instances 12 | a clock that jumps does not end an instance
func TestHeldClock(t *testing.T) {
	w := newWorld(t)
	id := w.reach(lifecycle.Ready)
	member := w.reach(lifecycle.Available)
	w.serve(lifecycle.ClockHeld{Reason: "the registry is 3h ahead"})
	if len(w.effects) != 1 || w.effects[0].Notice.Kind != "clock_held" {
		t.Errorf("effects %v", w.effects)
	}
	w.serve(lifecycle.Noticed{ID: "clock", Notice: w.effects[0].Notice.ID})
	w.advance(1000 * time.Hour)
	if pending, _ := w.d.PendingIDs(w.now); len(pending) != 0 {
		t.Errorf("due are %v", pending)
	}
	before := w.d
	w.serve(lifecycle.ExpireCheck{ID: id})
	w.serve(lifecycle.ExpireCheck{ID: member})
	if w.d != before {
		t.Error("something ended")
	}
	w.must(anna, lifecycle.Rename{ID: id, Name: "still here"})
	w.serve(lifecycle.Fill{Name: pooled().Name})
	w.want(member, lifecycle.Available)
	w.refused(anna, lifecycle.AcceptClock{}, lifecycle.ErrDenied, "")
	w.must(admin, lifecycle.AcceptClock{})
	pending, _ := w.d.PendingIDs(w.now)
	for _, id := range pending {
		w.serve(lifecycle.ExpireCheck{ID: id})
	}
	w.want(id, lifecycle.Destroying)
	w.want(member, lifecycle.Destroying)
}

// Time never goes back behind the last commit.
//
// Shows: crash K16
func TestTimeNeverRunsBack(t *testing.T) {
	w := newWorld(t)
	w.create(anna, plain())
	w.advance(-time.Hour)
	id := w.create(ben, plain())
	if r := w.record(id); !r.CreatedAt.Equal(epoch) || !w.d.Clock.At.Equal(epoch) {
		t.Errorf("created at %s", r.CreatedAt)
	}
}

// Each notice before an end is sent once, and again for another end.
func TestNoticesBeforeTheEnd(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, with(func(t *template.Template) {
		t.Notices = []time.Duration{24 * time.Hour, 2 * time.Hour, 30 * time.Minute}
	}))
	w.run(id, good)
	reported := func() (kinds []string) {
		for range 40 {
			pending, _ := w.d.PendingIDs(w.now)
			for _, id := range pending {
				w.serve(lifecycle.ExpireCheck{ID: id})
				for _, e := range w.effects {
					if e.Kind == lifecycle.Notify {
						kinds = append(kinds, e.Notice.Kind)
						w.serve(lifecycle.Noticed{ID: e.Ref.ID, Notice: e.Notice.ID})
					}
				}
			}
			if pending, _ := w.d.PendingIDs(w.now); len(pending) > 0 {
				t.Fatalf("%v is due for ever", pending)
			}
			w.advance(12 * time.Minute)
			if w.record(id).ExpiresAt.Sub(w.now) <= 12*time.Minute {
				break
			}
		}
		return kinds
	}
	want := []string{"expires_2h0m0s", "expires_30m0s"}
	if got := reported(); !slices.Equal(got, want) {
		t.Errorf("told of %v", got)
	}
	w.must(anna, lifecycle.Extend{ID: id})
	w.must(anna, lifecycle.Extend{ID: id})
	if got := reported(); !slices.Equal(got, want) {
		t.Errorf("told of %v", got)
	}
}

// Destroys come first, then what a user waits for, then pools, then drift; owners take
// turns, none with more than half of the concurrency.
//
// Shows: platform-attacks 14
func TestSchedule(t *testing.T) {
	w := newWorld(t)
	drifting := with(func(t *template.Template) { t.Name, t.Drift = "sandbox/drift", &template.Drift{Every: time.Hour} })
	drift := w.create(person(1), drifting)
	w.run(drift, good)
	gone := w.create(person(2), plain())
	w.run(gone, good)
	w.advance(time.Hour)
	w.serve(lifecycle.ExpireCheck{ID: drift})
	w.fill(pooled())
	var annas []string
	for range 5 {
		annas = append(annas, w.create(anna, plain()))
	}
	w.advance(time.Second)
	bens := w.create(ben, plain())
	w.must(person(2), lifecycle.DestroyNow{ID: gone})
	started := func(concurrency int) (ids []string) {
		w.serve(lifecycle.Schedule{Concurrency: concurrency})
		for _, e := range w.effects {
			ids = append(ids, e.Ref.ID)
		}
		return ids
	}
	if got := started(3); got[0] != gone || !slices.Contains(annas, got[1]) || got[2] != bens {
		t.Errorf("first start %v, of anna %v, of ben %s", got, annas, bens)
	}
	got := started(5)
	if len(got) != 2 || !slices.Contains(annas, got[0]) || !slices.Contains(annas, got[1]) {
		t.Errorf("then start %v", got)
	}
	if got = started(6); len(got) != 1 || w.record(got[0]).Owner.ID != "" {
		t.Errorf("anna has half the places, and %v start", got)
	}
}

// An automatic update is planned first, and not applied if it would destroy.
func TestAutoUpdate(t *testing.T) {
	auto := with(func(t *template.Template) { t.Update = "auto" })
	offer := func(id, version string) lifecycle.UpdateCheck {
		return lifecycle.UpdateCheck{ID: id, Template: auto, Digest: digestOf(auto), Source: source(version)}
	}
	w := newWorld(t)
	id := w.create(anna, auto)
	w.run(id, good)
	w.serve(offer(id, "1.0.0"))
	w.want(id, lifecycle.Ready)
	w.serve(offer(id, "1.1.0"))
	w.want(id, lifecycle.Updating)
	w.run(id, plan("sha256:safe", lifecycle.Counts{Change: 1}))
	w.run(id, good)
	if r := w.want(id, lifecycle.Ready); r.Source.Version != "1.1.0" || r.Runs[0].Approved != "sha256:safe" {
		t.Errorf("got %+v", r)
	}
	w.serve(offer(id, "1.0.0")) // the registry was read before the update
	w.want(id, lifecycle.Ready)
	w.serve(offer(id, "1.2.0"))
	w.run(id, plan("sha256:unsafe", lifecycle.Counts{Remove: 1, Add: 1, Replace: 1}))
	r := w.want(id, lifecycle.Ready)
	if r.Source.Version != "1.1.0" || r.Conditions[0].Type != lifecycle.UpdateAvailable || r.Conditions[0].Reason != "Destroys" {
		t.Errorf("got %+v", r)
	}
	before := w.d
	w.serve(offer(id, "1.2.0"))
	if w.d != before {
		t.Error("it is tried again")
	}
	manual := w.create(ben, plain())
	w.run(manual, good)
	w.serve(offer(manual, "1.2.0"))
	if r := w.want(manual, lifecycle.Ready); r.Conditions[0].Message != "version 1.2.0" {
		t.Errorf("got %v", r.Conditions)
	}
}

// A new leader repeats all that may not be done.
func TestOutstanding(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, plain())
	w.start()
	kinds := func() (all []string) {
		for _, e := range w.m.Outstanding(w.d) {
			if !e.Again {
				t.Errorf("%v is not marked", e)
			}
			all = append(all, e.Kind)
		}
		return all
	}
	if got := kinds(); !slices.Equal(got, []string{lifecycle.StartRun}) {
		t.Errorf("got %v", got)
	}
	w.serve(lifecycle.Started{Ref: w.ref(id), Handle: "h"})
	if got := kinds(); !slices.Equal(got, []string{lifecycle.StartRun}) {
		t.Errorf("one whose end is to be seen: got %v", got)
	}
	w.must(anna, lifecycle.DestroyNow{ID: id})
	if got := kinds(); !slices.Equal(got, []string{lifecycle.StartRun, lifecycle.CancelRun}) {
		t.Errorf("got %v", got)
	}
	w.end(id, lost)
	w.run(id, gone)
	if got := kinds(); !slices.Equal(got, []string{lifecycle.Notify, lifecycle.Archive}) {
		t.Errorf("got %v", got)
	}
}

// The record of an instance that a ledger lost can be restored, and the instance ends.
func TestAdopt(t *testing.T) {
	w := newWorld(t)
	r := lifecycle.Record{ID: "abcdefghjk", Template: "sandbox/vpc", Snapshot: digestOf(plain()), Source: source("1.0.0"), Owner: user(anna), Phase: lifecycle.Ready, CreatedAt: epoch}
	w.refused(anna, lifecycle.Adopt{Record: r, Template: plain()}, lifecycle.ErrDenied, "")
	w.refused(admin, lifecycle.Adopt{Record: r}, template.ErrInvalid, "")
	w.must(admin, lifecycle.Adopt{Record: r, Template: plain()})
	failed := r
	failed.ID, failed.Phase, failed.ReadyAt = "b"+r.ID[1:], lifecycle.Failed, w.now
	w.must(admin, lifecycle.Adopt{Record: failed, Template: plain()})
	if lifecycle.HasResources(w.record(failed.ID)) {
		t.Error("a run that failed at once is known to have made something")
	}
	w.refused(admin, lifecycle.Adopt{Record: r, Template: plain()}, lifecycle.ErrPhase, "")
	w.advance(8 * time.Hour)
	w.serve(lifecycle.ExpireCheck{ID: r.ID})
	w.want(r.ID, lifecycle.Destroying)
}

// A record and a document have an upper bound.
//
// Shows: platform-attacks 14
func TestBounds(t *testing.T) {
	w := newWorld(t)
	outputs := map[string]json.RawMessage{}
	var names []string
	for n := range 10 {
		name := fmt.Sprintf("o%d", n)
		names, outputs[name] = append(names, name), json.RawMessage(`"`+strings.Repeat("x", 4000)+`"`)
	}
	e := creation(anna, with(func(t *template.Template) { t.Outputs = names }))
	e.Parameters = map[string]json.RawMessage{"p": json.RawMessage(`"` + strings.Repeat("y", 8000) + `"`)}
	id := w.must(anna, e).Record.ID
	for range 12 {
		w.run(id, lifecycle.Result{Outcome: lifecycle.Done, Outputs: outputs})
		w.must(anna, lifecycle.Update{ID: id})
		w.broke(id)
		w.must(anna, lifecycle.Retry{ID: id})
		if n := len(mustJSON(t, w.record(id))); n > 16<<10 {
			t.Fatalf("a record has %d bytes", n)
		}
	}
	large := creation(ben, with(func(t *template.Template) { t.Outputs = []string{"large", "small"} }))
	other := w.must(ben, large).Record.ID
	w.run(other, lifecycle.Result{Outcome: lifecycle.Done, Outputs: map[string]json.RawMessage{
		"large": json.RawMessage(`"` + strings.Repeat("x", 4<<10) + `"`), "small": json.RawMessage(`1`),
	}})
	if got := w.want(other, lifecycle.Ready).Outputs; len(got) != 1 || got["small"] == nil {
		t.Errorf("%d outputs are kept", len(got))
	}
	e.Parameters["q"] = json.RawMessage(`"` + strings.Repeat("y", 400) + `"`)
	w.refused(anna, e, template.ErrInvalid, "")

	d := &lifecycle.Document{Version: 1, Records: map[string]*lifecycle.Record{}}
	for n := range 5000 {
		id := fmt.Sprintf("a%09d", n)
		d.Records[id] = &lifecycle.Record{ID: id, Phase: lifecycle.Destroyed, FinishedAt: epoch}
	}
	if _, _, _, err := w.m.Step(d, lifecycle.Command{Event: creation(anna, plain()), Actor: anna}, epoch); !errors.Is(err, lifecycle.ErrFull) {
		t.Errorf("got %v", err)
	}
}

// TestChartAndModule: an instance stays what it is.
func TestChartAndModule(t *testing.T) {
	w := newWorld(t)
	id := w.reach(lifecycle.Ready)
	chart := with(func(t *template.Template) { t.Chart = []byte(`{"oci":{}}`) })
	newer := template.Source{Chart: "oci://r.example.com/web", Version: "1.0.0", Digest: "sha256:1"}
	w.refused(anna, lifecycle.Update{ID: id, Source: &newer, Template: chart, Digest: digestOf(chart)}, lifecycle.ErrPhase, "")
	w.serve(lifecycle.UpdateCheck{ID: id, Source: newer, Template: chart, Digest: digestOf(chart)})
	if r := w.want(id, lifecycle.Ready); len(r.Conditions) > 0 {
		t.Errorf("it is offered a chart: %+v", r.Conditions)
	}
}

// What was applied last, even if that failed, is what a destroy removes: neither a retry that
// touched nothing nor many failed destroys make it forget.
func TestDestroyWhatWasApplied(t *testing.T) {
	untouched := bare
	untouched.Untouched = true
	w := newWorld(t)
	id := w.create(anna, plain())
	w.run(id, good)
	name := func(v string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"name": json.RawMessage(`"` + v + `"`)}
	}
	w.must(anna, lifecycle.Update{ID: id, Parameters: name("one")})
	w.run(id, bare)
	for range 3 {
		w.must(anna, lifecycle.Update{ID: id, Parameters: name("two")})
		w.run(id, untouched)
		w.want(id, lifecycle.Failed)
	}
	w.must(anna, lifecycle.Retry{ID: id})
	w.must(anna, lifecycle.DestroyNow{ID: id})
	for range 15 {
		must.Equal(t, "the value destroyed with", string(w.record(id).Run.Parameters["name"]), `"one"`)
		for range 5 {
			w.run(id, broken)
			w.advance(time.Hour)
		}
		w.want(id, lifecycle.DestroyFailed)
		w.must(anna, lifecycle.DestroyNow{ID: id})
	}
}

// An update of a failed instance starts from what was tried, as a retry does.
func TestFixKeepsWhatWasTried(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, plain())
	w.run(id, good)
	w.must(anna, lifecycle.Update{ID: id, Parameters: map[string]json.RawMessage{"name": json.RawMessage(`"two"`)}, Source: new(source("2.0.0"))})
	w.run(id, bare)
	w.must(anna, lifecycle.Update{ID: id, Parameters: map[string]json.RawMessage{"language": json.RawMessage(`"de"`)}})
	if have := w.record(id).Parameters; string(have["name"]) == `"two"` {
		t.Error("what was only tried counts as applied")
	}
	run := w.record(id).Run
	if string(run.Parameters["name"]) != `"two"` || string(run.Parameters["language"]) != `"de"` || run.Source.Version != "1.0.0" { // the version is chosen anew
		t.Errorf("it runs %s with %s", run.Source.Version, run.Parameters)
	}
}
