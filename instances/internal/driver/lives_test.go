// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/driver"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// live takes n instances through create, extend and end; nothing is left.
func live(t *testing.T, w *world, n int) {
	t.Helper()
	w.options.Concurrency = 50
	tpl := testTemplate("sandbox/vpc")
	tpl.TTL.Default = time.Hour
	stop := w.run(t)
	defer stop()
	var ids []string
	for i := range n {
		ids = append(ids, w.launch(t, tpl, fmt.Sprint("person ", i)).ID)
	}
	for i, id := range ids {
		w.until(t, id, 2*time.Hour, lifecycle.Ready)
		w.must(t, lifecycle.Extend{ID: id}, lifecycle.Actor{Issuer: "https://idp", Subject: fmt.Sprint("person ", i)})
	}
	for _, id := range ids {
		gone := w.until(t, id, 12*time.Hour, lifecycle.Destroyed)
		kinds := w.program.kinds(id)
		if gone.Extends != 1 || !slices.Equal(kinds, []lifecycle.RunKind{lifecycle.RunApply, lifecycle.RunDestroy}) {
			t.Errorf("life of %s: extended %d times, runs %v", id, gone.Extends, kinds)
		}
	}
	if left := w.program.left(); len(left) > 0 {
		t.Errorf("resources are left: %v", left)
	}
}

// TestLives is the benchmark below with fewer instances.
func TestLives(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) { live(t, newWorld(t, handler, time.Minute), 25) })
}

// BenchmarkLives takes 500 instances from creation to their end at the speed of this
// machine: attempts and lifetimes are very short.
//
// Shows: platform-figures 8 | 500 lives, also with the ledger on disk
func BenchmarkLives(b *testing.B) {
	n := 500
	if testing.Short() {
		n = 20
	}
	handler := ocitest.Handler(b, ocitest.Quirks{})
	for b.Loop() {
		w := newWorld(b, handler, time.Millisecond)
		w.options.Concurrency, w.options.Observe = 50, 5*time.Millisecond
		w.machine.Limits = lifecycle.Limits{}
		tpl := testTemplate("sandbox/vpc")
		w.shelf.put(template.Entry{Template: tpl, Digest: digestOf(tpl), Source: w.source})
		shift := newShift(w.memoryStore)
		stop := w.run(b)
		for i := range n {
			owner := template.Owner{Kind: template.OwnerUser, Issuer: "https://idp", ID: fmt.Sprint("person ", i)}
			e := lifecycle.Create{Template: tpl, Digest: digestOf(tpl), Source: w.source, Owner: owner}
			must.Get(w.Do(b.Context(), w.command(e, lifecycle.Actor{Issuer: owner.Issuer, Subject: owner.ID})))(b)
		}
		w.all(lifecycle.Ready, n)
		for id, rec := range w.records() {
			must.Get(w.Do(b.Context(), w.command(lifecycle.Extend{ID: id}, lifecycle.Actor{Issuer: rec.Owner.Issuer, Subject: rec.Owner.ID})))(b)
		}
		shift.by(24 * time.Hour) // all of them end
		w.all(lifecycle.Destroyed, n)
		stop()
		if left := w.program.left(); len(left) > 0 {
			b.Fatalf("resources are left: %v", left)
		}
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		b.ReportMetric(float64(mem.HeapInuse)/(1<<20), "MB")
		b.ReportMetric(float64(w.count()), "commits")
		if mem.HeapInuse > 100<<20 {
			b.Errorf("%d MB are in use, want less than 100", mem.HeapInuse>>20)
		}
	}
}

// shift moves the clock of a store.
type shift struct {
	m  *memoryStore
	mu sync.Mutex // guards d
	d  time.Duration
}

func newShift(m *memoryStore) *shift {
	s := &shift{m: m}
	m.now = func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return time.Now().Add(s.d)
	}
	return s
}

func (s *shift) by(d time.Duration) {
	s.mu.Lock()
	s.d += d
	s.mu.Unlock()
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.tell()
}

// records returns all records as committed last.
func (w *world) records() map[string]*lifecycle.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.doc.Records
}

// all waits until n instances are in a phase.
func (w *world) all(phase lifecycle.Phase, n int) {
	for {
		changed := w.Changed()
		if w.phases()[phase] == n {
			return
		}
		<-changed
	}
}

// TestNoticeThroughQueue tells a receiver each event once, in order.
func TestNoticeThroughQueue(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		repo := must.Get(w.client.Repo(w.layout.QueueRepo()))(t)
		var mu sync.Mutex // guards told
		var reported []string
		queue := jobs.New(jobs.Options{Repo: repo, Handlers: map[string]jobs.Handler{
			driver.KindNotice: func(_ context.Context, j jobs.Job) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, j.Data["kind"])
				if j.Data["template"] != "sandbox/vpc" || addr.CheckInstance(j.Data["id"]) != nil || len(j.Data) != 5 {
					t.Errorf("job %v", j.Data)
				}
				return "told", nil
			},
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { queue.Run(ctx) })
		defer wg.Wait()
		defer cancel()
		w.options.Queue = queue
		defer w.run(t)()
		tpl := testTemplate("sandbox/vpc")
		tpl.Notices = []time.Duration{30 * time.Minute}
		rec := w.launch(t, tpl, "anna")
		w.until(t, rec.ID, 9*time.Hour, lifecycle.Destroyed)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		must.Match(t, "notices", reported, []string{"ready", "expires_30m0s", "destroyed"})
	})
}

// TestApprovedPlan approves exactly one plan: the attempt names it, and where it is stored.
//
// Shows: instances 9
func TestApprovedPlan(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		defer w.run(t)()
		tpl := testTemplate("sandbox/vpc")
		tpl.Approval = "plan"
		rec := w.launch(t, tpl, "anna")
		planned := w.until(t, rec.ID, time.Hour, lifecycle.Planned)
		first := w.program.specs(rec.ID)[0]
		if first.Ref.Kind != lifecycle.RunPlan || !first.Approve {
			t.Errorf("first attempt %+v, want a plan that waits", first)
		}
		w.must(t, lifecycle.Approve{ID: rec.ID, Plan: planned.Run.Plan}, lifecycle.Actor{Issuer: "https://idp", Subject: "ben"})
		w.until(t, rec.ID, time.Hour, lifecycle.Ready)
		second := w.program.specs(rec.ID)[1]
		want := records.InstanceTag{Kind: records.TagRun, ID: rec.ID, N: first.Ref.N, Attempt: first.Ref.Attempt}.String()
		if second.Ref.Kind != lifecycle.RunApply || second.Approve || second.Plan != planned.Run.Plan || second.PlanTag != want {
			t.Errorf("second attempt %+v, want that it applies %s of %s", second, planned.Run.Plan, want)
		}
	})
}

// TestApprovedPlanLost: if the machine that applies an approved plan dies, the run plans
// again, and that plan needs an approval as well.
//
// Shows: crash K5-K6
func TestApprovedPlanLost(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		lost := false
		w.program.result = func(s run.Attempt) *lifecycle.Result {
			if s.Ref.Kind != lifecycle.RunApply || lost {
				return nil
			}
			lost = true
			return &lifecycle.Result{Outcome: lifecycle.Lost, Resources: -1, State: true, Error: "the lease of its lock has expired"}
		}
		defer w.run(t)()
		tpl := testTemplate("sandbox/vpc")
		tpl.Approval = "plan"
		rec := w.launch(t, tpl, "anna")
		approve := func() {
			planned := w.until(t, rec.ID, time.Hour, lifecycle.Planned)
			w.must(t, lifecycle.Approve{ID: rec.ID, Plan: planned.Run.Plan}, lifecycle.Actor{Issuer: "https://idp", Subject: "ben"})
		}
		approve()
		approve()
		w.until(t, rec.ID, time.Hour, lifecycle.Ready)
		specs, kinds := w.program.specs(rec.ID), w.program.kinds(rec.ID)
		if want := []lifecycle.RunKind{lifecycle.RunPlan, lifecycle.RunApply, lifecycle.RunPlan, lifecycle.RunApply}; !slices.Equal(kinds, want) {
			t.Fatalf("attempts %v, want %v", kinds, want)
		}
		if specs[2].Took != run.LockID(specs[1].Ref) || specs[3].PlanTag == specs[1].PlanTag {
			t.Errorf("it takes over %q, and applies %s after %s", specs[2].Took, specs[3].PlanTag, specs[1].PlanTag)
		}
	})
}
