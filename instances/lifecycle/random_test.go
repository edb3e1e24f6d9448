// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/timetable"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestRandomSteps applies random events and checks the whole document after each:
// OKARA_TEST_STEPS of them.
//
// Shows: platform 4
// Shows: platform 13
// Shows: platform-mistakes 16 | pending without a reason
// Shows: instances 1 | created resources are never forgotten, whatever the events and their order;
// for each guard, a test fails if it is removed
func TestRandomSteps(t *testing.T) {
	steps := 100_000
	if testing.Short() {
		steps = 5_000
	}
	if s := os.Getenv("OKARA_TEST_STEPS"); s != "" {
		n := must.Get(strconv.Atoi(s))(t)
		steps = n
	}
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := newChaos(t, seed)
			for range steps / 5 {
				c.step()
			}
			c.settle()
			for what, n := range c.seen {
				if n == 0 && steps >= 50_000 {
					t.Errorf("never: %s", what)
				}
			}
			if c.slept == 0 && steps >= 50_000 {
				t.Error("nothing was ever stopped")
			}
			t.Logf("%d records at the end, %d times stopped, %v", len(c.d.Records), c.slept, c.seen)
		})
	}
}

// chaos is a world with random events, and what really exists in it.
type chaos struct {
	t     *testing.T
	r     *rand.Rand
	m     lifecycle.Machine
	d     *lifecycle.Document
	now   time.Time
	n     uint64
	ids   []string // that events may name
	seen  map[string]int
	slept int // times that an instance was stopped

	real  map[string]bool          // instances that have resources
	off   map[string]bool          // instances whose last apply stopped them
	alive map[string]lifecycle.Ref // attempts that run
	ever  map[string]bool          // ids that were used
	later []lifecycle.Event        // events that follow from effects
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{
		t: t, r: rand.New(rand.NewPCG(seed, 14)), d: &lifecycle.Document{Version: 1}, now: epoch,
		real: map[string]bool{}, off: map[string]bool{}, alive: map[string]lifecycle.Ref{}, ever: map[string]bool{}, seen: map[string]int{"offered": 0, "taken": 0, "declined": 0, "offer ended": 0},
		m: lifecycle.Machine{Limits: lifecycle.Limits{Quotas: []lifecycle.Quota{{User: 3, Group: 4}, {User: 4, Groups: []string{"team-b"}}}}},
	}
	for _, p := range phases {
		c.seen[string(p)] = 0
	}
	return c
}

// catalog returns the templates of the chaos.
func catalog() []*template.Template {
	return []*template.Template{
		with(func(t *template.Template) {
			t.Notices, t.PerOwner, t.Max = []time.Duration{24 * time.Hour, 30 * time.Minute}, 2, 4
			t.Drift = &template.Drift{Every: 2 * time.Hour, Remediate: true}
		}),
		with(func(t *template.Template) {
			t.Name, t.Approval, t.Update, t.PerOwner = "sandbox/plan", "plan", "auto", 1
			t.TTL.OnExpire = "keep"
		}),
		with(func(t *template.Template) { t.Name, t.Approval, t.Update = "sandbox/ask", "request", "auto" }),
		pooled(),
		with(func(t *template.Template) {
			t.Name, t.Owner = "sandbox/team", "group"
			t.TTL = nil
			t.Drift = &template.Drift{Every: 3 * time.Hour}
			t.Update = "auto"
		}),
		with(func(t *template.Template) {
			t.Name = "sandbox/pool2"
			t.Pool = &template.PoolSize{Size: 1, WhenEmpty: "create"}
			t.Max = 2
		}),
		with(func(t *template.Template) { t.Name, t.Schedule = "sandbox/night", nightly().Schedule }),
		with(func(t *template.Template) {
			t.Schedule = nightly().Schedule
			t.Name, t.Pool, t.Update = "sandbox/night-pool", &template.PoolSize{Size: 1, WhenEmpty: "create"}, "auto"
			t.Schedule = &timetable.Schedule{Variable: "power", Stopped: t.Schedule.Stopped, Started: t.Schedule.Started, Stop: "0 */4 * * *", Start: "0 2-23/4 * * *", Timezone: "UTC"}
			t.Drift = &template.Drift{Every: 3 * time.Hour, Remediate: true}
		}),
	}
}

func (c *chaos) pick() string {
	if len(c.ids) == 0 {
		return "nobody"
	}
	return c.ids[c.r.IntN(len(c.ids))]
}

func (c *chaos) actor() lifecycle.Actor { return []lifecycle.Actor{anna, ben, admin}[c.r.IntN(3)] }

func (c *chaos) step() {
	if len(c.later) > 0 {
		e := c.later[0]
		c.later = c.later[1:]
		c.do(lifecycle.Actor{}, e)
		return
	}
	c.now = c.now.Add(time.Duration(c.r.IntN(600)) * time.Second)
	if c.r.IntN(40) == 0 {
		c.now = c.now.Add(time.Duration(c.r.IntN(30)) * time.Hour)
	}
	if c.r.IntN(8) == 0 {
		pending, _ := c.d.PendingIDs(c.now)
		for _, id := range pending {
			c.do(lifecycle.Actor{}, lifecycle.ExpireCheck{ID: id})
		}
		return
	}
	if c.r.IntN(4) == 0 {
		c.do(lifecycle.Actor{}, lifecycle.Schedule{Concurrency: 4})
		return
	}
	if c.r.IntN(3) == 0 {
		c.end()
		return
	}
	if c.r.IntN(4) == 0 {
		c.do(c.actor(), c.workspaceEvent())
		return
	}
	if c.r.IntN(20) == 0 {
		c.give()
		return
	}
	c.do(c.actor(), c.event())
}

// give offers an instance, or accepts or declines an offer.
func (c *chaos) give() {
	r := c.d.Records[c.pick()]
	for n := 0; n < 20 && (r == nil || r.Owner.ID == "" || !r.Phase.Live()); n++ {
		r = c.d.Records[c.pick()]
	}
	if r == nil || r.Owner.ID == "" {
		return
	}
	if r.Offer != nil {
		c.do([]lifecycle.Actor{anna, ben}[c.r.IntN(2)], lifecycle.Take{ID: r.ID, No: c.r.IntN(2) == 0})
		return
	}
	to := r.Owner
	to.ID = map[string]string{"anna": "ben", "ben": "anna", "team-a": "team-b", "team-b": "team-a"}[r.Owner.ID]
	c.do([]lifecycle.Actor{anna, ben}[c.r.IntN(2)], lifecycle.Transfer{ID: r.ID, To: to})
}

func (c *chaos) event() lifecycle.Event {
	id := c.pick()
	templates := catalog()
	t := templates[c.r.IntN(len(templates))]
	s := source([]string{"1.0.0", "1.0.0", "1.0.0", "1.1.0"}[c.r.IntN(4)])
	switch c.r.IntN(28) {
	case 0, 1, 2:
		return c.creation(t, s)
	case 3, 4:
		return lifecycle.Fill{Name: t.Name, Template: t, Digest: digestOf(t), Source: s}
	case 5:
		return lifecycle.Approve{ID: id, Plan: c.plan(id)}
	case 6:
		return lifecycle.Reject{ID: id}
	case 7:
		return lifecycle.Cancel{ID: id}
	case 8:
		return lifecycle.Retry{ID: id}
	case 9:
		return lifecycle.Protect{ID: id, On: c.r.IntN(3) == 0}
	case 10:
		return lifecycle.Orphan{ID: id, Reason: "chaos"}
	case 11, 12:
		return lifecycle.DestroyNow{ID: id}
	case 13:
		return lifecycle.Extend{ID: id}
	case 14:
		return lifecycle.Transfer{ID: id, To: user([]lifecycle.Actor{anna, ben}[c.r.IntN(2)])}
	case 15, 16:
		return lifecycle.Update{ID: id, Source: &s, Parameters: map[string]json.RawMessage{"size": json.RawMessage(`1`)}}
	case 17, 18:
		if r := c.d.Records[id]; r != nil {
			for _, t := range templates {
				if t.Name == r.Template {
					return lifecycle.UpdateCheck{ID: id, Template: t, Digest: digestOf(t), Source: s}
				}
			}
		}
		return lifecycle.Fill{Name: t.Name}
	case 19:
		return []lifecycle.Event{
			lifecycle.PauseTemplate{Template: t.Name}, lifecycle.ResumeTemplate{Template: t.Name}, lifecycle.ResumeTemplate{Template: t.Name},
			lifecycle.ClockHeld{Reason: "clocks"}, lifecycle.ClockHeld{}, lifecycle.AcceptClock{}, lifecycle.Fill{Name: t.Name, Invalid: "no module"},
		}[c.r.IntN(7)]
	case 20:
		return lifecycle.Archived{ID: id}
	case 21:
		return lifecycle.Removed{ID: id}
	case 22:
		return c.notice()
	case 23:
		return lifecycle.Take{ID: id, No: c.r.IntN(4) == 0}
	case 24, 25, 26:
		return lifecycle.Switch{ID: id, Stop: c.r.IntN(2) == 0}
	}
	return lifecycle.Reconcile{Events: []lifecycle.Event{lifecycle.ExpireCheck{ID: id}, lifecycle.Schedule{Concurrency: 3}, lifecycle.Rename{ID: id, Name: "x"}, lifecycle.Prune{}}}
}

func (c *chaos) creation(t *template.Template, s template.Source) lifecycle.Event {
	a := []lifecycle.Actor{anna, ben}[c.r.IntN(2)]
	e := lifecycle.Create{Template: t, Digest: digestOf(t), Source: s, Owner: user(a)}
	if t.Owner == "group" {
		e.Owner = template.Owner{Kind: "group", Issuer: a.Issuer, ID: a.Groups[0]}
	}
	return e
}

func (c *chaos) plan(id string) string {
	r := c.d.Records[id]
	if r == nil || c.r.IntN(5) == 0 {
		return "sha256:other"
	}
	return lifecycle.Awaits(r)
}

func (c *chaos) notice() lifecycle.Event {
	for _, e := range c.m.Outstanding(c.d) {
		if e.Kind == lifecycle.Notify {
			return lifecycle.Noticed{ID: e.Ref.ID, Notice: e.Notice.ID}
		}
	}
	return lifecycle.Prune{}
}

// end ends an attempt at random; what an apply made exists.
func (c *chaos) end() {
	ids := make([]string, 0, len(c.alive))
	for id := range c.alive {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	ref := c.alive[ids[c.r.IntN(len(ids))]]
	if c.r.IntN(6) == 0 {
		c.do(lifecycle.Actor{}, lifecycle.Started{Ref: ref, Handle: "h"})
		c.do(lifecycle.Actor{}, lifecycle.Wait{Ref: ref, Reason: lifecycle.WaitCredentialMissing})
		return
	}
	outcomes := []string{lifecycle.Done, lifecycle.Done, lifecycle.Done, lifecycle.Done, lifecycle.RunFailed, lifecycle.Lost, lifecycle.Cancelled, lifecycle.Held, lifecycle.Stale}
	res := lifecycle.Result{Outcome: outcomes[c.r.IntN(len(outcomes))], Resources: -1, Permanent: c.r.IntN(4) == 0}
	if res.Outcome == lifecycle.RunFailed && !c.real[ref.ID] {
		res.Resources = 0
	}
	if res.Outcome == lifecycle.Done {
		res.Counts = &lifecycle.Counts{Change: c.r.IntN(2), Remove: c.r.IntN(2)}
		res.Plan, res.Changes = "sha256:"+ref.Nonce, c.r.IntN(3) > 0
		res.Resources = 2
	}
	if ref.Kind == lifecycle.RunDestroy && res.Outcome == lifecycle.Done && c.r.IntN(4) > 0 {
		res.Resources = 0
		c.real[ref.ID] = false
	}
	delete(c.alive, ref.ID)
	c.applied(ref, res)
	c.do(lifecycle.Actor{}, lifecycle.Ended{Ref: ref, Result: res})
}

// applied records the stopped state after a successful apply.
func (c *chaos) applied(ref lifecycle.Ref, res lifecycle.Result) {
	if res.Outcome == lifecycle.Done && ref.Kind == lifecycle.RunApply {
		c.off[ref.ID] = c.d.Records[ref.ID].Run.Off
	}
}

// do applies an event and checks the guarantees.
func (c *chaos) do(a lifecycle.Actor, e lifecycle.Event) {
	c.n++
	var seed [32]byte
	for i := range 8 {
		seed[i] = byte(c.n >> (8 * i))
	}
	before := c.d
	after, effects, _, err := c.m.Step(before, lifecycle.Command{Event: e, Actor: a, Seed: seed}, c.now)
	if err != nil {
		if after != before || len(effects) > 0 {
			c.t.Fatalf("%#v was refused and did something", e)
		}
		return
	}
	if after == before {
		return
	}
	c.d = after
	if v := lifecycle.Check(after); len(v) > 0 {
		c.t.Fatalf("step %d, after %#v: %v", c.n, e, v)
	}
	c.compare(before, after, a, e)
	c.carry(effects, e)
	c.ids = c.ids[:0]
	for id := range after.Records {
		c.ids = append(c.ids, id)
	}
	slices.Sort(c.ids)
}

// compare checks the changes of a step.
func (c *chaos) compare(before, after *lifecycle.Document, a lifecycle.Actor, e lifecycle.Event) {
	for id, r := range after.Records {
		old := before.Records[id]
		if old == r {
			continue
		}
		c.seen[string(r.Phase)]++
		switch {
		case old == nil && c.ever[id]:
			c.t.Fatalf("the id %s comes again", id)
		case old == nil:
			c.ever[id] = true
		case !old.Phase.Live() && old.Phase != r.Phase:
			c.t.Fatalf("%#v: %s was %s and is %s", e, id, old.Phase, r.Phase)
		case !old.Owner.Same(r.Owner):
			c.owner(old, r, a, e)
		}
		c.offer(old, r, a, e)
		if old != nil && old.Run != nil && r.Run != nil && (r.Run.N < old.Run.N || r.Run.N == old.Run.N && r.Run.Attempt < old.Run.Attempt) &&
			r.Workspace == "" { // where a saved plan may be older
			c.t.Fatalf("%#v: %s goes back to run %d, attempt %d", e, id, r.Run.N, r.Run.Attempt)
		}
		if r.Phase == lifecycle.Destroyed && c.real[id] && r.Workspace == "" {
			c.t.Fatalf("%#v: %s is destroyed, and its resources exist", e, id)
		}
		if r.Switch != nil && r.Switch.Stopped != c.off[id] {
			c.t.Fatalf("%#v: %s is said to be stopped: %v", e, id, r.Switch.Stopped)
		}
		if r.Switch != nil && r.Phase == lifecycle.Ready && r.Run == nil && r.Switch.Stopped {
			c.slept++
		}
		c.waits(r)
		c.unapproved(after, r)
	}
	c.limits(after, e)
}

// owner checks that an owner came by claim, transfer, or an offer of a week.
func (c *chaos) owner(old, r *lifecycle.Record, a lifecycle.Actor, e lifecycle.Event) {
	_, create := e.(lifecycle.Create)
	_, transfer := e.(lifecycle.Transfer)
	_, take := e.(lifecycle.Take)
	acts := func(o template.Owner) bool { return o.ID == a.Subject || slices.Contains(a.Groups, o.ID) }
	g := old.Offer
	taken := take && g != nil && g.To.Same(r.Owner) && acts(r.Owner) && r.Offer == nil && (c.d.Clock.Held != "" || c.now.Sub(g.At) < 7*24*time.Hour)
	given := transfer && old.Owner.ID != "" && r.Offer == nil && (a.Admin || acts(old.Owner) && acts(r.Owner))
	if !(create && old.Phase == lifecycle.Available && old.Owner.ID == "") && !given && !taken {
		c.t.Fatalf("%#v: %s, %s, changes from %v to %v", e, r.ID, old.Phase, old.Owner, r.Owner)
	}
}

// offer checks that an offer changes nothing else, and comes only from the owner.
func (c *chaos) offer(old, r *lifecycle.Record, a lifecycle.Actor, e lifecycle.Event) {
	if len(r.Events) > 0 && (old == nil || len(old.Events) == 0 || old.Events[0] != r.Events[0]) {
		if _, counted := c.seen[r.Events[0].Action]; counted && !strings.Contains(r.Events[0].Action, "destroy") {
			c.seen[r.Events[0].Action]++
		}
	}
	if old == nil || r.Offer == nil || r.Offer == old.Offer {
		return
	}
	was, is := *old, *r
	for _, record := range []*lifecycle.Record{&was, &is} {
		record.Offer, record.Events, record.Notices, record.Next = nil, nil, nil, time.Time{}
	}
	if _, ok := e.(lifecycle.Transfer); !ok || a.Admin || old.Owner.ID != a.Subject && !slices.Contains(a.Groups, old.Owner.ID) || mustJSON(c.t, was) != mustJSON(c.t, is) {
		c.t.Fatalf("%#v: offering %s by %v changed %s to %s", e, r.ID, a, mustJSON(c.t, was), mustJSON(c.t, is))
	}
}

// waits checks that each waiting run has a reason.
func (c *chaos) waits(r *lifecycle.Record) {
	if r.Run == nil || !r.Run.StartedAt.IsZero() {
		return
	}
	i := slices.IndexFunc(r.Conditions, func(c lifecycle.Condition) bool { return c.Type == lifecycle.Waiting })
	if i < 0 || r.Conditions[i].Reason == "" {
		c.t.Fatalf("%s waits, and nobody knows for what", r.ID)
	}
}

// unapproved: nothing runs but what exists or was approved.
func (c *chaos) unapproved(d *lifecycle.Document, r *lifecycle.Record) {
	run, t := r.Run, d.Templates[r.Snapshot]
	if run == nil || t == nil || t.Approval != "request" || run.Kind == lifecycle.RunDestroy || run.Confirmed != nil {
		return
	}
	if run.Source.Digest != r.Source.Digest || run.Snapshot != r.Snapshot || run.Parameters != nil && mustJSON(c.t, run.Parameters) != mustJSON(c.t, r.Parameters) {
		c.t.Fatalf("%s runs what nobody approved: %+v", r.ID, run)
	}
}

// limits recounts the instances of each owner and template.
func (c *chaos) limits(d *lifecycle.Document, e lifecycle.Event) {
	owners, templates := map[string]int{}, map[string]int{}
	for _, r := range d.Records {
		idle := r.Phase == lifecycle.Failed || (r.Phase == lifecycle.Destroying || r.Phase == lifecycle.DestroyFailed) && (r.Run == nil || r.Run.Kind == lifecycle.RunDestroy)
		if bare := r.Empty || !r.Applied; bare && idle && r.Owner.ID != "" && r.Pending == nil {
			continue
		}
		if r.Phase.Live() || r.Kept && !r.Removing {
			owners[r.Owner.ID]++
			templates[r.Template]++
		}
	}
	for owner, limit := range map[string]int{"anna": 3, "ben": 4, "team-a": 4, "team-b": 4} {
		if owners[owner] > limit {
			c.t.Fatalf("%#v: %s has %d", e, owner, owners[owner])
		}
	}
	for template, limit := range map[string]int{"sandbox/vpc": 4, "sandbox/pool": 6, "sandbox/pool2": 2} {
		if templates[template] > limit {
			c.t.Fatalf("%#v: there are %d of %s", e, templates[template], template)
		}
	}
}

// carry carries out effects, and checks them against the committed document.
func (c *chaos) carry(effects []lifecycle.Effect, e lifecycle.Event) {
	for _, x := range effects {
		r := c.d.Records[x.Ref.ID]
		switch x.Kind {
		case lifecycle.StartRun:
			if r == nil || r.Run == nil || r.Run.Nonce != x.Ref.Nonce || r.Run.N != x.Ref.N || r.Run.Attempt != x.Ref.Attempt || r.Run.Kind != x.Ref.Kind {
				c.t.Fatalf("%#v starts what nobody committed: %v", e, x.Ref)
			}
			if other, ok := c.alive[x.Ref.ID]; ok {
				c.t.Fatalf("%#v starts %v beside %v", e, x.Ref, other)
			}
			c.alive[x.Ref.ID] = x.Ref
			if x.Ref.Kind == lifecycle.RunApply {
				c.real[x.Ref.ID] = true
			}
		case lifecycle.CancelRun:
			if r == nil || c.alive[x.Ref.ID] != x.Ref {
				c.t.Fatalf("%#v cancels what does not run: %v", e, x.Ref)
			}
			if !r.Phase.Live() {
				delete(c.alive, x.Ref.ID)
			}
		case lifecycle.KillRun:
			if r == nil || c.alive[x.Ref.ID] != x.Ref || r.Run.Cancel == "" {
				c.t.Fatalf("%#v kills what does not run, or was not cancelled: %v", e, x.Ref)
			}
		case lifecycle.Archive, lifecycle.Remove:
			if r == nil || r.Phase.Live() {
				c.t.Fatalf("%#v: %s of what lives", e, x.Kind)
			}
			if c.r.IntN(5) > 0 {
				c.later = append(c.later, map[string]lifecycle.Event{lifecycle.Archive: lifecycle.Archived{ID: r.ID}, lifecycle.Remove: lifecycle.Removed{ID: r.ID}}[x.Kind])
			}
		}
	}
}

// settle lets all come to their end: only orphans remain.
func (c *chaos) settle() {
	c.do(admin, lifecycle.AcceptClock{})
	for _, t := range catalog() {
		c.do(lifecycle.Actor{}, lifecycle.Fill{Name: t.Name})
	}
	for id, r := range c.d.Records {
		if r.Protected == "admin" {
			c.do(admin, lifecycle.Protect{ID: id})
		}
	}
	for range 2000 {
		if len(c.left()) == 0 {
			return
		}
		c.do(lifecycle.Actor{}, lifecycle.Schedule{Concurrency: 8})
		for id, ref := range c.alive {
			delete(c.alive, id)
			c.real[id] = c.real[id] && ref.Kind != lifecycle.RunDestroy
			res := lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:x", Counts: &lifecycle.Counts{}}
			c.applied(ref, res)
			c.do(lifecycle.Actor{}, lifecycle.Ended{Ref: ref, Result: res})
		}
		for _, t := range catalog() {
			c.do(lifecycle.Actor{}, lifecycle.Fill{Name: t.Name})
		}
		pending, next := c.d.PendingIDs(c.now)
		for _, id := range pending {
			c.do(lifecycle.Actor{}, lifecycle.ExpireCheck{ID: id})
		}
		if len(pending) == 0 && len(c.alive) == 0 && next.After(c.now) {
			c.now = next
		}
	}
	for _, r := range c.left() {
		c.t.Errorf("%s is still %s: %s", r.ID, r.Phase, r.Reason)
	}
}

// left returns the live instances that have an end.
func (c *chaos) left() []*lifecycle.Record {
	var left []*lifecycle.Record
	for _, r := range c.d.Records {
		if r.Workspace != "" {
			if r.Run != nil || len(r.Open) > 0 {
				left = append(left, r)
			}
			continue
		}
		if r.Phase.Live() && r.Template != "sandbox/team" && (!r.ExpiresAt.IsZero() || r.Run != nil || r.Phase != lifecycle.Failed) {
			left = append(left, r)
		}
	}
	return left
}
