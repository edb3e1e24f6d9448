// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestInterleavings tries every order of eight events with two owners, a pool of two, an
// end and a crash. Known states are not explored again.
//
// Shows: platform-mistakes 7
// Shows: instances 1
func TestInterleavings(t *testing.T) {
	const depth = 8
	x := &explorer{t: t, met: map[[32]byte]int{}}
	w := newWorld(t)
	w.fill(tiny())
	x.explore(scene{d: w.d, now: w.now, running: map[string]bool{}}, depth)
	t.Logf("%d states, %d steps", len(x.met), x.steps)
	if x.claims == 0 || x.destroyed == 0 || x.refused == 0 || x.lost == 0 {
		t.Errorf("%d claims, %d destroyed, %d refused, %d lost", x.claims, x.destroyed, x.refused, x.lost)
	}
}

// tiny has an end after ten minutes, and no room for a third instance.
func tiny() *template.Template {
	return with(func(t *template.Template) {
		t.TTL = &template.TTL{Default: 10 * time.Minute, OnExpire: "destroy"}
		t.Pool = &template.PoolSize{Size: 2, Max: 2, WhenEmpty: "refuse"}
	})
}

// scene is a document with the state of its executor.
type scene struct {
	d       *lifecycle.Document
	now     time.Time
	running map[string]bool // nonces of attempts that an executor knows
}

// seed returns a new seed whenever an ID or a nonce is made.
func (s scene) seed() [32]byte {
	n := 0
	for _, r := range s.d.Records {
		for _, run := range r.Runs {
			n += run.N + run.Attempt
		}
		if r.Run != nil {
			n += r.Run.N + r.Run.Attempt
		}
	}
	return sha256.Sum256([]byte{byte(len(s.d.Records)), byte(n)})
}

type explorer struct {
	t                                *testing.T
	m                                lifecycle.Machine
	met                              map[[32]byte]int // by state: the depth explored
	steps                            int
	claims, destroyed, refused, lost int
}

func (x *explorer) explore(s scene, depth int) {
	if depth == 0 || !x.fresh(s, depth) {
		return
	}
	a, b := creation(anna, tiny()), creation(ben, tiny())
	x.claim(s, anna, a, depth)
	x.claim(s, ben, b, depth)
	for id, r := range s.d.Records {
		if r.Owner.ID == "anna" && r.Phase == lifecycle.Ready {
			x.next(s, anna, lifecycle.DestroyNow{ID: id}, depth)
		}
	}
	x.next(s, lifecycle.Actor{}, lifecycle.Schedule{Concurrency: 2}, depth)
	x.next(s, lifecycle.Actor{}, lifecycle.Fill{Name: tiny().Name, Template: tiny(), Digest: digestOf(tiny()), Source: source("1.0.0")}, depth)
	x.end(s, depth)
	x.expire(s, depth)
	x.crash(s, depth)
}

// fresh reports whether a state has not been explored to this depth.
func (x *explorer) fresh(s scene, depth int) bool {
	body := must.Get(lifecycle.Encode(s.d))(x.t)
	body = s.now.AppendFormat(body, time.RFC3339)
	for _, id := range sortedIDs(s.d) {
		if r := s.d.Records[id]; r.Run != nil && s.running[r.Run.Nonce] {
			body = append(body, id...)
		}
	}
	key := sha256.Sum256(body)
	if x.met[key] >= depth {
		return false
	}
	x.met[key] = depth
	return true
}

func sortedIDs(d *lifecycle.Document) []string { return (&world{d: d}).every() }

func (x *explorer) step(s scene, a lifecycle.Actor, e lifecycle.Event) (scene, lifecycle.Answer, error) {
	x.steps++
	d, effects, answer, err := x.m.Step(s.d, lifecycle.Command{Event: e, Actor: a, Seed: s.seed()}, s.now)
	if v := lifecycle.Check(d); len(v) > 0 {
		x.t.Fatalf("after %#v: %v", e, v)
	}
	if _, _, total := occupancy(d, tiny().Name); total > 2 {
		x.t.Fatalf("after %#v there are %d", e, total)
	}
	next := scene{d: d, now: s.now, running: map[string]bool{}}
	for nonce := range s.running {
		next.running[nonce] = true
	}
	for _, f := range effects {
		if f.Kind == lifecycle.StartRun {
			next.running[f.Ref.Nonce] = true
		}
	}
	return next, answer, err
}

func (x *explorer) next(s scene, a lifecycle.Actor, e lifecycle.Event, depth int) {
	next, _, err := x.step(s, a, e)
	if err != nil {
		x.t.Fatalf("%#v: %v", e, err)
	}
	x.explore(next, depth-1)
}

// claim claims a member, which must have had no owner.
func (x *explorer) claim(s scene, a lifecycle.Actor, e lifecycle.Create, depth int) {
	next, answer, err := x.step(s, a, e)
	if err != nil {
		x.refused++
		return
	}
	x.claims++
	if old := s.d.Records[answer.Record.ID]; old == nil || old.Phase != lifecycle.Available || old.Owner.ID != "" {
		x.t.Fatalf("%s was given away before", answer.Record.ID)
	}
	x.explore(next, depth-1)
}

// end ends one attempt that an executor knows.
func (x *explorer) end(s scene, depth int) {
	for _, id := range sortedIDs(s.d) {
		r := s.d.Records[id]
		if r.Run == nil || r.Run.StartedAt.IsZero() || !s.running[r.Run.Nonce] {
			continue
		}
		ref := r.Run.Ref(id)
		next, _ := must.GetBoth(x.step(s, lifecycle.Actor{}, lifecycle.Ended{Ref: ref, Result: lifecycle.Result{Outcome: lifecycle.Done}}))(x.t)
		if next.d.Records[id].Phase == lifecycle.Destroyed {
			x.destroyed++
		}
		x.explore(next, depth-1)
		return
	}
}

// expire lets ten minutes pass, and handles the deadlines.
func (x *explorer) expire(s scene, depth int) {
	s.now = s.now.Add(10 * time.Minute)
	pending, _ := s.d.PendingIDs(s.now)
	for _, id := range pending {
		next, _ := must.GetBoth(x.step(s, lifecycle.Actor{}, lifecycle.ExpireCheck{ID: id}))(x.t)
		s = next
	}
	x.explore(s, depth-1)
}

// crash loses leader and executor: the next repeats what was begun.
func (x *explorer) crash(s scene, depth int) {
	s.running = map[string]bool{}
	repeated := map[string]bool{}
	for _, e := range x.m.Outstanding(s.d) {
		repeated[e.Ref.Nonce] = true
	}
	for _, id := range sortedIDs(s.d) {
		r := s.d.Records[id]
		if r.Run == nil || r.Run.StartedAt.IsZero() {
			continue
		}
		if !repeated[r.Run.Nonce] {
			x.t.Fatalf("nobody repeats the start of %s", id)
		}
		ref := r.Run.Ref(id)
		next, _ := must.GetBoth(x.step(s, lifecycle.Actor{}, lifecycle.Ended{Ref: ref, Result: lost}))(x.t)
		x.lost++
		next.running = map[string]bool{}
		s = next
	}
	x.explore(s, depth-1)
}
