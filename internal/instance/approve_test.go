// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
)

func sized(text string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"size": json.RawMessage(text)}
}

// approved is a ready instance of anna whose launch ben let through.
func (w *world) approved(t *instance.Template) string {
	w.t.Helper()
	e := creation(anna, t)
	e.Parameters = sized(`"small"`)
	id := w.must(anna, e).Record.ID
	w.must(ben, instance.Approve{ID: id, Plan: instance.Awaits(w.record(id))})
	w.run(id, good)
	w.want(id, instance.Ready)
	return id
}

// nothingRuns wants that no attempt is begun, whatever time and places there are.
func (w *world) nothingRuns(id string) *instance.Record {
	w.t.Helper()
	w.start()
	r := w.record(id)
	if r.Run != nil || r.Pending == nil {
		w.t.Fatalf("it runs %+v, pending %+v", r.Run, r.Pending)
	}
	return r
}

// Where launches are approved, every way to another run of other values, another version or
// another template waits as well.
func TestApprovalOfEveryRun(t *testing.T) {
	newer, none := source("1.1.0"), with(func(t *instance.Template) { t.Name = "sandbox/ask" })
	auto := with(func(t *instance.Template) { t.Name, t.Approval, t.Update = "sandbox/ask", "request", "auto" })
	unlocked := source("1.0.0")
	for name, test := range map[string]struct {
		template *instance.Template
		actor    instance.Actor
		event    func(id string) instance.Event
	}{
		"values":           {requested(), anna, func(id string) instance.Event { return instance.Update{ID: id, Parameters: sized(`"large"`)} }},
		"version":          {requested(), anna, func(id string) instance.Event { return instance.Update{ID: id, Source: &newer} }},
		"version of admin": {requested(), admin, func(id string) instance.Event { return instance.Update{ID: id, Source: &newer} }},
		"newer providers":  {requested(), anna, func(id string) instance.Event { return instance.Update{ID: id, Source: &unlocked} }},
		"template that asks": {requested(), anna, func(id string) instance.Event {
			return instance.Update{ID: id, Source: &newer, Template: none, Digest: digestOf(none)}
		}},
		"by itself": {auto, instance.Actor{}, func(id string) instance.Event {
			return instance.Offer{ID: id, Template: auto, Digest: digestOf(auto), Source: newer}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.approved(test.template)
			before := *w.record(id)
			before.Source.Lock = "sha256:lock"
			w.d.Records[id] = &before
			w.must(test.actor, test.event(id))
			r := w.nothingRuns(id)
			w.refused(test.actor, instance.Approve{ID: id, Plan: instance.Awaits(r)}, instance.ErrDenied, "")
			w.refused(anna, instance.Approve{ID: id, Plan: instance.Awaits(r)}, instance.ErrDenied, "")
			w.refused(ben, instance.Approve{ID: id, Plan: "request@sha256:0"}, instance.ErrStalePlan, "")
			w.must(ben, instance.Approve{ID: id, Plan: instance.Awaits(r)})
			run := w.want(id, instance.Updating).Run
			if u := r.Pending.Update; run.Source != u.Source || run.Snapshot != u.Snapshot || string(run.Parameters["size"]) != string(u.Parameters["size"]) || run.Confirmed.Subject != "ben" || run.By.Subject != test.actor.Subject {
				t.Errorf("approved %+v, runs %+v", u, run)
			}
		})
	}
}

// What was approved once may be done again: the same values, version and template.
func TestApprovedAgain(t *testing.T) {
	w := newWorld(t)
	id := w.approved(requested())
	w.must(anna, instance.Update{ID: id})
	w.want(id, instance.Updating)
	w.broke(id)
	w.must(anna, instance.Retry{ID: id})
	w.want(id, instance.Updating)
}

// A change that failed is tried again without asking; one that was rejected is not.
func TestRetryOfRejected(t *testing.T) {
	w := newWorld(t)
	id := w.approved(requested())
	w.must(anna, instance.Update{ID: id, Parameters: sized(`"large"`)})
	w.must(ben, instance.Approve{ID: id, Plan: instance.Awaits(w.record(id))})
	w.broke(id)
	w.must(anna, instance.Update{ID: id, Parameters: sized(`"huge"`)})
	w.must(ben, instance.Reject{ID: id, Reason: "no"})
	if r := w.want(id, instance.Failed); r.Pending != nil || r.Reason != "no such image" {
		t.Errorf("%+v %s", r.Pending, r.Reason)
	}
	w.must(anna, instance.Retry{ID: id})
	if got := string(w.want(id, instance.Updating).Run.Parameters["size"]); got != `"large"` {
		t.Errorf("runs %s", got)
	}
}

// What failed and nobody had approved, as a server from before left it, is not tried again
// without that.
func TestRetryOfUnapproved(t *testing.T) {
	w := newWorld(t)
	id := w.approved(requested())
	w.must(anna, instance.Update{ID: id, Parameters: sized(`"large"`)})
	w.must(ben, instance.Approve{ID: id, Plan: instance.Awaits(w.record(id))})
	w.broke(id)
	r := *w.record(id)
	r.Runs = slices.Clone(r.Runs)
	r.Runs[0].Confirmed = nil
	w.d.Records[id] = &r
	if a := w.must(anna, instance.Retry{ID: id}); a.Status != 202 {
		t.Errorf("status %d", a.Status)
	}
	w.nothingRuns(id)
}

// Who asked for values approves them no more when somebody else tries them again.
func TestFirstWhoAsked(t *testing.T) {
	w := newWorld(t)
	team := with(func(t *instance.Template) { t.Approval, t.Owner = "plan", "group" })
	e := creation(anna, team)
	e.Owner = instance.Owner{Kind: instance.OwnerGroup, Issuer: anna.Issuer, ID: "team-a"}
	id := w.must(anna, e).Record.ID
	w.broke(id)
	w.must(ben, instance.Retry{ID: id})
	w.run(id, plan("sha256:p1", instance.Counts{Add: 1}))
	for _, a := range []instance.Actor{anna, ben} {
		w.refused(a, instance.Approve{ID: id, Plan: "sha256:p1"}, instance.ErrDenied, "somebody else than who asked for it approves it")
	}
	w.must(admin, instance.Approve{ID: id, Plan: "sha256:p1"})
}

// An extension beyond the lifetime of the template waits; one within it does not. An owner
// does not protect instead.
func TestApprovalOfExtensions(t *testing.T) {
	w := newWorld(t)
	e := creation(anna, requested())
	e.TTL = 6 * time.Hour
	id := w.must(anna, e).Record.ID
	w.must(ben, instance.Approve{ID: id, Plan: instance.Awaits(w.record(id))})
	w.run(id, good)
	w.must(anna, instance.Extend{ID: id})
	end := w.record(id).ExpiresAt
	if !end.Equal(w.now.Add(8 * time.Hour)) {
		t.Fatalf("ends at %s", end)
	}
	for _, a := range []instance.Actor{anna, admin} {
		if answer := w.must(a, instance.Extend{ID: id, By: time.Hour, Why: "a demo"}); answer.Status != 202 {
			t.Errorf("status %d", answer.Status)
		}
		r := w.nothingRuns(id)
		if !r.ExpiresAt.Equal(end) || !r.Pending.Until.Equal(end.Add(time.Hour)) || r.Pending.Why != "a demo" || r.Extends != 1 {
			t.Errorf("ends at %s, pending %+v", r.ExpiresAt, r.Pending)
		}
		w.refused(a, instance.Approve{ID: id, Plan: instance.Awaits(r)}, instance.ErrDenied, "")
		w.refused(a, instance.Extend{ID: id}, instance.ErrPhase, "an extension of instance "+id+" waits for approval")
		w.must(a, instance.Cancel{ID: id})
	}
	w.refused(anna, instance.Protect{ID: id, On: true}, instance.ErrDenied, "the template lets only an admin protect an instance")
	w.must(anna, instance.Extend{ID: id})
	w.must(ben, instance.Approve{ID: id, Plan: instance.Awaits(w.record(id))})
	if r := w.want(id, instance.Ready); !r.ExpiresAt.Equal(end.Add(2*time.Hour)) || r.Extends != 2 || r.Pending != nil {
		t.Errorf("ends at %s, %+v", r.ExpiresAt, r.Pending)
	}
	w.must(anna, instance.Extend{ID: id}) // it ends all the same while it waits
	w.pass(10 * time.Hour)
	w.serve(instance.Tick{ID: id})
	if r := w.want(id, instance.Destroying); r.Pending != nil {
		t.Errorf("pending %+v", r.Pending)
	}
}

// A change that waits is decided, withdrawn, or forgotten after a week. Until then nobody
// puts another one in its place, so that what is approved is what was looked at.
func TestPendingChange(t *testing.T) {
	w := newWorld(t)
	id := w.approved(with(func(t *instance.Template) {
		t.Name, t.Approval, t.TTL = "sandbox/ask", "request", nil
	}))
	w.must(anna, instance.Update{ID: id, Parameters: sized(`"large"`)})
	first := instance.Awaits(w.record(id))
	w.refused(anna, instance.Update{ID: id, Parameters: sized(`"huge"`)}, instance.ErrPhase, "a change of instance "+id+" waits for approval: let that be decided, or cancel it first")
	w.must(anna, instance.Cancel{ID: id})
	w.must(anna, instance.Update{ID: id, Parameters: sized(`"large"`)})
	w.refused(ben, instance.Approve{ID: id, Plan: first}, instance.ErrStalePlan, "")
	if _, next := w.d.Due(w.now); !next.Equal(w.now.Add(7 * 24 * time.Hour)) {
		t.Errorf("due at %s", next)
	}
	w.pass(7 * 24 * time.Hour)
	w.serve(instance.Tick{ID: id})
	if r := w.want(id, instance.Ready); r.Pending != nil || r.Reason != "nobody approved it in time" {
		t.Errorf("%+v %s", r.Pending, r.Reason)
	}
}

// What the server wants by itself and somebody rejected, it does not ask for again; a
// person's wish takes its place before.
func TestDeclined(t *testing.T) {
	w := newWorld(t)
	auto := with(func(t *instance.Template) { t.Name, t.Approval, t.Update = "sandbox/ask", "request", "auto" })
	id := w.approved(auto)
	offer := instance.Offer{ID: id, Template: auto, Digest: digestOf(auto), Source: source("1.1.0")}
	w.serve(offer)
	w.must(anna, instance.Update{ID: id, Parameters: sized(`"large"`)})
	if r := w.nothingRuns(id); r.Pending.By.Subject != "anna" {
		t.Errorf("pending %+v", r.Pending)
	}
	w.must(anna, instance.Cancel{ID: id})
	w.serve(offer)
	w.must(ben, instance.Reject{ID: id, Reason: "not now"})
	w.serve(offer)
	if r := w.want(id, instance.Ready); r.Pending != nil || r.Run != nil {
		t.Errorf("it asks again: %+v", r.Pending)
	}
	offer.Source = source("1.2.0")
	w.serve(offer)
	w.nothingRuns(id)
}

// A plan of which nobody can see the whole is not approved.
func TestPlanTooLarge(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, planned())
	res := plan("sha256:p1", instance.Counts{Add: 2})
	res.PlanSize = 1363149
	w.run(id, res)
	if r := w.want(id, instance.Failed); r.Reason != "plan too large to approve: 1.3 MiB, limit 1 MiB" {
		t.Errorf("failed: %s", r.Reason)
	}
	auto := with(func(t *instance.Template) { t.Update = "auto" }) // nobody looks at it
	id = w.create(anna, auto)
	w.run(id, good)
	w.serve(instance.Offer{ID: id, Template: auto, Digest: digestOf(auto), Source: source("1.1.0")})
	res.Counts = &instance.Counts{Add: 1}
	w.run(id, res)
	w.want(id, instance.Updating)
}

// What an approval names binds all that is shown, and gives no value away that is not.
func TestRequestPlanBinds(t *testing.T) {
	w := newWorld(t)
	e := creation(anna, requested())
	e.Parameters, e.Sensitive = sized(`"1234"`), []string{"size"}
	id := w.must(anna, e).Record.ID
	seen := map[string]string{instance.Awaits(w.record(id)): "it"}
	for name, change := range map[string]func(r *instance.Record){
		"values":   func(r *instance.Record) { r.Parameters = sized(`"1235"`) },
		"version":  func(r *instance.Record) { r.Source.Digest = "sha256:other" },
		"template": func(r *instance.Record) { r.Snapshot = "sha256:other" },
		"owner":    func(r *instance.Record) { r.Owner.ID = "ben" },
		"issuer":   func(r *instance.Record) { r.Owner.Issuer = "https://other" },
		"lifetime": func(r *instance.Record) { r.TTL++ },
		"claims":   func(r *instance.Record) { r.Claims = map[string]string{"mail": "x"} },
		"salt":     func(r *instance.Record) { p := *r.Pending; p.Salt = "0"; r.Pending = &p },
	} {
		r := *w.record(id)
		change(&r)
		plan := instance.Awaits(&r)
		if other, ok := seen[plan]; ok || !strings.HasPrefix(plan, "request@sha256:") {
			t.Errorf("%s: %s is that of %s", name, plan, other)
		}
		seen[plan] = name
	}
	if w.record(id).Pending.Salt == "" {
		t.Error("without a salt, who sees the digest finds the value of a few digits")
	}
}
