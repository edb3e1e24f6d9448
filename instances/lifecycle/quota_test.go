// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// No member is claimed twice: 200 claims on 5 members.
func TestClaims(t *testing.T) {
	w := newWorld(t)
	five := with(func(t *template.Template) {
		t.Pool = &template.PoolSize{Size: 5, WhenEmpty: "refuse"}
	})
	w.fill(five)
	w.runAll(good)
	won := map[string]bool{}
	for n := range 200 {
		a, err := w.try(person(n), creation(person(n), five))
		switch {
		case errors.Is(err, lifecycle.ErrPoolEmpty):
		case err != nil:
			t.Fatal(err)
		case won[a.Record.ID]:
			t.Fatalf("%s was given away twice", a.Record.ID)
		default:
			won[a.Record.ID] = true
		}
	}
	must.Equal(t, "won", len(won), 5)
	if available, claimed, total := occupancy(w.d, five.Name); available != 0 || claimed != 5 || total != 5 {
		t.Errorf("%d available, %d claimed, %d in all", available, claimed, total)
	}
}

// Limits are exact: of a template per owner, of all templates, of groups, and of a
// template in total.
//
// Shows: platform 11 | instances for each user | `quota`, `per_owner`, `max`
// Shows: platform-mistakes 4
// Shows: platform-attacks 14 | exceeded limits: owners, concurrent runs, rate, streams, forwards,
// records, outputs
// Shows: instances 10
func TestQuotas(t *testing.T) {
	two := with(func(t *template.Template) { t.PerOwner = 2 })
	lab := with(func(t *template.Template) { t.Name = "lab/vm" })
	six := with(func(t *template.Template) { t.Max = 6; t.Name = "six/vm" })
	w := newWorld(t)
	w.m.Limits.Quotas = []lifecycle.Quota{
		{Name: "", User: 5, Group: 20}, {Name: "more", Groups: []string{"team-b"}, User: 7, Templates: []string{"lab/*"}},
	}
	count := func(a lifecycle.Actor, tmpl *template.Template) (n int, text string) {
		for range 50 {
			_, err := w.try(a, creation(a, tmpl))
			if err == nil {
				n++
				continue
			}
			if q, ok := errors.AsType[*lifecycle.QuotaError](err); !ok || q.Used != q.Limit {
				t.Fatal(err)
			}
			text = err.Error()
		}
		return n, text
	}
	if n, text := count(anna, two); n != 2 || !strings.HasPrefix(text, "you have 2 of 2 instances of sandbox/vpc: ") {
		t.Errorf("of one template: %d, %s", n, text)
	}
	if n, text := count(anna, lab); n != 3 || !strings.HasPrefix(text, "you have 5 of 5 instances: ") || strings.Count(text, ",") != 4 {
		t.Errorf("of all: %d, %s", n, text)
	}
	if n, _ := count(ben, lab); n != 7 {
		t.Errorf("of a group with a higher limit: %d", n)
	}
	if n, text := count(person(1), six); n != 5 || text == "" {
		t.Errorf("of another: %d", n)
	}
	if n, text := count(person(2), six); n != 1 || text != "template six/vm has 6 of 6 instances" {
		t.Errorf("of a template: %d, %s", n, text)
	}
	forced := creation(admin, six)
	forced.Forced = true
	if a := w.must(admin, forced); !a.Record.Forced {
		t.Error("an admin's is not marked")
	}
	forced.Owner = user(person(2))
	w.refused(person(2), forced, lifecycle.ErrDenied, "")
}

// A failed instance without resources counts again when it runs.
func TestQuotaOfFailed(t *testing.T) {
	limited := with(func(t *template.Template) { t.Max, t.PerOwner = 1, 1 })
	for name, again := range map[string]func(id string) lifecycle.Event{
		"retry":  func(id string) lifecycle.Event { return lifecycle.Retry{ID: id} },
		"update": func(id string) lifecycle.Event { return lifecycle.Update{ID: id} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.create(anna, limited)
			w.run(id, bare)
			w.want(id, lifecycle.Failed)
			other := w.create(anna, limited)
			if other == id {
				t.Fatal("the failed one is the only one that anna may have")
			}
			_, err := w.try(anna, again(id))
			if q, ok := errors.AsType[*lifecycle.QuotaError](err); !ok || q.Limit != 1 || q.Used != 1 {
				t.Errorf("again beyond the limit: %v", err)
			}
			w.run(other, bare)
			w.must(anna, again(id))
			if _, err := w.try(anna, again(other)); err == nil {
				t.Error("both run again")
			}
		})
	}
}

// A pending change counts: it may run as soon as it is approved.
func TestQuotaOfPending(t *testing.T) {
	w := newWorld(t)
	limited := with(func(t *template.Template) { t.Approval, t.PerOwner = "request", 2 })
	id := w.create(anna, limited)
	w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.RequestPlan(w.record(id))})
	w.run(id, bare)
	used := func() int { return w.m.Quotas(w.d, limited, user(anna), anna)[0].Used }
	must.Equal(t, "failed", used(), 0)
	w.must(anna, lifecycle.Update{ID: id, Parameters: map[string]json.RawMessage{"size": json.RawMessage(`1`)}})
	must.Equal(t, "a change waits", used(), 1)
}

// Another may replace a failed one, which does not count while it ends.
func TestQuotaOfEnding(t *testing.T) {
	w := newWorld(t)
	limited := with(func(t *template.Template) { t.Max = 1 })
	id := w.create(anna, limited)
	w.run(id, lifecycle.Result{Outcome: lifecycle.RunFailed, Permanent: true, State: true})
	w.want(id, lifecycle.Failed)
	other := w.create(ben, limited)
	w.run(other, good)
	w.must(anna, lifecycle.DestroyNow{ID: id})
	w.run(id, broken)
	w.must(anna, lifecycle.Cancel{ID: id})
	w.want(id, lifecycle.DestroyFailed)
	w.must(anna, lifecycle.Retry{ID: id})
	w.want(id, lifecycle.Destroying)
	if _, err := w.try(ben, creation(ben, limited)); err == nil {
		t.Error("there are two")
	}
	w.run(id, gone)
	w.want(id, lifecycle.Destroyed)
}

// What makes something counts until nothing is left.
func TestQuotaOfStopped(t *testing.T) {
	w := newWorld(t)
	limited := with(func(t *template.Template) { t.Max = 1 })
	id := w.create(anna, limited)
	w.run(id, lifecycle.Result{Outcome: lifecycle.RunFailed, Permanent: true, State: true})
	w.must(anna, lifecycle.Retry{ID: id})
	w.start()
	w.must(anna, lifecycle.DestroyNow{ID: id})
	w.want(id, lifecycle.Destroying)
	if _, err := w.try(ben, creation(ben, limited)); err == nil {
		t.Error("what still makes something does not count")
	}
}

// A failed instance with resources counts, a destroyed one does not.
//
// Shows: platform 11
func TestQuotaIsFreed(t *testing.T) {
	w := newWorld(t)
	limited := with(func(t *template.Template) { t.Max = 1 })
	id := w.create(anna, limited)
	w.broke(id)
	if _, err := w.try(ben, creation(ben, limited)); err == nil {
		t.Fatal("a failed one does not count")
	}
	w.must(anna, lifecycle.DestroyNow{ID: id})
	if _, err := w.try(ben, creation(ben, limited)); err == nil {
		t.Fatal("one that is destroying does not count")
	}
	w.run(id, gone)
	w.must(ben, creation(ben, limited))
}

// 20 concurrent first requests make one instance, and get 20 good answers.
func TestOneForEachOwner(t *testing.T) {
	w := newWorld(t)
	limited := with(func(t *template.Template) { t.PerOwner = 1 })
	ids := map[string]int{}
	for n := range 20 {
		a := w.must(anna, creation(anna, limited))
		if want := 200; n > 0 && a.Status != want {
			t.Errorf("answer %d", a.Status)
		}
		ids[a.Record.ID]++
	}
	if len(ids) != 1 || len(w.d.Records) != 1 {
		t.Errorf("%v", ids)
	}
	e := creation(ben, plain())
	e.One = true
	first := w.must(ben, e)
	if second := w.must(ben, e); second.Record.ID != first.Record.ID || second.Status != 200 {
		t.Errorf("got %d %s", second.Status, second.Record.ID)
	}
}

// Deleting a template does not affect claimed instances.
//
// Shows: platform-mistakes 11
func TestDeletedTemplateLeavesClaimed(t *testing.T) {
	w := newWorld(t)
	w.reach(lifecycle.Available)
	id := w.must(anna, creation(anna, pooled())).Record.ID
	w.serve(lifecycle.Fill{Name: pooled().Name})
	w.want(id, lifecycle.Ready)
	w.serve(lifecycle.UpdateCheck{ID: id})
	w.want(id, lifecycle.Ready)
	must.Equal(t, "members stay", len(w.all(lifecycle.Available)), 0)
}

// An invalid pool is paused after one check, with one notice; a pool whose members fail
// is paused after three failures, with growing delays.
//
// Shows: platform-mistakes 12 | an invalid pool is retried for ever
func TestPoolPauses(t *testing.T) {
	w := newWorld(t)
	bad := lifecycle.Fill{Name: "sandbox/pool", Invalid: "module net/vpc/aws has no version 9"}
	w.serve(bad)
	if len(w.effects) != 1 || w.effects[0].Ref.ID != "sandbox/pool" || w.effects[0].Notice.Kind != "pool_paused" {
		t.Errorf("effects %v", w.effects)
	}
	before := w.d
	w.serve(bad)
	if w.d != before {
		t.Error("it is paused again")
	}
	w.serve(lifecycle.Noticed{ID: "sandbox/pool", Notice: w.d.Pools["sandbox/pool"].Notices[0].ID})
	w.fill(pooled())
	if n := len(w.all(lifecycle.Provisioning)); n != 2 {
		t.Fatalf("valid again, %d are made", n)
	}
	failures := 0
	for w.d.Pools["sandbox/pool"].Paused == "" {
		if failures++; failures > 10 {
			t.Fatal("it is never paused")
		}
		for range 3 {
			w.runAll(broken)
			w.advance(time.Minute)
		}
		w.fill(pooled())
		if p := w.d.Pools["sandbox/pool"]; p.Paused == "" {
			if got := w.all(lifecycle.Provisioning); p.Backoff.After(w.now) && len(got) != 0 {
				t.Errorf("until %s nothing is made, and %v are", p.Backoff, got)
			}
			w.now = p.Backoff
			w.fill(pooled())
		}
	}
	must.Equal(t, "kept as evidence", len(w.all(lifecycle.Failed)), 1)
	if p := w.d.Pools["sandbox/pool"]; p.Failures < 3 || p.Paused != "members failed: no such image" {
		t.Errorf("%+v", p)
	}
	w.advance(2 * time.Hour)
	w.fill(pooled())
	if n := len(w.all(lifecycle.Provisioning)); n != 0 {
		t.Errorf("paused, %d are made", n)
	}
	newer := lifecycle.Fill{Name: "sandbox/pool", Template: pooled(), Digest: digestOf(pooled()), Source: source("1.0.1")}
	w.serve(newer)
	if n := len(w.all(lifecycle.Provisioning)); n != 2 {
		t.Errorf("changed, %d are made", n)
	}
}

// A changed title or size leaves the members of a pool as they are; other inputs do not.
//
// Shows: instances 10
func TestPoolKeepsMembers(t *testing.T) {
	w := newWorld(t)
	w.fill(pooled())
	w.runAll(good)
	before := w.all(lifecycle.Available)
	larger := pooled()
	larger.Title = "another title"
	larger.Pool = &template.PoolSize{Size: 3, Max: 6, WhenEmpty: "refuse"}
	w.fill(larger)
	w.runAll(good)
	if now := w.all(lifecycle.Available); len(before) != 2 || len(now) != 3 || !containsAll(now, before) {
		t.Errorf("of %v there are %v", before, now)
	}
	other := *larger
	other.Inputs = json.RawMessage(`{"zone":"b"}`)
	for range 3 {
		w.fill(&other)
		w.runAll(good)
	}
	if now := w.all(lifecycle.Available); len(now) != 3 || containsAll(now, before[:1]) || containsAll(now, before[1:]) {
		t.Errorf("with other inputs, of %v there are %v", before, now)
	}
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// A pool never exceeds the limit of its template, and makes room for successors if the
// limit is used up.
//
// Shows: platform 5 | on demand or from a pool, recycled | a used one is destroyed, never reused
// Shows: instances 10
func TestPoolWithinMax(t *testing.T) {
	w := newWorld(t)
	tight := with(func(t *template.Template) { t.Pool = &template.PoolSize{Size: 3, Max: 3, WhenEmpty: "refuse"} })
	w.fill(tight)
	w.runAll(good)
	w.must(anna, creation(anna, tight))
	w.fill(tight)
	must.Equal(t, "made beyond the limit", len(w.all(lifecycle.Provisioning)), 0)
	newer := lifecycle.Fill{Name: tight.Name, Template: tight, Digest: digestOf(tight), Source: source("2.0.0")}
	for range 20 {
		w.serve(newer)
		w.runAll(lifecycle.Result{Outcome: lifecycle.Done})
		if _, _, total := occupancy(w.d, tight.Name); total > 3 {
			t.Fatalf("%d in all", total)
		}
	}
	n := 0
	for _, id := range w.all(lifecycle.Available) {
		if w.record(id).Source.Version == "2.0.0" {
			n++
		}
	}
	must.Equal(t, "of the newer version", n, 2)
}

// occupancy counts the available members of a pool, the claimed ones, and all live ones.
func occupancy(d *lifecycle.Document, template string) (available, claimed, total int) {
	for _, r := range d.Records {
		if r.Template != template || !r.Pooled || !r.Phase.Live() || !r.Counts() {
			continue
		}
		total++
		switch {
		case r.Phase == lifecycle.Available:
			available++
		case r.Owner.ID != "":
			claimed++
		}
	}
	return available, claimed, total
}

// With a concurrency of one, owners with many runs wait for those with few.
func TestOwnersInTurn(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.create(anna, plain())
	}
	w.advance(time.Second)
	w.create(ben, plain())
	var usage []string
	for range 4 {
		w.serve(lifecycle.Schedule{Concurrency: 1})
		ref := w.effects[0].Ref
		usage = append(usage, w.record(ref.ID).Owner.ID)
		w.advance(time.Second)
		w.serve(lifecycle.Ended{Ref: ref, Result: good})
	}
	if want := []string{"anna", "ben", "anna", "anna"}; !slices.Equal(usage, want) {
		t.Errorf("in turn come %v, want %v", usage, want)
	}
}
