// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// launch applies a stored launch request of anna, and returns its record.
func (w *world) launch(id string, t *template.Template, refused string) *lifecycle.Record {
	w.t.Helper()
	w.must(anna, lifecycle.Launch{ID: id, Of: t.Name, Refused: refused, Create: lifecycle.Create{
		Template: t, Digest: digestOf(t), Source: source("1.0.0"), Owner: user(anna), Name: "mine",
	}})
	return w.record(id)
}

func TestLaunch(t *testing.T) {
	two := with(func(t *template.Template) { t.PerOwner = 2 })
	w := newWorld(t)
	for _, id := range []string{"abcdefghjk", "abcdefghjm"} {
		if r := w.launch(id, two, ""); r.Phase != lifecycle.Provisioning || !r.Owner.Same(user(anna)) || r.Name != "mine" || r.Run == nil {
			t.Errorf("%s: %+v", id, r)
		}
	}
	if r := w.launch("abcdefghjn", two, ""); r.Phase != lifecycle.Rejected || !strings.Contains(r.Reason, "2 of 2 instances") {
		t.Errorf("beyond the limit: %+v", r)
	}
	if r := w.launch("abcdefghjp", plain(), "no such template"); r.Phase != lifecycle.Rejected || r.Reason != "no such template" {
		t.Errorf("refused by the store: %+v", r)
	}
	if r := w.launch("abcdefghjq", requested(), ""); r.Phase != lifecycle.Requested {
		t.Errorf("a request: %+v", r)
	}
	w.must(ben, lifecycle.Reject{ID: "abcdefghjq"})
	for _, id := range []string{"abcdefghjk", "abcdefghjq", "x"} {
		if _, _, _, err := (&lifecycle.Machine{}).Step(w.d, lifecycle.Command{Event: lifecycle.Launch{ID: id}}, epoch); err == nil {
			t.Errorf("%s was launched twice", id)
		}
	}
	if r := w.launch("abcdefghjn", with(func(t *template.Template) { t.PerOwner = 4 }), ""); r.Phase != lifecycle.Provisioning || r.Archived {
		t.Errorf("refused before: %+v", r)
	}
}

// TestLaunchMember claims one chosen member.
func TestLaunchMember(t *testing.T) {
	w := newWorld(t)
	limited := with(func(t *template.Template) {
		t.Name, t.PerOwner, t.Pool = "sandbox/pool", 1, &template.PoolSize{Size: 3, WhenEmpty: "refuse"}
	})
	w.fill(limited)
	w.runAll(good)
	members := w.all(lifecycle.Available)
	if r := w.launch(members[1], limited, ""); r.Phase != lifecycle.Ready || r.Run != nil || r.ClaimedAt.IsZero() || r.ExpiresAt.IsZero() {
		t.Errorf("claimed: %+v", r)
	}
	if r := w.launch(members[0], limited, ""); r.Phase != lifecycle.Destroying || !strings.Contains(r.Reason, "1 of 1 instances") || r.Owner.ID != "" {
		t.Errorf("claimed beyond the limit: %+v", r)
	}
	if r := w.launch("abcdefghjk", limited, ""); r.Phase != lifecycle.Rejected {
		t.Errorf("made beside the pool: %+v", r)
	}
	w.fill(limited)
	must.Equal(t, "members are made for those that went", len(w.all(lifecycle.Provisioning)), 2)
}

func sized(text string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"size": json.RawMessage(text)}
}

// approved returns a ready instance of anna whose launch ben approved.
func (w *world) approved(t *template.Template) string {
	w.t.Helper()
	e := creation(anna, t)
	e.Parameters = sized(`"small"`)
	id := w.must(anna, e).Record.ID
	w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(w.record(id))})
	w.run(id, good)
	w.want(id, lifecycle.Ready)
	return id
}

// nothingRuns checks that no attempt is begun, even with time and free concurrency.
func (w *world) nothingRuns(id string) *lifecycle.Record {
	w.t.Helper()
	w.start()
	r := w.record(id)
	if r.Run != nil || r.Pending == nil {
		w.t.Fatalf("it runs %+v, pending %+v", r.Run, r.Pending)
	}
	return r
}

// If launches need approval, so does every other way to a run with other values, another
// version or another template.
//
// Shows: platform 9 | another user approves every new run and every extension, and sees everything
// to be approved | `approval`
func TestApprovalOfEveryRun(t *testing.T) {
	newer, none := source("1.1.0"), with(func(t *template.Template) { t.Name = "sandbox/ask" })
	auto := with(func(t *template.Template) { t.Name, t.Approval, t.Update = "sandbox/ask", "request", "auto" })
	unlocked := source("1.0.0")
	for name, test := range map[string]struct {
		template *template.Template
		actor    lifecycle.Actor
		event    func(id string) lifecycle.Event
	}{
		"values":           {requested(), anna, func(id string) lifecycle.Event { return lifecycle.Update{ID: id, Parameters: sized(`"large"`)} }},
		"version":          {requested(), anna, func(id string) lifecycle.Event { return lifecycle.Update{ID: id, Source: &newer} }},
		"version of admin": {requested(), admin, func(id string) lifecycle.Event { return lifecycle.Update{ID: id, Source: &newer} }},
		"newer providers":  {requested(), anna, func(id string) lifecycle.Event { return lifecycle.Update{ID: id, Source: &unlocked} }},
		"template that asks": {requested(), anna, func(id string) lifecycle.Event {
			return lifecycle.Update{ID: id, Source: &newer, Template: none, Digest: digestOf(none)}
		}},
		"by itself": {auto, lifecycle.Actor{}, func(id string) lifecycle.Event {
			return lifecycle.UpdateCheck{ID: id, Template: auto, Digest: digestOf(auto), Source: newer}
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
			w.refused(test.actor, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(r)}, lifecycle.ErrDenied, "")
			w.refused(anna, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(r)}, lifecycle.ErrDenied, "")
			w.refused(ben, lifecycle.Approve{ID: id, Plan: "request@sha256:0"}, lifecycle.ErrStalePlan, "")
			w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(r)})
			run := w.want(id, lifecycle.Updating).Run
			if u := r.Pending.Update; run.Source != u.Source || run.Snapshot != u.Snapshot || string(run.Parameters["size"]) != string(u.Parameters["size"]) || run.Confirmed.Subject != "ben" || run.By.Subject != test.actor.Subject {
				t.Errorf("approved %+v, runs %+v", u, run)
			}
		})
	}
}

// An approved run may be repeated: with the same values, version and template.
//
// Shows: platform 9
func TestApprovedAgain(t *testing.T) {
	w := newWorld(t)
	id := w.approved(requested())
	w.must(anna, lifecycle.Update{ID: id})
	w.want(id, lifecycle.Updating)
	w.broke(id)
	w.must(anna, lifecycle.Retry{ID: id})
	w.want(id, lifecycle.Updating)
}

// An approval is for one owner: a new one needs another, once.
func TestApprovedForAnotherOwner(t *testing.T) {
	for name, event := range map[string]func(id string) lifecycle.Event{
		"update": func(id string) lifecycle.Event { return lifecycle.Update{ID: id} },
		"retry":  func(id string) lifecycle.Event { return lifecycle.Retry{ID: id} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.approved(requested())
			w.must(anna, lifecycle.Update{ID: id, Parameters: sized(`"large"`)})
			w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(w.record(id))})
			w.broke(id)
			w.must(anna, lifecycle.Transfer{ID: id, To: user(ben)})
			w.must(ben, lifecycle.Take{ID: id})
			if a := w.must(ben, event(id)); a.Status != 202 {
				t.Errorf("status %d", a.Status)
			}
			w.must(anna, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(w.nothingRuns(id))})
			w.want(id, lifecycle.Updating)
			w.broke(id)
			w.must(ben, event(id))
			w.want(id, lifecycle.Updating)
		})
	}
}

// A change that waits for approval is dropped when the instance gets a new owner.
func TestPendingOfOffer(t *testing.T) {
	w := newWorld(t)
	id := w.approved(requested())
	w.must(anna, lifecycle.Update{ID: id, Parameters: sized(`"large"`)})
	w.must(anna, lifecycle.Transfer{ID: id, To: user(ben)})
	plan := lifecycle.Awaits(w.record(id))
	w.must(ben, lifecycle.Take{ID: id})
	r := w.record(id)
	if r.Pending != nil || r.Events[1].Action != "cancelled" || r.Events[1].Detail != "a change that user anna requested" {
		t.Errorf("pending %+v, events %+v", r.Pending, r.Events)
	}
	w.refused(admin, lifecycle.Approve{ID: id, Plan: plan}, lifecycle.ErrPhase, "")
}

// The first owner may run it without a new approval after getting it back.
func TestApprovedForItsFirstOwner(t *testing.T) {
	w := newWorld(t)
	id := w.approved(requested())
	w.must(admin, lifecycle.Transfer{ID: id, To: user(ben)})
	w.must(admin, lifecycle.Transfer{ID: id, To: user(anna)})
	w.must(anna, lifecycle.Update{ID: id})
	w.want(id, lifecycle.Updating)
}

// A failed change is retried without approval; a rejected one is not.
//
// Shows: platform 9
func TestRetryOfRejected(t *testing.T) {
	w := newWorld(t)
	id := w.approved(requested())
	w.must(anna, lifecycle.Update{ID: id, Parameters: sized(`"large"`)})
	w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(w.record(id))})
	w.broke(id)
	w.must(anna, lifecycle.Update{ID: id, Parameters: sized(`"huge"`)})
	w.must(ben, lifecycle.Reject{ID: id, Reason: "no"})
	if r := w.want(id, lifecycle.Failed); r.Pending != nil || r.Reason != "no such image" {
		t.Errorf("%+v %s", r.Pending, r.Reason)
	}
	w.must(anna, lifecycle.Retry{ID: id})
	must.Equal(t, "runs", string(w.want(id, lifecycle.Updating).Run.Parameters["size"]), `"large"`)
}

// A failed run that was never approved is not retried without.
func TestRetryOfUnapproved(t *testing.T) {
	w := newWorld(t)
	id := w.approved(requested())
	w.must(anna, lifecycle.Update{ID: id, Parameters: sized(`"large"`)})
	w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(w.record(id))})
	w.broke(id)
	r := *w.record(id)
	r.Runs = slices.Clone(r.Runs)
	r.Runs[0].Confirmed = nil
	w.d.Records[id] = &r
	if a := w.must(anna, lifecycle.Retry{ID: id}); a.Status != 202 {
		t.Errorf("status %d", a.Status)
	}
	w.nothingRuns(id)
}

// The first requester of values may not approve them when another person retries them.
//
// Shows: platform 9
func TestFirstWhoAsked(t *testing.T) {
	w := newWorld(t)
	team := with(func(t *template.Template) { t.Approval, t.Owner = "plan", "group" })
	e := creation(anna, team)
	e.Owner = template.Owner{Kind: template.OwnerGroup, Issuer: anna.Issuer, ID: "team-a"}
	id := w.must(anna, e).Record.ID
	w.broke(id)
	w.must(ben, lifecycle.Retry{ID: id})
	w.run(id, plan("sha256:p1", lifecycle.Counts{Add: 1}))
	for _, a := range []lifecycle.Actor{anna, ben} {
		w.refused(a, lifecycle.Approve{ID: id, Plan: "sha256:p1"}, lifecycle.ErrDenied, "it must be approved by someone other than the requester")
	}
	w.must(admin, lifecycle.Approve{ID: id, Plan: "sha256:p1"})
}

// An extension beyond the template's lifetime waits for approval; one within it does not.
// Owners may not protect instead.
//
// Shows: platform 9
func TestApprovalOfExtensions(t *testing.T) {
	w := newWorld(t)
	e := creation(anna, requested())
	e.TTL = 6 * time.Hour
	id := w.must(anna, e).Record.ID
	w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(w.record(id))})
	w.run(id, good)
	w.must(anna, lifecycle.Extend{ID: id})
	end := w.record(id).ExpiresAt
	if !end.Equal(w.now.Add(8 * time.Hour)) {
		t.Fatalf("ends at %s", end)
	}
	for _, a := range []lifecycle.Actor{anna, admin} {
		if answer := w.must(a, lifecycle.Extend{ID: id, By: time.Hour, Why: "a demo"}); answer.Status != 202 {
			t.Errorf("status %d", answer.Status)
		}
		r := w.nothingRuns(id)
		if !r.ExpiresAt.Equal(end) || !r.Pending.Until.Equal(end.Add(time.Hour)) || r.Pending.Why != "a demo" || r.Extends != 1 {
			t.Errorf("ends at %s, pending %+v", r.ExpiresAt, r.Pending)
		}
		w.refused(a, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(r)}, lifecycle.ErrDenied, "")
		w.refused(a, lifecycle.Extend{ID: id}, lifecycle.ErrPhase, "an extension of instance "+id+" is waiting for approval")
		w.must(a, lifecycle.Cancel{ID: id})
	}
	w.refused(anna, lifecycle.Protect{ID: id, On: true}, lifecycle.ErrDenied, "the template allows only an admin to protect an instance")
	w.must(anna, lifecycle.Extend{ID: id})
	w.must(ben, lifecycle.Approve{ID: id, Plan: lifecycle.Awaits(w.record(id))})
	if r := w.want(id, lifecycle.Ready); !r.ExpiresAt.Equal(end.Add(2*time.Hour)) || r.Extends != 2 || r.Pending != nil {
		t.Errorf("ends at %s, %+v", r.ExpiresAt, r.Pending)
	}
	w.must(anna, lifecycle.Extend{ID: id}) // it ends even though the extension waits
	w.advance(10 * time.Hour)
	w.serve(lifecycle.ExpireCheck{ID: id})
	if r := w.want(id, lifecycle.Destroying); r.Pending != nil {
		t.Errorf("pending %+v", r.Pending)
	}
}

// A pending change is decided, withdrawn, or dropped after a week. Until then it cannot
// be replaced, so that what is approved is what the approver saw.
//
// Shows: platform 9
func TestPendingChange(t *testing.T) {
	w := newWorld(t)
	id := w.approved(with(func(t *template.Template) {
		t.Name, t.Approval, t.TTL = "sandbox/ask", "request", nil
	}))
	w.must(anna, lifecycle.Update{ID: id, Parameters: sized(`"large"`)})
	first := lifecycle.Awaits(w.record(id))
	w.refused(anna, lifecycle.Update{ID: id, Parameters: sized(`"huge"`)}, lifecycle.ErrPhase, "a change of instance "+id+" is waiting for approval: have it approved or rejected, or cancel it first")
	w.must(anna, lifecycle.Cancel{ID: id})
	w.must(anna, lifecycle.Update{ID: id, Parameters: sized(`"large"`)})
	w.refused(ben, lifecycle.Approve{ID: id, Plan: first}, lifecycle.ErrStalePlan, "")
	if _, next := w.d.PendingIDs(w.now); !next.Equal(w.now.Add(7 * 24 * time.Hour)) {
		t.Errorf("due at %s", next)
	}
	w.advance(7 * 24 * time.Hour)
	w.serve(lifecycle.ExpireCheck{ID: id})
	if r := w.want(id, lifecycle.Ready); r.Pending != nil || r.Reason != "not approved in time" {
		t.Errorf("%+v %s", r.Pending, r.Reason)
	}
}

// The server does not repeat an automatic update that was rejected. A person's request
// replaces a pending automatic one.
//
// Shows: platform 9
func TestDeclined(t *testing.T) {
	w := newWorld(t)
	auto := with(func(t *template.Template) { t.Name, t.Approval, t.Update = "sandbox/ask", "request", "auto" })
	id := w.approved(auto)
	offer := lifecycle.UpdateCheck{ID: id, Template: auto, Digest: digestOf(auto), Source: source("1.1.0")}
	w.serve(offer)
	w.must(anna, lifecycle.Update{ID: id, Parameters: sized(`"large"`)})
	if r := w.nothingRuns(id); r.Pending.By.Subject != "anna" {
		t.Errorf("pending %+v", r.Pending)
	}
	w.must(anna, lifecycle.Cancel{ID: id})
	w.serve(offer)
	w.must(ben, lifecycle.Reject{ID: id, Reason: "not now"})
	w.serve(offer)
	if r := w.want(id, lifecycle.Ready); r.Pending != nil || r.Run != nil {
		t.Errorf("it asks again: %+v", r.Pending)
	}
	offer.Source = source("1.2.0")
	w.serve(offer)
	w.nothingRuns(id)
}

// A plan that cannot be shown completely is not approved.
//
// Shows: platform 9
func TestPlanTooLarge(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, planned())
	res := plan("sha256:p1", lifecycle.Counts{Add: 2})
	res.PlanSize = 1363149
	w.run(id, res)
	if r := w.want(id, lifecycle.Failed); r.Reason != "plan too large to approve: 1.3 MiB, limit 1 MiB" {
		t.Errorf("failed: %s", r.Reason)
	}
	auto := with(func(t *template.Template) { t.Update = "auto" }) // the plan is not reviewed
	id = w.create(anna, auto)
	w.run(id, good)
	w.serve(lifecycle.UpdateCheck{ID: id, Template: auto, Digest: digestOf(auto), Source: source("1.1.0")})
	res.Counts = &lifecycle.Counts{Add: 1}
	w.run(id, res)
	w.want(id, lifecycle.Updating)
}

// The digest that an approval names covers all that is shown, and reveals no hidden
// value.
//
// Shows: platform 9
func TestRequestPlanBinds(t *testing.T) {
	w := newWorld(t)
	e := creation(anna, requested())
	e.Parameters, e.Sensitive = sized(`"1234"`), []string{"size"}
	id := w.must(anna, e).Record.ID
	seen := map[string]string{lifecycle.Awaits(w.record(id)): "it"}
	for name, change := range map[string]func(r *lifecycle.Record){
		"values":   func(r *lifecycle.Record) { r.Parameters = sized(`"1235"`) },
		"version":  func(r *lifecycle.Record) { r.Source.Digest = "sha256:other" },
		"template": func(r *lifecycle.Record) { r.Snapshot = "sha256:other" },
		"owner":    func(r *lifecycle.Record) { r.Owner.ID = "ben" },
		"issuer":   func(r *lifecycle.Record) { r.Owner.Issuer = "https://other" },
		"lifetime": func(r *lifecycle.Record) { r.TTL++ },
		"claims":   func(r *lifecycle.Record) { r.Claims = map[string]string{"mail": "x"} },
		"salt":     func(r *lifecycle.Record) { p := *r.Pending; p.Salt = "0"; r.Pending = &p },
	} {
		r := *w.record(id)
		change(&r)
		plan := lifecycle.Awaits(&r)
		if other, ok := seen[plan]; ok || !strings.HasPrefix(plan, "request@sha256:") {
			t.Errorf("%s: %s is that of %s", name, plan, other)
		}
		seen[plan] = name
	}
	if w.record(id).Pending.Salt == "" {
		t.Error("without a salt, who sees the digest finds the value of a few digits")
	}
}
