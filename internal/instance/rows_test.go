// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
)

func planned() *instance.Template {
	return with(func(t *instance.Template) { t.Name, t.Approval = "sandbox/plan", "plan" })
}

func requested() *instance.Template {
	return with(func(t *instance.Template) { t.Name, t.Approval = "sandbox/ask", "request" })
}

func pooled() *instance.Template {
	return with(func(t *instance.Template) {
		t.Name = "sandbox/pool"
		t.Pool = &instance.PoolSize{Size: 2, Max: 6, MaxAge: 24 * time.Hour, WhenEmpty: "refuse"}
	})
}

func (w *world) fill(t *instance.Template) {
	w.t.Helper()
	w.serve(instance.Fill{Name: t.Name, Template: t, Digest: digestOf(t), Source: source("1.0.0")})
}

// members are the ids of a phase, sorted.
func (w *world) all(p instance.Phase) []string {
	var ids []string
	for id, r := range w.d.Records {
		if r.Phase == p {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// runAll starts all that waits and ends each with a result.
func (w *world) runAll(r instance.Result) {
	w.t.Helper()
	w.start()
	for _, e := range w.effects {
		if e.Kind == instance.StartRun {
			w.serve(instance.Ended{Ref: e.Ref, Result: r})
		}
	}
}

// broke lets an instance fail for good.
func (w *world) broke(id string) {
	w.t.Helper()
	for w.record(id).Phase != instance.Failed {
		w.run(id, broken)
		w.pass(5 * time.Minute)
	}
}

// reach brings an instance of anna into a phase.
func (w *world) reach(p instance.Phase) string {
	w.t.Helper()
	switch p {
	case instance.Requested:
		return w.create(anna, requested())
	case instance.Rejected:
		id := w.create(anna, requested())
		w.must(ben, instance.Reject{ID: id, Reason: "no"})
		return id
	case instance.Planned:
		id := w.create(anna, planned())
		w.run(id, plan("sha256:p1", instance.Counts{Add: 1}))
		return id
	case instance.Available:
		w.fill(pooled())
		w.runAll(good)
		return w.all(instance.Available)[0]
	}
	id := w.create(anna, plain())
	if p == instance.Provisioning {
		return id
	}
	if p == instance.Failed {
		w.broke(id)
		return id
	}
	w.run(id, good)
	switch p {
	case instance.Updating:
		w.must(anna, instance.Update{ID: id})
	case instance.Orphaned:
		w.must(admin, instance.Orphan{ID: id, Reason: "kept"})
	case instance.Destroying, instance.Destroyed, instance.DestroyFailed:
		w.must(anna, instance.DestroyNow{ID: id})
	}
	if p == instance.Destroyed {
		w.run(id, gone)
	}
	for p == instance.DestroyFailed && w.record(id).Phase != p {
		w.run(id, broken)
		w.pass(time.Hour)
	}
	return id
}

var phases = []instance.Phase{
	instance.Requested, instance.Planned, instance.Provisioning, instance.Updating, instance.Available, instance.Ready,
	instance.Failed, instance.Destroying, instance.DestroyFailed, instance.Destroyed, instance.Orphaned, instance.Rejected,
}

// pairs is what a caller may do in which phase, and where that leads.
const pairs = `
requested       approve provisioning, reject rejected, cancel rejected, destroy rejected
planned         approve provisioning, reject destroyed, cancel destroyed, destroy destroyed, extend planned
provisioning    cancel failed, protect provisioning, unprotect provisioning, rename provisioning, transfer provisioning, destroy destroyed, extend provisioning
updating        cancel failed, protect updating, unprotect updating, rename updating, transfer updating, destroy destroying, extend updating
available       destroy destroying
ready           protect ready, unprotect ready, rename ready, transfer ready, orphan orphaned, destroy destroying, extend ready, update updating
failed          retry provisioning, protect failed, unprotect failed, rename failed, transfer failed, orphan orphaned, destroy destroying, extend failed, update updating
destroying
destroy_failed  retry destroying, protect destroy_failed, unprotect destroy_failed, rename destroy_failed, transfer destroy_failed, orphan orphaned, destroy destroying, update destroying
destroyed
orphaned
rejected
`

// TestPairs takes every event of a caller to every phase: what the table does not
// have is refused, and changes nothing.
func TestPairs(t *testing.T) {
	table := map[instance.Phase]map[string]instance.Phase{}
	for line := range strings.Lines(strings.TrimSpace(pairs)) {
		phase, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		to := map[string]instance.Phase{}
		for pair := range strings.SplitSeq(strings.TrimSpace(rest), ", ") {
			verb, phase, _ := strings.Cut(pair, " ")
			to[verb] = instance.Phase(phase)
		}
		table[instance.Phase(phase)] = to
	}
	newer := source("2.0.0")
	events := map[string]func(*instance.Record) (instance.Actor, instance.Event){
		"approve": func(r *instance.Record) (instance.Actor, instance.Event) {
			plan := instance.RequestPlan(r)
			if r.Run != nil {
				plan = r.Run.Plan
			}
			return ben, instance.Approve{ID: r.ID, Plan: plan}
		},
		"reject": func(r *instance.Record) (instance.Actor, instance.Event) {
			return ben, instance.Reject{ID: r.ID, Reason: "no"}
		},
		"cancel": func(r *instance.Record) (instance.Actor, instance.Event) { return anna, instance.Cancel{ID: r.ID} },
		"retry":  func(r *instance.Record) (instance.Actor, instance.Event) { return anna, instance.Retry{ID: r.ID} },
		"protect": func(r *instance.Record) (instance.Actor, instance.Event) {
			return anna, instance.Protect{ID: r.ID, On: true}
		},
		"unprotect": func(r *instance.Record) (instance.Actor, instance.Event) { return anna, instance.Protect{ID: r.ID} },
		"rename": func(r *instance.Record) (instance.Actor, instance.Event) {
			return anna, instance.Rename{ID: r.ID, Name: "new"}
		},
		"orphan": func(r *instance.Record) (instance.Actor, instance.Event) {
			return admin, instance.Orphan{ID: r.ID, Reason: "mine now"}
		},
		"destroy": func(r *instance.Record) (instance.Actor, instance.Event) { return anna, instance.DestroyNow{ID: r.ID} },
		"extend":  func(r *instance.Record) (instance.Actor, instance.Event) { return anna, instance.Extend{ID: r.ID} },
		"transfer": func(r *instance.Record) (instance.Actor, instance.Event) {
			return admin, instance.Transfer{ID: r.ID, To: user(ben)}
		},
		"update": func(r *instance.Record) (instance.Actor, instance.Event) {
			return admin, instance.Update{ID: r.ID, Source: &newer}
		},
	}
	for _, phase := range phases {
		for verb, make := range events {
			t.Run(string(phase)+"/"+verb, func(t *testing.T) {
				w := newWorld(t)
				id := w.reach(phase)
				before := w.d
				actor, event := make(w.want(id, phase))
				_, err := w.try(actor, event)
				want, allowed := table[phase][verb]
				if !allowed {
					if !errors.Is(err, instance.ErrPhase) || w.d != before || !strings.Contains(err.Error(), "instance "+id+" is "+string(phase)+" and cannot be ") {
						t.Errorf("got %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				w.want(id, want)
			})
		}
	}
}

// TestPairsOfServer takes the server's events that fit nothing to every phase.
func TestPairsOfServer(t *testing.T) {
	for _, phase := range phases {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t)
			id := w.reach(phase)
			before := w.d
			stray := instance.Ref{ID: id, Kind: instance.RunApply, N: 1, Attempt: 1, Nonce: "x"}
			refs := []instance.Ref{stray, {ID: id}, {}}
			if r := w.record(id); r.Run != nil {
				refs = append(refs, instance.Ref{ID: id, Kind: r.Run.Kind, N: r.Run.N, Attempt: r.Run.Attempt, Nonce: r.Run.Nonce})
			}
			for _, ref := range refs {
				w.serve(instance.Ended{Ref: ref, Result: good})
				w.serve(instance.Started{Ref: ref, Handle: "h"})
				w.serve(instance.Wait{Ref: ref, Reason: instance.WaitStateLocked})
			}
			for _, e := range []instance.Event{
				instance.Tick{ID: id}, instance.Tick{ID: "nobody"}, instance.Noticed{ID: id, Notice: "x"}, instance.Removed{ID: id},
				instance.Offer{ID: "nobody"}, instance.ClockHeld{}, instance.Prune{},
			} {
				w.serve(e)
			}
			if w.d != before {
				t.Errorf("an event that fits nothing changed the document")
			}
		})
	}
}

// TestLateEvents sends what is almost the attempt that runs.
func TestLateEvents(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, plain())
	w.start()
	before, ref := w.d, w.ref(id)
	for name, change := range map[string]func(*instance.Ref){
		"kind":    func(r *instance.Ref) { r.Kind = instance.RunDestroy },
		"n":       func(r *instance.Ref) { r.N++ },
		"attempt": func(r *instance.Ref) { r.Attempt-- },
		"nonce":   func(r *instance.Ref) { r.Nonce = strings.Repeat("0", 32) },
	} {
		late := ref
		change(&late)
		w.serve(instance.Ended{Ref: late, Result: good})
		w.serve(instance.Started{Ref: late, Handle: "h"})
		if w.d != before {
			t.Errorf("another %s counts", name)
		}
	}
	w.serve(instance.Ended{Ref: ref, Result: broken})
	w.pass(time.Hour)
	w.start()
	before = w.d
	w.serve(instance.Ended{Ref: ref, Result: good})
	if w.d != before {
		t.Error("the attempt before counts")
	}
}

// TestRows are the rows of the table of the life of an instance, each with what
// its effect is.
func TestRows(t *testing.T) {
	rows := map[string]func(*world){
		"1 create": func(w *world) {
			e := creation(anna, plain())
			e.Name, e.Parameters = "mine", map[string]json.RawMessage{"size": json.RawMessage(`"small"`)}
			a := w.must(anna, e)
			r := w.want(a.Record.ID, instance.Provisioning)
			if a.Status != 201 || r.Run.Kind != instance.RunApply || r.Source != source("1.0.0") || r.Name != "mine" || !r.Owner.Same(user(anna)) {
				w.t.Errorf("got %d %+v", a.Status, r)
			}
			if c := r.Conditions; len(c) != 1 || c[0].Type != instance.Waiting || c[0].Reason != instance.WaitQueued {
				w.t.Errorf("conditions %v", c)
			}
		},
		"1 request": func(w *world) {
			a := w.must(anna, creation(anna, requested()))
			if a.Status != 202 || a.Record.Run != nil || len(w.effects) != 1 || w.effects[0].Notice.Kind != instance.NoticeApproval {
				w.t.Errorf("got %d %+v %v", a.Status, a.Record.Run, w.effects)
			}
		},
		"1 switched off": func(w *world) {
			w.refused(anna, creation(anna, with(func(t *instance.Template) { t.Enabled = false })), instance.ErrPaused, "")
			w.must(admin, instance.Pause{Template: "sandbox/vpc", Reason: "a new one comes"})
			w.refused(anna, creation(anna, plain()), instance.ErrPaused, "template sandbox/vpc is paused: a new one comes")
			w.must(admin, instance.Resume{Template: "sandbox/vpc"})
			w.must(anna, creation(anna, plain()))
		},
		"1 owner of another kind": func(w *world) {
			e := creation(anna, plain())
			e.Owner = instance.Owner{Kind: instance.OwnerGroup, Issuer: "https://id", ID: "team-a"}
			w.refused(anna, e, instance.ErrInvalid, "/owner: the template does not admit this owner")
		},
		"2 approve": func(w *world) {
			id := w.reach(instance.Requested)
			w.pass(6 * 24 * time.Hour)
			w.refused(ben, instance.Approve{ID: id, Plan: "request@x"}, instance.ErrStalePlan, "the plan changed since you looked at it")
			w.refused(anna, instance.Approve{ID: id, Plan: instance.RequestPlan(w.record(id))}, instance.ErrDenied, "")
			w.must(ben, instance.Approve{ID: id, Plan: instance.RequestPlan(w.record(id))})
			r := w.want(id, instance.Provisioning)
			if r.ExpiresAt.Before(w.now.Add(8*time.Hour)) || r.Run.By.Subject != "anna" {
				w.t.Errorf("ends at %s, asked for by %s", r.ExpiresAt, r.Run.By.Subject)
			}
		},
		"2 seven days": func(w *world) {
			id := w.reach(instance.Requested)
			w.pass(7*24*time.Hour - 1)
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Requested)
			w.pass(1)
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Rejected)
		},
		"3 plan": func(w *world) {
			id := w.create(anna, planned())
			w.start()
			if k := w.ref(id).Kind; k != instance.RunPlan {
				w.t.Errorf("runs %s", k)
			}
			w.end(id, plan("sha256:p1", instance.Counts{Add: 2}))
			r := w.want(id, instance.Planned)
			if r.Applied || r.Run.Counts.Add != 2 || len(w.effects) != 1 || w.effects[0].Notice.Kind != instance.NoticeApproval {
				w.t.Errorf("got %+v %v", r.Run, w.effects)
			}
		},
		"4 approve exactly that plan": func(w *world) {
			id := w.reach(instance.Planned)
			w.refused(ben, instance.Approve{ID: id, Plan: "sha256:p0"}, instance.ErrStalePlan, "the plan changed since you looked at it")
			w.refused(anna, instance.Approve{ID: id, Plan: "sha256:p1"}, instance.ErrDenied, "")
			self := anna
			self.Admin = true
			w.refused(self, instance.Approve{ID: id, Plan: "sha256:p1"}, instance.ErrDenied, "")
			w.must(ben, instance.Approve{ID: id, Plan: "sha256:p1"})
			w.start()
			r := w.want(id, instance.Provisioning)
			if r.Run.Kind != instance.RunApply || r.Run.Approved != "sha256:p1" || r.Run.Attempt != 2 || r.Run.Planned != 1 || !r.Applied {
				w.t.Errorf("runs %+v", r.Run)
			}
			w.end(id, good)
			w.want(id, instance.Ready)
		},
		"4 who asked for what a group owns": func(w *world) {
			team := with(func(t *instance.Template) { t.Approval, t.Owner = "plan", "group" })
			e := creation(anna, team)
			e.Owner = instance.Owner{Kind: instance.OwnerGroup, Issuer: anna.Issuer, ID: "team-a"}
			id := w.must(anna, e).Record.ID
			w.run(id, plan("sha256:p1", instance.Counts{Add: 1}))
			w.refused(anna, instance.Approve{ID: id, Plan: "sha256:p1"}, instance.ErrDenied, "somebody else than who asked for it approves it")
			w.must(ben, instance.Approve{ID: id, Plan: "sha256:p1"})
		},
		"4 self, where that is allowed": func(w *world) {
			w.m.Limits.ApprovalSelf = true
			id := w.reach(instance.Planned)
			w.must(anna, instance.Approve{ID: id, Plan: "sha256:p1"})
		},
		"4 stale": func(w *world) {
			id := w.reach(instance.Planned)
			w.must(ben, instance.Approve{ID: id, Plan: "sha256:p1"})
			w.run(id, instance.Result{Outcome: instance.Stale, Resources: -1})
			w.start()
			r := w.want(id, instance.Provisioning)
			if r.Run.Kind != instance.RunPlan || r.Run.Approved != "" || r.Run.Attempt != 3 || r.Run.Failures != 0 {
				w.t.Errorf("runs %+v", r.Run)
			}
		},
		"4 a day": func(w *world) {
			id := w.create(anna, planned())
			w.run(id, plan("sha256:p1", instance.Counts{}))
			w.must(ben, instance.Approve{ID: id, Plan: "sha256:p1"})
			w.run(id, good)
			w.must(anna, instance.Extend{ID: id})
			w.must(admin, instance.Extend{ID: id, By: 48 * time.Hour})
			w.must(anna, instance.Update{ID: id})
			w.run(id, plan("sha256:p2", instance.Counts{Change: 1}))
			w.want(id, instance.Planned)
			w.pass(24 * time.Hour)
			w.serve(instance.Tick{ID: id})
			if r := w.want(id, instance.Ready); r.Run != nil || r.Runs[0].Result != instance.Cancelled {
				w.t.Errorf("runs %+v", r.Runs[0])
			}
		},
		"5 done": func(w *world) {
			id := w.create(anna, plain())
			w.start()
			w.serve(instance.Ended{Ref: w.ref(id), Connection: &instance.Connection{Type: "web", URL: "https://x"}, Result: instance.Result{
				Outcome: instance.Done, Resources: 1, State: true, Lock: "sha256:lock",
				Outputs: map[string]json.RawMessage{"url": json.RawMessage(`"u"`), "secret": json.RawMessage(`"s"`)},
			}})
			r := w.want(id, instance.Ready)
			if string(r.Outputs["url"]) != `"u"` || len(r.Outputs) != 1 || r.Connection.URL != "https://x" || r.Source.Lock != "sha256:lock" {
				w.t.Errorf("got %v %v %v", r.Outputs, r.Connection, r.Source)
			}
		},
		"5 a member": func(w *world) {
			if r := w.want(w.reach(instance.Available), instance.Available); r.Owner.ID != "" || !r.ExpiresAt.IsZero() || !r.Pooled {
				w.t.Errorf("got %+v", r)
			}
		},
		"6 attempts": func(w *world) {
			id := w.create(anna, plain())
			for _, wait := range []time.Duration{10 * time.Second, time.Minute} {
				w.run(id, broken)
				r := w.want(id, instance.Provisioning)
				if !r.Run.NotBefore.Equal(w.now.Add(wait)) || r.Conditions[0].Reason != instance.WaitRetry {
					w.t.Errorf("waits until %s, %v", r.Run.NotBefore, r.Conditions)
				}
				if _, next := w.d.Due(w.now); !next.Equal(w.now.Add(wait)) {
					w.t.Errorf("next is due at %s", next)
				}
				w.start()
				if len(w.effects) != 0 {
					w.t.Error("it starts before its time")
				}
				w.pass(wait)
			}
			w.run(id, lost)
			if r := w.want(id, instance.Failed); r.Reason != "nothing was heard of the run any more" {
				w.t.Errorf("failed: %s", r.Reason)
			}
		},
		"6 held": func(w *world) {
			id := w.create(anna, plain())
			for range 9 {
				w.run(id, instance.Result{Outcome: instance.Held, Error: "held by ben", Resources: -1})
				r := w.want(id, instance.Provisioning)
				if c := r.Conditions[0]; c.Reason != instance.WaitStateLocked || c.Message != "held by ben" {
					w.t.Errorf("waits for %v", c)
				}
				w.pass(time.Minute)
			}
		},
		"7 failed": func(w *world) {
			id := w.reach(instance.Failed)
			if r := w.record(id); r.Reason != "no such image" || r.ExpiresAt.After(w.now.Add(4*time.Hour)) {
				w.t.Errorf("%s, ends at %s", r.Reason, r.ExpiresAt)
			}
		},
		"7 cancelled": func(w *world) {
			id := w.create(anna, plain())
			w.start()
			ref := w.ref(id)
			w.must(anna, instance.Cancel{ID: id})
			if len(w.effects) != 1 || w.effects[0].Kind != instance.CancelRun || w.effects[0].Ref != ref {
				w.t.Errorf("effects %v", w.effects)
			}
			w.want(id, instance.Provisioning)
			w.end(id, instance.Result{Outcome: instance.Cancelled, Resources: -1})
			if r := w.want(id, instance.Failed); r.Reason != "cancelled by Anna" {
				w.t.Errorf("failed: %s", r.Reason)
			}
		},
		"8 claim": func(w *world) {
			first := w.reach(instance.Available)
			w.pass(time.Hour)
			a := w.must(anna, creation(anna, pooled()))
			r := w.want(a.Record.ID, instance.Ready)
			if r.ID != first || a.Status != 201 || r.Run != nil || !r.ExpiresAt.Equal(w.now.Add(8*time.Hour)) || !r.ClaimedAt.Equal(w.now) {
				w.t.Errorf("got %d %+v", a.Status, r)
			}
			for _, e := range w.effects {
				if e.Kind == instance.StartRun {
					w.t.Error("a claim runs something")
				}
			}
			w.fill(pooled())
			if n := len(w.all(instance.Provisioning)); n != 1 {
				w.t.Errorf("%d members are made anew", n)
			}
		},
		"8 empty": func(w *world) {
			w.refused(anna, creation(anna, pooled()), instance.ErrPoolEmpty, "the pool of sandbox/pool is empty")
			w.must(anna, creation(anna, with(func(t *instance.Template) { t.Pool = &instance.PoolSize{Size: 1, WhenEmpty: "create"} })))
		},
		"9 age": func(w *world) {
			id := w.reach(instance.Available)
			w.pass(24 * time.Hour)
			w.refused(anna, creation(anna, pooled()), instance.ErrPoolEmpty, "")
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Destroying)
		},
		"9 old revision": func(w *world) {
			w.reach(instance.Available)
			old := w.all(instance.Available)
			fill := instance.Fill{Name: "sandbox/pool", Template: pooled(), Digest: digestOf(pooled()), Source: source("1.1.0")}
			w.serve(fill)
			w.serve(fill)
			if got := w.all(instance.Available); !slices.Equal(got, old) {
				w.t.Errorf("without a successor, %v stay", got)
			}
			w.runAll(good)
			w.serve(fill)
			for _, id := range old {
				w.want(id, instance.Destroying)
			}
			if n := len(w.all(instance.Available)); n != 2 {
				w.t.Errorf("%d are available", n)
			}
		},
		"9 gone": func(w *world) {
			w.reach(instance.Available)
			w.serve(instance.Fill{Name: "sandbox/pool"})
			if n := len(w.all(instance.Available)); n != 0 {
				w.t.Errorf("%d are available", n)
			}
		},
		"10, 11 update": func(w *world) {
			id := w.reach(instance.Ready)
			newer, template := source("2.0.0"), with(func(t *instance.Template) { t.Title = "newer" })
			w.must(anna, instance.Update{ID: id, Source: &newer, Template: template, Digest: digestOf(template), Parameters: map[string]json.RawMessage{"size": json.RawMessage(`"large"`)}})
			r := w.want(id, instance.Updating)
			if r.Source.Version != "1.0.0" || r.Run.Source.Version != "2.0.0" || r.Parameters != nil {
				w.t.Errorf("before it is done: %+v", r)
			}
			w.run(id, good)
			r = w.want(id, instance.Ready)
			if r.Source.Version != "2.0.0" || r.Snapshot != digestOf(template) || string(r.Parameters["size"]) != `"large"` || len(w.d.Templates) != 1 {
				w.t.Errorf("done: %+v", r)
			}
		},
		"10 a failed update is destroyed by what it ran": func(w *world) {
			id := w.reach(instance.Ready)
			newer := source("2.0.0")
			w.must(anna, instance.Update{ID: id, Source: &newer})
			w.broke(id)
			w.must(anna, instance.Retry{ID: id})
			if r := w.want(id, instance.Updating); r.Run.Source != newer {
				w.t.Errorf("a retry runs %v", r.Run.Source)
			}
			w.broke(id)
			w.must(anna, instance.DestroyNow{ID: id})
			if r := w.want(id, instance.Destroying); r.Run.Source != newer {
				w.t.Errorf("destroyed by %v", r.Run.Source)
			}
		},
		"12 extend": func(w *world) {
			id := w.reach(instance.Ready)
			end := w.record(id).ExpiresAt
			w.must(anna, instance.Extend{ID: id, By: time.Hour})
			if got := w.record(id).ExpiresAt; !got.Equal(end.Add(time.Hour)) {
				w.t.Errorf("ends at %s", got)
			}
			w.refused(anna, instance.Extend{ID: id, By: 3 * time.Hour}, instance.ErrDenied, "only an admin extends by more than 2h")
			w.must(admin, instance.Extend{ID: id, By: 1000 * time.Hour})
			w.refused(anna, instance.Extend{ID: id}, instance.ErrExtends, "instance "+id+" ends at the latest 72h after it began")
		},
		"12 no end": func(w *world) {
			id := w.create(anna, with(func(t *instance.Template) { t.TTL = nil }))
			w.refused(anna, instance.Extend{ID: id}, instance.ErrNoEnd, "instance "+id+" has no end")
		},
		"12 to the max": func(w *world) {
			w.now = epoch
			id := w.create(anna, with(func(t *instance.Template) { t.TTL.Max = 9 * time.Hour }))
			w.run(id, good)
			w.must(anna, instance.Extend{ID: id})
			if got := w.record(id).ExpiresAt; !got.Equal(epoch.Add(9 * time.Hour)) {
				w.t.Errorf("ends at %s", got)
			}
		},
		"13 what runs is stopped first": func(w *world) {
			id := w.reach(instance.Updating)
			w.start()
			ref := w.ref(id)
			w.pass(9 * time.Hour)
			w.serve(instance.Tick{ID: id})
			if r := w.want(id, instance.Destroying); r.Run.Kind != instance.RunApply || r.Run.Cancel == "" || len(w.effects) != 1 || w.effects[0].Ref != ref {
				w.t.Errorf("runs %+v, effects %v", r.Run, w.effects)
			}
			w.start()
			if len(w.effects) != 0 {
				w.t.Error("two runs at once")
			}
			w.end(id, lost)
			w.start()
			if k := w.ref(id).Kind; k != instance.RunDestroy {
				w.t.Errorf("then runs %s", k)
			}
		},
		"13 keep": func(w *world) {
			id := w.create(anna, with(func(t *instance.Template) { t.TTL.OnExpire = "keep"; t.PerOwner = 2 }))
			w.run(id, good)
			w.pass(8 * time.Hour)
			w.serve(instance.Tick{ID: id})
			if r := w.want(id, instance.Orphaned); !r.Kept || r.Removing {
				w.t.Errorf("got %+v", r)
			}
			w.pass(30 * 24 * time.Hour)
			w.serve(instance.Archived{ID: id})
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Orphaned)
			if q := w.m.Quotas(w.d, with(func(t *instance.Template) { t.PerOwner = 2 }), user(anna), anna); q[0].Used != 1 {
				w.t.Errorf("it does not count: %v", q)
			}
			w.must(admin, instance.DestroyNow{ID: id})
			if len(w.effects) != 1 || w.effects[0].Kind != instance.Remove {
				w.t.Errorf("effects %v", w.effects)
			}
			w.serve(instance.Removed{ID: id})
			if len(w.d.Records) != 0 || len(w.d.Templates) != 0 {
				w.t.Errorf("%d records, %d templates", len(w.d.Records), len(w.d.Templates))
			}
		},
		"13 keep, in an apply": func(w *world) {
			id := w.create(anna, with(func(t *instance.Template) { t.TTL.OnExpire = "keep" }))
			w.start()
			w.pass(100 * time.Hour)
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Provisioning)
			before := w.d
			w.serve(instance.Tick{ID: id})
			if w.d != before {
				w.t.Error("a second tick changes something")
			}
			w.end(id, good)
			w.want(id, instance.Orphaned)
		},
		"14 an owner's protection": func(w *world) {
			id := w.reach(instance.Ready)
			w.must(anna, instance.Protect{ID: id, On: true})
			w.refused(anna, instance.DestroyNow{ID: id}, instance.ErrProtected, "")
			w.pass(8 * time.Hour)
			for range 2 {
				w.serve(instance.Tick{ID: id})
				r := w.want(id, instance.Ready)
				if len(w.effects) != 1 || w.effects[0].Notice.Kind != instance.NoticeProtected {
					w.t.Errorf("effects %v", w.effects)
				}
				w.serve(instance.Noticed{ID: id, Notice: w.effects[0].Notice.ID})
				before := w.d
				w.serve(instance.Tick{ID: id})
				if w.d != before || !slices.ContainsFunc(r.Conditions, func(c instance.Condition) bool { return c.Type == instance.ExpiredProtected }) {
					w.t.Errorf("told twice a day, or without %v", r.Conditions)
				}
				w.pass(24 * time.Hour)
			}
			w.pass(24 * time.Hour) // beyond 72h
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Destroying)
		},
		"14 an owner's protection without max": func(w *world) {
			id := w.create(anna, with(func(t *instance.Template) { t.TTL.Max = 0 }))
			w.run(id, good)
			w.must(anna, instance.Protect{ID: id, On: true})
			w.pass(8*time.Hour + 30*24*time.Hour - time.Second)
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Ready)
			w.pass(time.Second)
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Destroying)
		},
		"14 an admin's protection": func(w *world) {
			id := w.reach(instance.Ready)
			w.must(admin, instance.Protect{ID: id, On: true})
			w.refused(anna, instance.Protect{ID: id}, instance.ErrDenied, "")
			w.pass(10000 * time.Hour)
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Ready)
			w.must(admin, instance.Protect{ID: id})
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Destroying)
		},
		"15 while an apply runs": func(w *world) {
			id := w.create(anna, plain())
			w.start()
			w.must(anna, instance.DestroyNow{ID: id})
			w.want(id, instance.Destroying)
			w.end(id, good)
			w.start()
			if r := w.want(id, instance.Destroying); r.Run.Kind != instance.RunDestroy {
				w.t.Errorf("runs %+v", r.Run)
			}
			w.end(id, gone)
			w.want(id, instance.Destroyed)
		},
		"15 nothing was applied": func(w *world) {
			id := w.create(anna, planned())
			w.start()
			w.must(anna, instance.DestroyNow{ID: id})
			w.want(id, instance.Destroying)
			w.end(id, instance.Result{Outcome: instance.Cancelled, Resources: -1})
			w.want(id, instance.Destroyed)
		},
		"16 retry": func(w *world) {
			id := w.reach(instance.Failed)
			n := w.record(id).Runs[0].N
			w.must(anna, instance.Retry{ID: id})
			if r := w.want(id, instance.Provisioning); r.Run.N != n+1 || !r.ExpiresAt.After(w.now.Add(8*time.Hour)) {
				w.t.Errorf("run %d, ends at %s", r.Run.N, r.ExpiresAt)
			}
		},
		"17 done": func(w *world) {
			id := w.reach(instance.Destroying)
			w.run(id, gone)
			if r := w.want(id, instance.Destroyed); !r.FinishedAt.Equal(w.now) {
				w.t.Errorf("finished at %s", r.FinishedAt)
			}
			if len(w.effects) != 2 || w.effects[0].Notice.Kind != instance.NoticeDestroyed || w.effects[1].Kind != instance.Archive {
				w.t.Errorf("effects %v", w.effects)
			}
		},
		"18 resources are left": func(w *world) {
			id := w.reach(instance.Destroying)
			for _, r := range []instance.Result{{Outcome: instance.Done, Resources: 1}, {Outcome: instance.Done, Resources: -1}, {Outcome: instance.RunFailed}, lost} {
				w.run(id, r)
				w.want(id, instance.Destroying)
				w.pass(time.Hour)
			}
			w.run(id, broken)
			if r := w.want(id, instance.DestroyFailed); r.Reason != "destroy failed 5 times: no such image" {
				w.t.Errorf("reason %q", r.Reason)
			}
		},
		"19 each day": func(w *world) {
			id := w.reach(instance.DestroyFailed)
			w.pass(24 * time.Hour)
			w.serve(instance.Tick{ID: id})
			w.want(id, instance.Destroying)
		},
		"19 another version": func(w *world) {
			id := w.reach(instance.DestroyFailed)
			newer := source("2.0.0")
			w.refused(anna, instance.Update{ID: id, Source: &newer}, instance.ErrPhase, "")
			w.must(admin, instance.Update{ID: id, Source: &newer})
			if r := w.want(id, instance.Destroying); r.Run.Source != newer {
				w.t.Errorf("destroys with %v", r.Run.Source)
			}
		},
		"20 orphan": func(w *world) {
			id := w.reach(instance.DestroyFailed)
			w.refused(anna, instance.Orphan{ID: id, Reason: "x"}, instance.ErrDenied, "")
			w.refused(admin, instance.Orphan{ID: id}, instance.ErrInvalid, "/reason: a reason is needed")
			w.must(admin, instance.Orphan{ID: id, Reason: "the cloud is gone"})
			if r := w.want(id, instance.Orphaned); r.Reason != "the cloud is gone" || r.Source.Digest == "" {
				w.t.Errorf("got %+v", r)
			}
		},
		"21 transfer": func(w *world) {
			id := w.reach(instance.Ready)
			w.refused(anna, instance.Transfer{ID: id, To: user(ben)}, instance.ErrDenied, "")
			w.m.Limits.Quotas = []instance.Quota{{User: 1}}
			other := w.create(ben, plain())
			_, err := w.try(admin, instance.Transfer{ID: id, To: user(ben)})
			if q, ok := errors.AsType[*instance.QuotaError](err); !ok || q.Limit != 1 || q.Used != 1 {
				w.t.Errorf("got %v", err)
			}
			w.must(ben, instance.DestroyNow{ID: other})
			w.must(admin, instance.Transfer{ID: id, To: user(ben)})
			if !w.record(id).Owner.Same(user(ben)) {
				w.t.Error("it is not ben's")
			}
		},
		"21 name": func(w *world) {
			id := w.reach(instance.Ready)
			w.refused(anna, instance.Rename{ID: id, Name: "a\x1bb"}, instance.ErrInvalid, "")
			w.refused(anna, instance.Rename{ID: id, Name: strings.Repeat("ä", 65)}, instance.ErrInvalid, "")
			w.must(anna, instance.Rename{ID: id, Name: strings.Repeat("ä", 64)})
		},
		"22 seven days": func(w *world) {
			id := w.reach(instance.Destroyed)
			for _, n := range w.record(id).Notices {
				w.serve(instance.Noticed{ID: id, Notice: n.ID})
			}
			w.serve(instance.Archived{ID: id})
			if n := len(mustJSON(w.t, w.record(id))); n > 1<<10 {
				w.t.Errorf("a final record has %d bytes: %s", n, mustJSON(w.t, w.record(id)))
			}
			w.pass(7 * 24 * time.Hour)
			w.serve(instance.Tick{ID: id})
			if len(w.effects) != 1 || w.effects[0].Kind != instance.Remove {
				w.t.Errorf("effects %v", w.effects)
			}
			w.serve(instance.Removed{ID: id})
			if w.d.Records[id] != nil {
				w.t.Error("it is still there")
			}
		},
		"22 nothing goes that is not written": func(w *world) {
			id := w.reach(instance.Destroyed)
			w.pass(7 * 24 * time.Hour)
			w.serve(instance.Tick{ID: id})
			if len(w.effects) != 0 {
				w.t.Errorf("effects %v", w.effects)
			}
			w.serve(instance.Removed{ID: id})
			w.want(id, instance.Destroyed)
			w.serve(instance.Archived{ID: id})
			if len(w.effects) != 1 || w.effects[0].Kind != instance.Remove {
				w.t.Errorf("effects %v", w.effects)
			}
		},
		"22 twenty": func(w *world) {
			for range 21 {
				id := w.create(anna, plain())
				w.must(anna, instance.DestroyNow{ID: id})
				w.pass(time.Second)
			}
			if n := len(w.all(instance.Destroyed)); n != 20 {
				w.t.Errorf("%d are kept", n)
			}
		},
		"23 drift": func(w *world) {
			id := w.create(anna, with(func(t *instance.Template) { t.Drift = &instance.Drift{Every: time.Hour} }))
			w.run(id, good)
			w.pass(time.Hour)
			w.serve(instance.Tick{ID: id})
			w.run(id, instance.Result{Outcome: instance.Done, Resources: 3, Counts: &instance.Counts{Change: 1}})
			if r := w.want(id, instance.Ready); r.Conditions[0].Type != instance.Drifted || w.effects[0].Notice.Kind != instance.NoticeDrifted {
				w.t.Errorf("got %v %v", r.Conditions, w.effects)
			}
			w.pass(time.Hour)
			w.serve(instance.Tick{ID: id})
			w.run(id, broken)
			w.want(id, instance.Ready)
			w.pass(time.Hour)
			w.serve(instance.Tick{ID: id})
			w.run(id, instance.Result{Outcome: instance.Done, Resources: 3})
			if r := w.want(id, instance.Ready); len(r.Conditions) != 0 {
				w.t.Errorf("got %v", r.Conditions)
			}
		},
		"23 an update comes before it": func(w *world) {
			id := w.create(anna, with(func(t *instance.Template) { t.Drift = &instance.Drift{Every: time.Hour, Remediate: true} }))
			w.run(id, good)
			w.pass(time.Hour)
			w.serve(instance.Tick{ID: id})
			w.start()
			w.must(anna, instance.Update{ID: id})
			if w.effects[0].Kind != instance.CancelRun {
				w.t.Errorf("effects %v", w.effects)
			}
			w.end(id, instance.Result{Outcome: instance.Done, Counts: &instance.Counts{Change: 1}})
			w.start()
			if r := w.want(id, instance.Updating); r.Run.Kind != instance.RunApply {
				w.t.Errorf("runs %+v", r.Run)
			}
		},
		"23 remediate": func(w *world) {
			id := w.create(anna, with(func(t *instance.Template) { t.Drift = &instance.Drift{Every: time.Hour, Remediate: true} }))
			w.run(id, good)
			w.pass(time.Hour)
			w.serve(instance.Tick{ID: id})
			w.run(id, instance.Result{Outcome: instance.Done, Counts: &instance.Counts{Change: 1}})
			w.want(id, instance.Updating)
			w.run(id, good)
			if r := w.want(id, instance.Ready); len(r.Conditions) != 0 {
				w.t.Errorf("got %v", r.Conditions)
			}
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) { row(newWorld(t)) })
	}
	for n := range 23 {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(rows)), func(name string) bool {
			return slices.Contains(strings.FieldsFunc(name, func(c rune) bool { return c == ' ' || c == ',' }), fmt.Sprint(n+1))
		}) {
			t.Errorf("row %d is not tested", n+1)
		}
	}
}
