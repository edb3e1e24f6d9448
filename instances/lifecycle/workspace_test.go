// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

// organization returns the template of the workspaces of acme.
func organization() *template.Template {
	return &template.Template{Name: lifecycle.WorkspaceTemplate("acme"), Enabled: true, Executor: template.ExecutorLocal, Timeout: time.Hour}
}

func opening(workspace string) lifecycle.OpenWorkspace {
	return lifecycle.OpenWorkspace{Template: organization(), Digest: digestOf(organization()), Workspace: workspace}
}

func (w *world) workspace(name string) string {
	w.t.Helper()
	return w.must(anna, opening(name)).Record.ID
}

func asking(id string, a lifecycle.Ask) lifecycle.Enqueue {
	return lifecycle.Enqueue{
		ID: id, Template: organization(), Digest: digestOf(organization()), Ask: a,
		Source: template.Source{Digest: "sha256:cv" + a.Upload, Archive: "sha256:tar" + a.Upload, Size: 1},
	}
}

// enqueue adds a run, and returns its number.
func (w *world) enqueue(id string, a lifecycle.Ask) int {
	w.t.Helper()
	answer := w.must(anna, asking(id, a))
	if answer.Status != 201 || answer.Run == 0 {
		w.t.Fatalf("answered %+v", answer)
	}
	return answer.Run
}

var changes = lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:p", Changes: true, Counts: &lifecycle.Counts{Add: 1}, Resources: -1}

// planned adds a run and brings it to a waiting plan.
func (w *world) planned(id string, a lifecycle.Ask) int {
	w.t.Helper()
	n := w.enqueue(id, a)
	w.run(id, changes)
	return n
}

// ended checks the result of a run.
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
	w.want(id, lifecycle.Ready)
	if again := w.must(ben, opening("prod")); again.Status != 200 || again.Record.ID != id {
		t.Errorf("a second record: %+v", again)
	}
	n := w.planned(id, lifecycle.Ask{Upload: "1"})
	w.want(id, lifecycle.Planned)
	w.refused(anna, lifecycle.Confirm{ID: id, N: n, Plan: "sha256:other"}, lifecycle.ErrStalePlan, "")
	w.must(anna, lifecycle.Confirm{ID: id, N: n, Plan: "sha256:p"}) // one's own run: no second person is needed
	w.must(anna, lifecycle.Confirm{ID: id, N: n, Plan: "sha256:p"}) // the answer was lost
	w.refused(ben, lifecycle.Confirm{ID: id, N: n, Plan: "sha256:p"}, lifecycle.ErrPhase, "")
	w.start()
	if ref := w.ref(id); ref.Kind != lifecycle.RunApply || ref.Attempt != 2 || ref.N != n {
		t.Errorf("runs %+v", ref)
	}
	if after := w.record(id).Run.After; after == nil || after.Kind != lifecycle.RunPlan || after.Attempt != 1 {
		t.Errorf("the attempt before was %+v", after)
	}
	w.end(id, good)
	w.ended(id, n, lifecycle.Done)
	if r := w.want(id, lifecycle.Ready); r.Applied || !r.ExpiresAt.IsZero() || len(r.Notices) > 0 {
		t.Errorf("a workspace is no instance: %+v", r)
	}
}

func TestWorkspacePlans(t *testing.T) {
	for name, tt := range map[string]struct {
		ask    lifecycle.Ask
		result lifecycle.Result
		want   string // result of the run; "": it waits
		phase  lifecycle.Phase
	}{
		"speculative":  {lifecycle.Ask{Speculative: true}, changes, lifecycle.Done, lifecycle.Ready},
		"no changes":   {lifecycle.Ask{}, lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:p", Resources: -1}, lifecycle.Done, lifecycle.Ready},
		"kept":         {lifecycle.Ask{Save: true}, changes, "", lifecycle.Ready},
		"kept, auto":   {lifecycle.Ask{Save: true, AutoApply: true}, changes, "", lifecycle.Ready},
		"waits":        {lifecycle.Ask{Destroy: true}, changes, "", lifecycle.Planned},
		"failed":       {lifecycle.Ask{}, broken, lifecycle.RunFailed, lifecycle.Ready},
		"lost":         {lifecycle.Ask{}, lost, lifecycle.Lost, lifecycle.Ready},
		"no digest":    {lifecycle.Ask{}, lifecycle.Result{Outcome: lifecycle.Done, Changes: true}, lifecycle.RunFailed, lifecycle.Ready},
		"auto applied": {lifecycle.Ask{AutoApply: true}, changes, "", lifecycle.Updating},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.workspace("prod")
			n := w.enqueue(id, tt.ask)
			w.run(id, tt.result)
			w.want(id, tt.phase)
			if tt.want != "" {
				w.ended(id, n, tt.want)
				w.refused(anna, lifecycle.Confirm{ID: id, N: n, Plan: "sha256:p"}, lifecycle.ErrPhase, "")
				return
			}
			if run := w.record(id).FindRun(n); run == nil || run.Result != "" {
				t.Error("the run is not open")
			}
		})
	}
}

// The second run follows the first; a speculative plan overtakes a waiting one.
func TestWorkspaceTurns(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	first := w.planned(id, lifecycle.Ask{Upload: "1"})
	second := w.enqueue(id, lifecycle.Ask{Upload: "2"})
	w.start()
	if r := w.want(id, lifecycle.Planned); r.Run != nil {
		t.Fatalf("run %d has its turn", r.Run.N)
	}
	look := w.enqueue(id, lifecycle.Ask{Upload: "3", Speculative: true})
	if r := w.want(id, lifecycle.Updating); r.Run.N != look {
		t.Fatalf("run %d has its turn, want %d", r.Run.N, look)
	}
	w.run(id, changes)
	w.ended(id, look, lifecycle.Done)
	w.want(id, lifecycle.Planned)
	w.must(anna, lifecycle.Discard{ID: id, N: first})
	w.must(anna, lifecycle.Discard{ID: id, N: first})
	w.ended(id, first, lifecycle.Discarded)
	if r := w.want(id, lifecycle.Updating); r.Run.N != second {
		t.Errorf("run %d has its turn, want %d", r.Run.N, second)
	}
	kept := w.enqueue(id, lifecycle.Ask{Upload: "4", Save: true})
	w.run(id, changes) // second
	if w.run(id, changes); w.record(id).FindRun(kept).Plan == "" {
		t.Error("a plan that is kept does not pass one that waits")
	}
	w.must(anna, lifecycle.Confirm{ID: id, N: kept, Plan: "sha256:p"})
	if r := w.want(id, lifecycle.Updating); r.Run.N != kept {
		t.Errorf("run %d has its turn, want %d", r.Run.N, kept)
	}
}

// Of confirm, discard, cancel and force-cancel the first one wins.
func TestWorkspaceFirstWins(t *testing.T) {
	verbs := map[string]func(id string, n int) lifecycle.Event{
		"confirm": func(id string, n int) lifecycle.Event { return lifecycle.Confirm{ID: id, N: n, Plan: "sha256:p"} },
		"discard": func(id string, n int) lifecycle.Event { return lifecycle.Discard{ID: id, N: n} },
		"cancel":  func(id string, n int) lifecycle.Event { return lifecycle.CancelOne{ID: id, N: n} },
		"force":   func(id string, n int) lifecycle.Event { return lifecycle.CancelOne{ID: id, N: n, Force: true} },
	}
	states := map[string]func(w *world, id string) int{
		"pending":  func(w *world, id string) int { return w.enqueue(id, lifecycle.Ask{}) },
		"planning": func(w *world, id string) int { n := w.enqueue(id, lifecycle.Ask{}); w.start(); return n },
		"planned":  func(w *world, id string) int { return w.planned(id, lifecycle.Ask{}) },
		"saved":    func(w *world, id string) int { return w.planned(id, lifecycle.Ask{Save: true}) },
		"confirmed": func(w *world, id string) int {
			n := w.planned(id, lifecycle.Ask{})
			w.must(ben, lifecycle.Confirm{ID: id, N: n, Plan: "sha256:p"})
			return n
		},
		"applying": func(w *world, id string) int {
			n := w.planned(id, lifecycle.Ask{AutoApply: true})
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
				if want := slices.Contains(taken[state], verb); want != (err == nil) || err != nil && !errors.Is(err, lifecycle.ErrPhase) {
					t.Fatalf("got %v", err)
				}
				if err != nil {
					return
				}
				for other, make := range verbs { // what follows is refused, or changes nothing
					if other == verb || verb == "confirm" && other == "cancel" || other == "force" {
						continue
					}
					if _, err := w.try(admin, make(id, n)); !errors.Is(err, lifecycle.ErrPhase) {
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
	n := w.planned(id, lifecycle.Ask{AutoApply: true})
	w.start()
	w.refused(anna, lifecycle.CancelOne{ID: id, N: n, Force: true}, lifecycle.ErrPhase, "")
	w.must(anna, lifecycle.CancelOne{ID: id, N: n})
	w.must(anna, lifecycle.CancelOne{ID: id, N: n, Force: true})
	if len(w.effects) != 1 || w.effects[0].Kind != lifecycle.KillRun || w.effects[0].Ref != w.ref(id) {
		t.Errorf("effects %+v", w.effects)
	}
	kinds := map[string]int{}
	for _, e := range w.m.Outstanding(w.d) {
		kinds[e.Kind]++
	}
	if kinds[lifecycle.StartRun] != 1 || kinds[lifecycle.CancelRun] != 1 || kinds[lifecycle.KillRun] != 1 {
		t.Errorf("a new leader repeats %v", kinds)
	}
	w.end(id, lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1})
	w.ended(id, n, lifecycle.Cancelled)
	w.want(id, lifecycle.Ready)
}

// An apply that was done before its cancel arrived counts as applied.
func TestWorkspaceCancelTooLate(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	n := w.planned(id, lifecycle.Ask{AutoApply: true})
	w.start()
	w.must(anna, lifecycle.CancelOne{ID: id, N: n})
	w.end(id, good)
	w.ended(id, n, lifecycle.Done)
}

func TestWorkspaceBounds(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	for i := range 10 {
		w.enqueue(id, lifecycle.Ask{Key: fmt.Sprint("key", i)})
	}
	if again := w.must(anna, asking(id, lifecycle.Ask{Key: "key3"})); !again.Repeat || again.Run != 4 {
		t.Errorf("the same request again: %+v", again)
	}
	w.refused(anna, asking(id, lifecycle.Ask{Upload: "10"}), lifecycle.ErrFull, "")
	w.refused(anna, lifecycle.CloseWorkspace{ID: id}, lifecycle.ErrPhase, "")
	for n := range 10 {
		w.must(anna, lifecycle.CancelOne{ID: id, N: n + 1})
		w.must(anna, lifecycle.CancelOne{ID: id, N: n + 1})
	}
	if again := w.must(anna, asking(id, lifecycle.Ask{Key: "key9"})); !again.Repeat || again.Run != 10 {
		t.Errorf("the same request again, when its run has ended: %+v", again)
	}
	w.must(anna, lifecycle.CloseWorkspace{ID: id})
	w.want(id, lifecycle.Destroyed)
	w.refused(anna, asking(id, lifecycle.Ask{}), lifecycle.ErrNotFound, "")
	if other := w.workspace("prod"); other == id {
		t.Error("a workspace that is made again has the record of the one before")
	}
}

func TestWorkspacePlanExpires(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	n := w.planned(id, lifecycle.Ask{})
	w.advance(24*time.Hour - time.Second)
	if pending, _ := w.d.PendingIDs(w.now); len(pending) > 0 {
		t.Errorf("due before its time: %v", pending)
	}
	w.advance(time.Second)
	if pending, _ := w.d.PendingIDs(w.now); !slices.Equal(pending, []string{id}) {
		t.Fatalf("due: %v", pending)
	}
	w.serve(lifecycle.ExpireCheck{ID: id})
	w.ended(id, n, lifecycle.Discarded)
}

// If a host dies, the attempt is lost, and the next one knows whose lock is left.
func TestWorkspaceLost(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	n := w.enqueue(id, lifecycle.Ask{})
	w.start()
	first := w.ref(id)
	w.end(id, lost)
	w.ended(id, n, lifecycle.Lost)
	w.enqueue(id, lifecycle.Ask{})
	w.start()
	if after := w.record(id).Run.After; after == nil || *after != first {
		t.Errorf("the attempt before was %+v, want %+v", after, first)
	}
}

// Only tfe.v2 changes a workspace's record, and nothing launches there.
func TestWorkspaceReserved(t *testing.T) {
	w := newWorld(t)
	id := w.workspace("prod")
	n := w.planned(id, lifecycle.Ask{})
	plan := w.record(id).FindRun(n).Plan
	newer := source("2.0.0")
	for _, e := range []lifecycle.Event{
		lifecycle.Approve{ID: id, Plan: plan}, lifecycle.Reject{ID: id}, lifecycle.Cancel{ID: id}, lifecycle.Retry{ID: id}, lifecycle.Protect{ID: id, On: true},
		lifecycle.Rename{ID: id, Name: "x"}, lifecycle.Orphan{ID: id, Reason: "x"}, lifecycle.DestroyNow{ID: id}, lifecycle.Extend{ID: id},
		lifecycle.Transfer{ID: id, To: user(ben)}, lifecycle.Update{ID: id, Source: &newer},
	} {
		w.refused(admin, e, lifecycle.ErrNotFound, "")
	}
	launchable := with(func(t *template.Template) { t.Name = lifecycle.WorkspaceTemplate("acme") })
	launch := creation(anna, launchable)
	w.refused(anna, launch, template.ErrInvalid, "")
	w.refused(admin, lifecycle.Adopt{Record: lifecycle.Record{ID: "abcdefghjk", Template: "tfe/acme", Phase: lifecycle.Ready}, Template: organization()}, template.ErrInvalid, "")
	before := w.d
	w.serve(lifecycle.UpdateCheck{ID: id, Template: organization(), Digest: "sha256:new", Source: newer})
	if w.d != before {
		t.Error("an offer changed the record of a workspace")
	}
	other := w.create(anna, plain())
	w.refused(anna, asking(other, lifecycle.Ask{}), lifecycle.ErrNotFound, "")
	w.refused(anna, lifecycle.CancelOne{ID: other, N: 1}, lifecycle.ErrNotFound, "")
}

// workspaceEvent returns a random event for a workspace.
func (c *chaos) workspaceEvent() lifecycle.Event {
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
		return asking(r.ID, lifecycle.Ask{
			Upload: fmt.Sprint(c.r.IntN(4)), Speculative: c.r.IntN(3) == 0, Save: c.r.IntN(4) == 0, AutoApply: c.r.IntN(3) == 0,
		})
	case 3, 4:
		plan := "sha256:other"
		if run := r.FindRun(n); run != nil && c.r.IntN(5) > 0 {
			plan = run.Plan
		}
		return lifecycle.Confirm{ID: r.ID, N: n, Plan: plan}
	case 5:
		return lifecycle.Discard{ID: r.ID, N: n}
	case 6:
		if r.Run != nil {
			n = r.Run.N
		}
		return lifecycle.CancelOne{ID: r.ID, N: n, Force: c.r.IntN(2) == 0}
	}
	if c.r.IntN(5) > 0 {
		return lifecycle.ExpireCheck{ID: r.ID}
	}
	return lifecycle.CloseWorkspace{ID: r.ID}
}
