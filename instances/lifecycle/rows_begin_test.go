// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// rowsOfBegin covers requests, first runs and pools.
func rowsOfBegin() map[string]func(*world) {
	return map[string]func(*world){
		"1 create": func(w *world) {
			e := creation(anna, plain())
			e.Name, e.Parameters = "mine", map[string]json.RawMessage{"size": json.RawMessage(`"small"`)}
			a := w.must(anna, e)
			r := w.want(a.Record.ID, lifecycle.Provisioning)
			if a.Status != 201 || r.Run.Kind != lifecycle.RunApply || r.Source != source("1.0.0") || r.Name != "mine" || !r.Owner.Same(user(anna)) {
				w.t.Errorf("got %d %+v", a.Status, r)
			}
			if c := r.Conditions; len(c) != 1 || c[0].Type != lifecycle.Waiting || c[0].Reason != lifecycle.WaitQueued {
				w.t.Errorf("conditions %v", c)
			}
		},
		"1 other values": func(w *world) {
			one := with(func(t *template.Template) { t.PerOwner = 1 })
			e := creation(anna, one)
			e.Name, e.Parameters, e.Given = "mine", map[string]json.RawMessage{"size": json.RawMessage(`"small"`)}, []string{"size"}
			id := w.must(anna, e).Record.ID
			same := creation(anna, one)
			same.Parameters = map[string]json.RawMessage{"size": json.RawMessage(`"large"`)} // the default
			for _, again := range []lifecycle.Create{e, same} {
				if a := w.must(anna, again); a.Status != 200 || a.Record.ID != id {
					w.t.Errorf("got %d %s, want %s", a.Status, a.Record.ID, id)
				}
			}
			timed := creation(anna, with(func(t *template.Template) { t.PerOwner, t.Name = 1, "sandbox/timed" }))
			timed.TTL = time.Hour
			kept := w.must(anna, timed).Record.ID
			w.must(anna, lifecycle.Extend{ID: kept})
			if a := w.must(anna, timed); a.Status != 200 {
				w.t.Errorf("asked for again after it was extended: %d", a.Status)
			}
			same.Given = []string{"size"}
			w.refused(anna, same, lifecycle.ErrExists, id+" is the only instance of sandbox/vpc that its owner may have, and its parameter size is different: update, extend or destroy it")
			longer := e
			longer.TTL = 3 * time.Hour
			w.refused(anna, longer, lifecycle.ErrExists, id+" is the only instance of sandbox/vpc that its owner may have, and its lifetime is different: update, extend or destroy it")
			e.Name = "yours"
			w.refused(anna, e, lifecycle.ErrExists, "")
		},
		"1 request": func(w *world) {
			a := w.must(anna, creation(anna, requested()))
			if a.Status != 202 || a.Record.Run != nil || len(w.effects) != 1 || w.effects[0].Notice.Kind != "approval_wanted" {
				w.t.Errorf("got %d %+v %v", a.Status, a.Record.Run, w.effects)
			}
		},
		"1 switched off": func(w *world) {
			w.refused(anna, creation(anna, with(func(t *template.Template) { t.Enabled = false })), lifecycle.ErrPaused, "")
			w.must(admin, lifecycle.PauseTemplate{Template: "sandbox/vpc", Reason: "a new one comes"})
			w.refused(anna, creation(anna, plain()), lifecycle.ErrPaused, "template sandbox/vpc is paused: a new one comes")
			w.must(admin, lifecycle.ResumeTemplate{Template: "sandbox/vpc"})
			w.must(anna, creation(anna, plain()))
		},
		"1 owner of another kind": func(w *world) {
			e := creation(anna, plain())
			e.Owner = template.Owner{Kind: template.OwnerGroup, Issuer: "https://id", ID: "team-a"}
			w.refused(anna, e, template.ErrInvalid, "/owner: the template does not allow this owner")
		},
		"2 approve": func(w *world) {
			id := w.reach(lifecycle.Requested)
			w.advance(6 * 24 * time.Hour)
			w.refused(ben, lifecycle.Approve{ID: id, Plan: "request@x"}, lifecycle.ErrStalePlan, "the plan changed since you reviewed it")
			w.refused(anna, lifecycle.Approve{ID: id, Plan: lifecycle.RequestPlan(w.record(id))}, lifecycle.ErrDenied, "")
			w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.RequestPlan(w.record(id))})
			r := w.want(id, lifecycle.Provisioning)
			if r.ExpiresAt.Before(w.now.Add(8*time.Hour)) || r.Run.By.Subject != "anna" {
				w.t.Errorf("ends at %s, requested by %s", r.ExpiresAt, r.Run.By.Subject)
			}
		},
		"2 seven days": func(w *world) {
			id := w.reach(lifecycle.Requested)
			w.advance(7*24*time.Hour - 1)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Requested)
			w.advance(1)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Rejected)
		},
		"3 plan": func(w *world) {
			id := w.create(anna, planned())
			w.start()
			must.Equal(w.t, "runs", w.ref(id).Kind, lifecycle.RunPlan)
			w.end(id, plan("sha256:p1", lifecycle.Counts{Add: 2}))
			r := w.want(id, lifecycle.Planned)
			if r.Applied || r.Run.Counts.Add != 2 || len(w.effects) != 1 || w.effects[0].Notice.Kind != "approval_wanted" {
				w.t.Errorf("got %+v %v", r.Run, w.effects)
			}
		},
		"4 approve exactly that plan": func(w *world) {
			id := w.reach(lifecycle.Planned)
			w.refused(ben, lifecycle.Approve{ID: id, Plan: "sha256:p0"}, lifecycle.ErrStalePlan, "the plan changed since you reviewed it")
			w.refused(anna, lifecycle.Approve{ID: id, Plan: "sha256:p1"}, lifecycle.ErrDenied, "")
			self := anna
			self.Admin = true
			w.refused(self, lifecycle.Approve{ID: id, Plan: "sha256:p1"}, lifecycle.ErrDenied, "")
			w.must(ben, lifecycle.Approve{ID: id, Plan: "sha256:p1"})
			w.start()
			r := w.want(id, lifecycle.Provisioning)
			if r.Run.Kind != lifecycle.RunApply || r.Run.Approved != "sha256:p1" || r.Run.Attempt != 2 || r.Run.Planned != 1 || !r.Applied {
				w.t.Errorf("runs %+v", r.Run)
			}
			w.end(id, good)
			w.want(id, lifecycle.Ready)
		},
		"4 who asked for what a group owns": func(w *world) {
			team := with(func(t *template.Template) { t.Approval, t.Owner = "plan", "group" })
			e := creation(anna, team)
			e.Owner = template.Owner{Kind: template.OwnerGroup, Issuer: anna.Issuer, ID: "team-a"}
			id := w.must(anna, e).Record.ID
			w.run(id, plan("sha256:p1", lifecycle.Counts{Add: 1}))
			w.refused(anna, lifecycle.Approve{ID: id, Plan: "sha256:p1"}, lifecycle.ErrDenied, "it must be approved by someone other than the requester")
			w.must(ben, lifecycle.Approve{ID: id, Plan: "sha256:p1"})
		},
		"4 self, where that is allowed": func(w *world) {
			w.m.Limits.ApprovalSelf = true
			id := w.reach(lifecycle.Planned)
			w.must(anna, lifecycle.Approve{ID: id, Plan: "sha256:p1"})
		},
		"4 stale": func(w *world) {
			id := w.reach(lifecycle.Planned)
			w.must(ben, lifecycle.Approve{ID: id, Plan: "sha256:p1"})
			w.run(id, lifecycle.Result{Outcome: lifecycle.Stale, Resources: -1})
			w.start()
			r := w.want(id, lifecycle.Provisioning)
			if r.Run.Kind != lifecycle.RunPlan || r.Run.Approved != "" || r.Run.Attempt != 3 || r.Run.Failures != 0 {
				w.t.Errorf("runs %+v", r.Run)
			}
		},
		"4 a day": func(w *world) {
			id := w.create(anna, planned())
			w.run(id, plan("sha256:p1", lifecycle.Counts{}))
			w.must(ben, lifecycle.Approve{ID: id, Plan: "sha256:p1"})
			w.run(id, good)
			w.must(anna, lifecycle.Extend{ID: id})
			w.must(admin, lifecycle.Extend{ID: id, By: 48 * time.Hour})
			w.must(anna, lifecycle.Update{ID: id})
			w.run(id, plan("sha256:p2", lifecycle.Counts{Change: 1}))
			w.want(id, lifecycle.Planned)
			w.advance(24 * time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			if r := w.want(id, lifecycle.Ready); r.Run != nil || r.Runs[0].Result != lifecycle.Cancelled {
				w.t.Errorf("runs %+v", r.Runs[0])
			}
		},
		"5 done": func(w *world) {
			id := w.create(anna, plain())
			w.start()
			w.serve(lifecycle.Ended{Ref: w.ref(id), Connection: &template.Connection{Type: "web", URL: "https://x"}, Result: lifecycle.Result{
				Outcome: lifecycle.Done, Resources: 1, State: true, Lock: "sha256:lock",
				Outputs: map[string]json.RawMessage{"url": json.RawMessage(`"u"`), "secret": json.RawMessage(`"s"`)},
			}})
			r := w.want(id, lifecycle.Ready)
			if string(r.Outputs["url"]) != `"u"` || len(r.Outputs) != 1 || r.Connection.URL != "https://x" || r.Source.Lock != "sha256:lock" {
				w.t.Errorf("got %v %v %v", r.Outputs, r.Connection, r.Source)
			}
		},
		"5 a member": func(w *world) {
			if r := w.want(w.reach(lifecycle.Available), lifecycle.Available); r.Owner.ID != "" || !r.ExpiresAt.IsZero() || !r.Pooled {
				w.t.Errorf("got %+v", r)
			}
		},
		"6 attempts": func(w *world) {
			id := w.create(anna, plain())
			for _, wait := range []time.Duration{10 * time.Second, time.Minute} {
				w.run(id, broken)
				r := w.want(id, lifecycle.Provisioning)
				if !r.Run.NotBefore.Equal(w.now.Add(wait)) || r.Conditions[0].Reason != lifecycle.WaitRetry {
					w.t.Errorf("waits until %s, %v", r.Run.NotBefore, r.Conditions)
				}
				if _, next := w.d.PendingIDs(w.now); !next.Equal(w.now.Add(wait)) {
					w.t.Errorf("next is due at %s", next)
				}
				w.start()
				if len(w.effects) != 0 {
					w.t.Error("it starts before its time")
				}
				w.advance(wait)
			}
			w.run(id, lost)
			if r := w.want(id, lifecycle.Failed); r.Reason != "contact with the run was lost" {
				w.t.Errorf("failed: %s", r.Reason)
			}
		},
		"6 now instead of later": func(w *world) {
			id := w.create(anna, plain())
			w.run(id, broken)
			w.must(anna, lifecycle.Retry{ID: id})
			w.run(id, good)
			w.want(id, lifecycle.Ready)
		},
		"6 held": func(w *world) {
			id := w.create(anna, plain())
			for range 9 {
				w.run(id, lifecycle.Result{Outcome: lifecycle.Held, Error: "held by ben", Resources: -1})
				r := w.want(id, lifecycle.Provisioning)
				if c := r.Conditions[0]; c.Reason != lifecycle.WaitStateLocked || c.Message != "held by ben" {
					w.t.Errorf("waits for %v", c)
				}
				w.advance(time.Minute)
			}
		},
		"7 failed": func(w *world) {
			id := w.reach(lifecycle.Failed)
			if r := w.record(id); r.Reason != "no such image" || r.ExpiresAt.After(w.now.Add(4*time.Hour)) {
				w.t.Errorf("%s, ends at %s", r.Reason, r.ExpiresAt)
			}
		},
		"7 cancelled": func(w *world) {
			id := w.create(anna, plain())
			w.start()
			ref := w.ref(id)
			w.must(anna, lifecycle.Cancel{ID: id})
			if len(w.effects) != 1 || w.effects[0].Kind != lifecycle.CancelRun || w.effects[0].Ref != ref {
				w.t.Errorf("effects %v", w.effects)
			}
			w.want(id, lifecycle.Provisioning)
			w.end(id, lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1})
			if r := w.want(id, lifecycle.Failed); r.Reason != "cancelled by Anna" {
				w.t.Errorf("failed: %s", r.Reason)
			}
		},
		"8 claim": func(w *world) {
			first := w.reach(lifecycle.Available)
			w.advance(time.Hour)
			a := w.must(anna, creation(anna, pooled()))
			r := w.want(a.Record.ID, lifecycle.Ready)
			if r.ID != first || a.Status != 201 || r.Run != nil || !r.ExpiresAt.Equal(w.now.Add(8*time.Hour)) || !r.ClaimedAt.Equal(w.now) {
				w.t.Errorf("got %d %+v", a.Status, r)
			}
			for _, e := range w.effects {
				if e.Kind == lifecycle.StartRun {
					w.t.Error("a claim runs something")
				}
			}
			w.fill(pooled())
			must.Equal(w.t, "members are made anew", len(w.all(lifecycle.Provisioning)), 1)
		},
		"8 empty": func(w *world) {
			w.refused(anna, creation(anna, pooled()), lifecycle.ErrPoolEmpty, "the pool of sandbox/pool is empty")
			w.must(anna, creation(anna, with(func(t *template.Template) { t.Pool = &template.PoolSize{Size: 1, WhenEmpty: "create"} })))
		},
		"9 age": func(w *world) {
			id := w.reach(lifecycle.Available)
			w.advance(24 * time.Hour)
			w.refused(anna, creation(anna, pooled()), lifecycle.ErrPoolEmpty, "")
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Destroying)
		},
		"9 old revision": func(w *world) {
			w.reach(lifecycle.Available)
			old := w.all(lifecycle.Available)
			fill := lifecycle.Fill{Name: "sandbox/pool", Template: pooled(), Digest: digestOf(pooled()), Source: source("1.1.0")}
			w.serve(fill)
			w.serve(fill)
			if got := w.all(lifecycle.Available); !slices.Equal(got, old) {
				w.t.Errorf("without a successor, %v stay", got)
			}
			w.runAll(good)
			w.serve(fill)
			for _, id := range old {
				w.want(id, lifecycle.Destroying)
			}
			must.Equal(w.t, "available", len(w.all(lifecycle.Available)), 2)
		},
		"9 gone": func(w *world) {
			w.reach(lifecycle.Available)
			w.serve(lifecycle.Fill{Name: "sandbox/pool"})
			must.Equal(w.t, "available", len(w.all(lifecycle.Available)), 0)
		},
	}
}
