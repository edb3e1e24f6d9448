// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
)

// organization is the template of the workspaces of acme.
func organization() *instance.Template {
	return &instance.Template{Name: instance.WorkspaceTemplate("acme"), Enabled: true, Executor: instance.ExecutorLocal, Timeout: time.Hour}
}

func opening(workspace string) instance.OpenWorkspace {
	return instance.OpenWorkspace{Template: organization(), Digest: digestOf(organization()), Workspace: workspace}
}

func (w *world) workspace(name string) string {
	w.t.Helper()
	return w.must(anna, opening(name)).Record.ID
}

func asking(id string, a instance.Ask) instance.Enqueue {
	return instance.Enqueue{
		ID: id, Template: organization(), Digest: digestOf(organization()), Ask: a,
		Source: instance.Source{Digest: "sha256:cv" + a.Upload, Archive: "sha256:tar" + a.Upload, Size: 1},
	}
}

// enqueue adds a run, and returns its number.
func (w *world) enqueue(id string, a instance.Ask) int {
	w.t.Helper()
	answer := w.must(anna, asking(id, a))
	if answer.Status != 201 || answer.Run == 0 {
		w.t.Fatalf("answered %+v", answer)
	}
	return answer.Run
}

var changes = instance.Result{Outcome: instance.Done, Plan: "sha256:p", Changes: true, Counts: &instance.Counts{Add: 1}, Resources: -1}

// planned brings a run to a plan that waits.
func (w *world) planned(id string, a instance.Ask) int {
	w.t.Helper()
	n := w.enqueue(id, a)
	w.run(id, changes)
	return n
}

// ended is how a run ended.
func (w *world) ended(id string, n int, result string) {
	w.t.Helper()
	for _, run := range w.record(id).Runs {
		if run.N == n {
			if run.Result != result {
				w.t.Errorf("run %d is %q (%s), want %q", n, run.Result, run.Error, result)
			}
			return
		}
	}
	w.t.Errorf("run %d has not ended", n)
}

func TestWorkspaceApply(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	w.want(id, instance.Ready)
	if again := w.must(ben, opening("prod")); again.Status != 200 || again.Record.ID != id {
		t.Errorf("a second record: %+v", again)
	}
	n := w.planned(id, instance.Ask{Upload: "1"})
	w.want(id, instance.Planned)
	w.refused(anna, instance.Confirm{ID: id, N: n, Plan: "sha256:other"}, instance.ErrStalePlan, "")
	w.must(anna, instance.Confirm{ID: id, N: n, Plan: "sha256:p"}) // one's own: it needs no second person
	w.must(anna, instance.Confirm{ID: id, N: n, Plan: "sha256:p"}) // the answer was lost
	w.refused(ben, instance.Confirm{ID: id, N: n, Plan: "sha256:p"}, instance.ErrPhase, "")
	w.start()
	if ref := w.ref(id); ref.Kind != instance.RunApply || ref.Attempt != 2 || ref.N != n {
		t.Errorf("runs %+v", ref)
	}
	if after := w.record(id).Run.After; after == nil || after.Kind != instance.RunPlan || after.Attempt != 1 {
		t.Errorf("the attempt before was %+v", after)
	}
	w.end(id, good)
	w.ended(id, n, instance.Done)
	r := w.want(id, instance.Ready)
	if r.Applied || !r.ExpiresAt.IsZero() || len(r.Notices) > 0 {
		t.Errorf("a workspace is no instance: %+v", r)
	}
}

func TestWorkspacePlans(t *testing.T) {
	for name, tt := range map[string]struct {
		ask    instance.Ask
		result instance.Result
		want   string // of the run; "": it waits
		phase  instance.Phase
	}{
		"speculative":  {instance.Ask{Speculative: true}, changes, instance.Done, instance.Ready},
		"no changes":   {instance.Ask{}, instance.Result{Outcome: instance.Done, Plan: "sha256:p", Resources: -1}, instance.Done, instance.Ready},
		"kept":         {instance.Ask{Save: true}, changes, "", instance.Ready},
		"kept, auto":   {instance.Ask{Save: true, AutoApply: true}, changes, "", instance.Ready},
		"waits":        {instance.Ask{Destroy: true}, changes, "", instance.Planned},
		"failed":       {instance.Ask{}, broken, instance.RunFailed, instance.Ready},
		"lost":         {instance.Ask{}, lost, instance.Lost, instance.Ready},
		"no digest":    {instance.Ask{}, instance.Result{Outcome: instance.Done, Changes: true}, instance.RunFailed, instance.Ready},
		"auto applied": {instance.Ask{AutoApply: true}, changes, "", instance.Updating},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.workspace("prod")
			n := w.enqueue(id, tt.ask)
			w.run(id, tt.result)
			w.want(id, tt.phase)
			if tt.want != "" {
				w.ended(id, n, tt.want)
				w.refused(anna, instance.Confirm{ID: id, N: n, Plan: "sha256:p"}, instance.ErrPhase, "")
				return
			}
			if w.record(id).OpenRun(n) == nil {
				t.Error("the run is not open")
			}
		})
	}
}

// Two runs at once: the second one has its turn when the first has ended, and a plan
// that is only looked at passes one that waits for somebody.
func TestWorkspaceTurns(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	first := w.planned(id, instance.Ask{Upload: "1"})
	second := w.enqueue(id, instance.Ask{Upload: "2"})
	w.start()
	if r := w.want(id, instance.Planned); r.Run != nil {
		t.Fatalf("run %d has its turn", r.Run.N)
	}
	look := w.enqueue(id, instance.Ask{Upload: "3", Speculative: true})
	if r := w.want(id, instance.Updating); r.Run.N != look {
		t.Fatalf("run %d has its turn, want %d", r.Run.N, look)
	}
	w.run(id, changes)
	w.ended(id, look, instance.Done)
	w.want(id, instance.Planned)
	w.must(anna, instance.Discard{ID: id, N: first})
	w.must(anna, instance.Discard{ID: id, N: first})
	w.ended(id, first, instance.Discarded)
	if r := w.want(id, instance.Updating); r.Run.N != second {
		t.Errorf("run %d has its turn, want %d", r.Run.N, second)
	}
	kept := w.enqueue(id, instance.Ask{Upload: "4", Save: true})
	w.run(id, changes) // second
	if w.run(id, changes); w.record(id).OpenRun(kept).Plan == "" {
		t.Error("a plan that is kept does not pass one that waits")
	}
	w.must(anna, instance.Confirm{ID: id, N: kept, Plan: "sha256:p"})
	if r := w.want(id, instance.Updating); r.Run.N != kept {
		t.Errorf("run %d has its turn, want %d", r.Run.N, kept)
	}
}

// Of confirm, discard, cancel and force-cancel the first one wins.
func TestWorkspaceFirstWins(t *testing.T) {
	verbs := map[string]func(id string, n int) instance.Event{
		"confirm": func(id string, n int) instance.Event { return instance.Confirm{ID: id, N: n, Plan: "sha256:p"} },
		"discard": func(id string, n int) instance.Event { return instance.Discard{ID: id, N: n} },
		"cancel":  func(id string, n int) instance.Event { return instance.CancelOne{ID: id, N: n} },
		"force":   func(id string, n int) instance.Event { return instance.CancelOne{ID: id, N: n, Force: true} },
	}
	states := map[string]func(w *world, id string) int{
		"pending":  func(w *world, id string) int { return w.enqueue(id, instance.Ask{}) },
		"planning": func(w *world, id string) int { n := w.enqueue(id, instance.Ask{}); w.start(); return n },
		"planned":  func(w *world, id string) int { return w.planned(id, instance.Ask{}) },
		"saved":    func(w *world, id string) int { return w.planned(id, instance.Ask{Save: true}) },
		"confirmed": func(w *world, id string) int {
			n := w.planned(id, instance.Ask{})
			w.must(ben, instance.Confirm{ID: id, N: n, Plan: "sha256:p"})
			return n
		},
		"applying": func(w *world, id string) int {
			n := w.planned(id, instance.Ask{AutoApply: true})
			w.start()
			return n
		},
	}
	taken := map[string][]string{
		"pending": {"discard", "cancel"}, "planning": {"cancel"}, "planned": {"confirm", "discard"}, "saved": {"confirm", "discard"},
		"confirmed": {"cancel"}, "applying": {"cancel"},
	}
	for state, reach := range states {
		for _, verb := range slices.Sorted(maps.Keys(verbs)) {
			t.Run(state+"/"+verb, func(t *testing.T) {
				w := newWorld(t)
				id := w.workspace("prod")
				n := reach(w, id)
				_, err := w.try(anna, verbs[verb](id, n))
				if want := slices.Contains(taken[state], verb); want != (err == nil) || err != nil && !errors.Is(err, instance.ErrPhase) {
					t.Fatalf("got %v", err)
				}
				if err != nil {
					return
				}
				for other, make := range verbs { // what comes after it is refused, or changes nothing
					if other == verb || verb == "confirm" && other == "cancel" || other == "force" {
						continue
					}
					if _, err := w.try(admin, make(id, n)); !errors.Is(err, instance.ErrPhase) {
						t.Errorf("%s after %s: %v", other, verb, err)
					}
				}
			})
		}
	}
}

func TestWorkspaceForceCancel(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	n := w.planned(id, instance.Ask{AutoApply: true})
	w.start()
	w.refused(anna, instance.CancelOne{ID: id, N: n, Force: true}, instance.ErrPhase, "")
	w.must(anna, instance.CancelOne{ID: id, N: n})
	w.must(anna, instance.CancelOne{ID: id, N: n, Force: true})
	if len(w.effects) != 1 || w.effects[0].Kind != instance.KillRun || w.effects[0].Ref != w.ref(id) {
		t.Errorf("effects %+v", w.effects)
	}
	kinds := map[string]int{}
	for _, e := range w.m.Outstanding(w.d) {
		kinds[e.Kind]++
	}
	if kinds[instance.StartRun] != 1 || kinds[instance.CancelRun] != 1 || kinds[instance.KillRun] != 1 {
		t.Errorf("a new leader repeats %v", kinds)
	}
	w.end(id, instance.Result{Outcome: instance.Cancelled, Resources: -1})
	w.ended(id, n, instance.Cancelled)
	w.want(id, instance.Ready)
}

// An apply that was done before its cancel came is applied.
func TestWorkspaceCancelTooLate(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	n := w.planned(id, instance.Ask{AutoApply: true})
	w.start()
	w.must(anna, instance.CancelOne{ID: id, N: n})
	w.end(id, good)
	w.ended(id, n, instance.Done)
}

func TestWorkspaceBounds(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	for i := range 10 {
		w.enqueue(id, instance.Ask{Key: fmt.Sprint("key", i)})
	}
	if again := w.must(anna, asking(id, instance.Ask{Key: "key3"})); !again.Repeat || again.Run != 4 {
		t.Errorf("the same request again: %+v", again)
	}
	w.refused(anna, asking(id, instance.Ask{Upload: "10"}), instance.ErrFull, "")
	w.refused(anna, instance.CloseWorkspace{ID: id}, instance.ErrPhase, "")
	for n := range 10 {
		w.must(anna, instance.CancelOne{ID: id, N: n + 1})
		w.must(anna, instance.CancelOne{ID: id, N: n + 1})
	}
	if again := w.must(anna, asking(id, instance.Ask{Key: "key9"})); !again.Repeat || again.Run != 10 {
		t.Errorf("the same request again, when its run has ended: %+v", again)
	}
	w.must(anna, instance.CloseWorkspace{ID: id})
	w.want(id, instance.Destroyed)
	w.refused(anna, asking(id, instance.Ask{}), instance.ErrNotFound, "")
	if other := w.workspace("prod"); other == id {
		t.Error("a workspace that is made again has the record of the one before")
	}
}

func TestWorkspacePlanExpires(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	n := w.planned(id, instance.Ask{})
	w.pass(24*time.Hour - time.Second)
	if due, _ := w.d.Due(w.now); len(due) > 0 {
		t.Errorf("due before its time: %v", due)
	}
	w.pass(time.Second)
	if due, _ := w.d.Due(w.now); !slices.Equal(due, []string{id}) {
		t.Fatalf("due: %v", due)
	}
	w.serve(instance.Tick{ID: id})
	w.ended(id, n, instance.Discarded)
}

// A host that dies: the attempt is lost, and the next one knows whose lock is left.
func TestWorkspaceLost(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	n := w.enqueue(id, instance.Ask{})
	w.start()
	first := w.ref(id)
	w.end(id, lost)
	w.ended(id, n, instance.Lost)
	w.enqueue(id, instance.Ask{})
	w.start()
	if after := w.record(id).Run.After; after == nil || *after != first {
		t.Errorf("the attempt before was %+v, want %+v", after, first)
	}
}

// Nobody but the routes of tfe.v2 moves the record of a workspace, and nobody launches
// from the namespace.
func TestWorkspaceReserved(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	n := w.planned(id, instance.Ask{})
	plan := w.record(id).OpenRun(n).Plan
	newer := source("2.0.0")
	for _, e := range []instance.Event{
		instance.Approve{ID: id, Plan: plan}, instance.Reject{ID: id}, instance.Cancel{ID: id}, instance.Retry{ID: id}, instance.Protect{ID: id, On: true},
		instance.Rename{ID: id, Name: "x"}, instance.Orphan{ID: id, Reason: "x"}, instance.DestroyNow{ID: id}, instance.Extend{ID: id},
		instance.Transfer{ID: id, To: user(ben)}, instance.Update{ID: id, Source: &newer},
	} {
		w.refused(admin, e, instance.ErrNotFound, "")
	}
	launchable := with(func(t *instance.Template) { t.Name = instance.WorkspaceTemplate("acme") })
	launch := creation(anna, launchable)
	w.refused(anna, launch, instance.ErrInvalid, "")
	w.refused(admin, instance.Adopt{Record: instance.Record{ID: "abcdefghjk", Template: "tfe/acme", Phase: instance.Ready}, Template: organization()}, instance.ErrInvalid, "")
	before := w.d
	w.serve(instance.Offer{ID: id, Template: organization(), Digest: "sha256:new", Source: newer})
	if w.d != before {
		t.Error("an offer changed the record of a workspace")
	}
	other := w.create(anna, plain())
	w.refused(anna, asking(other, instance.Ask{}), instance.ErrNotFound, "")
	w.refused(anna, instance.CancelOne{ID: other, N: 1}, instance.ErrNotFound, "")
}

// workspaceEvent is one that somebody might send to a workspace.
func (c *chaos) workspaceEvent() instance.Event {
	name := []string{"a", "b"}[c.r.IntN(2)]
	r := c.d.WorkspaceRecord("acme", name)
	if r == nil || c.r.IntN(20) == 0 {
		return opening(name)
	}
	n := 1 + c.r.IntN(r.Numbered+1)
	if c.r.IntN(3) > 0 && len(r.Open) > 0 {
		n = r.Open[c.r.IntN(len(r.Open))].N
	}
	switch c.r.IntN(8) {
	case 0, 1, 2:
		return asking(r.ID, instance.Ask{
			Upload: fmt.Sprint(c.r.IntN(4)), Speculative: c.r.IntN(3) == 0, Save: c.r.IntN(4) == 0, AutoApply: c.r.IntN(3) == 0,
		})
	case 3, 4:
		plan := "sha256:other"
		if run := r.OpenRun(n); run != nil && c.r.IntN(5) > 0 {
			plan = run.Plan
		}
		return instance.Confirm{ID: r.ID, N: n, Plan: plan}
	case 5:
		return instance.Discard{ID: r.ID, N: n}
	case 6:
		if r.Run != nil {
			n = r.Run.N
		}
		return instance.CancelOne{ID: r.ID, N: n, Force: c.r.IntN(2) == 0}
	}
	if c.r.IntN(5) > 0 {
		return instance.Tick{ID: r.ID}
	}
	return instance.CloseWorkspace{ID: r.ID}
}
