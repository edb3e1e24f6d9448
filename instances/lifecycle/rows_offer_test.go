// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

// offered returns an instance of anna that she offers to ben.
func (w *world) offered(p lifecycle.Phase) string {
	w.t.Helper()
	id := w.reach(p)
	if a := w.must(anna, lifecycle.Transfer{ID: id, To: user(ben)}); a.Status != 202 {
		w.t.Errorf("an offer is answered with %d", a.Status)
	}
	return id
}

const noOffer = " is not offered to anyone now"

// rowsOfOffer covers offers.
func rowsOfOffer() map[string]func(*world) {
	carla := lifecycle.Actor{Issuer: "https://id", Subject: "carla", Groups: []string{"team-b"}}
	return map[string]func(*world){
		"24 take": func(w *world) {
			id := w.reach(lifecycle.Ready)
			before := *w.record(id)
			w.must(anna, lifecycle.Transfer{ID: id, To: user(ben)})
			r := w.record(id)
			if !r.Owner.Same(user(anna)) || !r.ExpiresAt.Equal(before.ExpiresAt) || !r.Offer.To.Same(user(ben)) || r.Offer.By.Subject != "anna" || !r.Offer.Until().Equal(w.now.Add(7*24*time.Hour)) {
				w.t.Errorf("offered: %+v %+v", r, r.Offer)
			}
			if e := r.Events[0]; e.Action != "offered" || e.Actor != "Anna" || e.Detail != "user ben" || w.effects[0].Notice.Kind != "offered" {
				w.t.Errorf("%+v %v", e, w.effects)
			}
			w.refused(anna, lifecycle.Take{ID: id}, lifecycle.ErrDenied, "")
			w.refused(carla, lifecycle.Take{ID: id}, lifecycle.ErrDenied, "instance "+id+" is offered to another owner")
			w.refused(admin, lifecycle.Take{ID: id}, lifecycle.ErrDenied, "")
			w.refused(lifecycle.Actor{Issuer: "https://other", Subject: "ben"}, lifecycle.Take{ID: id}, lifecycle.ErrDenied, "")
			w.refused(carla, lifecycle.Take{ID: id, No: true}, lifecycle.ErrDenied, "")
			w.must(ben, lifecycle.Take{ID: id})
			r = w.want(id, lifecycle.Ready)
			if !r.Owner.Same(user(ben)) || r.Owner.Label != "Ben" || r.Offer != nil || !r.ExpiresAt.Equal(before.ExpiresAt) || r.Source != before.Source {
				w.t.Errorf("taken: %+v", r)
			}
			if e := r.Events[0]; e.Action != "taken" || e.Actor != "Ben" || e.Detail != "user ben" || w.effects[0].Notice.Kind != "taken" {
				w.t.Errorf("%+v %v", e, w.effects)
			}
			w.refused(ben, lifecycle.Take{ID: id}, lifecycle.ErrPhase, "instance "+id+noOffer)
		},
		"24 decline": func(w *world) {
			id := w.offered(lifecycle.Failed)
			w.must(ben, lifecycle.Take{ID: id, No: true})
			if r := w.record(id); !r.Owner.Same(user(anna)) || r.Offer != nil || r.Events[0].Action != "declined" {
				w.t.Errorf("%+v", r)
			}
			w.refused(ben, lifecycle.Take{ID: id}, lifecycle.ErrPhase, "instance "+id+noOffer)
		},
		"24 withdraw": func(w *world) {
			id := w.offered(lifecycle.Ready)
			w.m.Limits.Quotas = []lifecycle.Quota{{User: 1}}
			w.must(admin, lifecycle.Create{Template: plain(), Digest: digestOf(plain()), Source: source("1.0.0"), Owner: user(anna), Forced: true}) // beyond her limit
			w.must(anna, lifecycle.Transfer{ID: id, To: user(anna)})
			if r := w.record(id); r.Offer != nil || r.Events[0].Action != "offer withdrawn" {
				w.t.Errorf("%+v", r)
			}
			w.refused(ben, lifecycle.Take{ID: id}, lifecycle.ErrPhase, "instance "+id+noOffer)
		},
		"24 a week": func(w *world) {
			id := w.create(anna, with(func(t *template.Template) { t.TTL = nil }))
			w.run(id, good)
			w.must(anna, lifecycle.Transfer{ID: id, To: user(ben)})
			if next := w.record(id).Next; !next.Equal(w.now.Add(7 * 24 * time.Hour)) {
				w.t.Errorf("next is %v", next)
			}
			w.advance(7*24*time.Hour - time.Second)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.advance(time.Second)
			w.refused(ben, lifecycle.Take{ID: id}, lifecycle.ErrPhase, "instance "+id+noOffer) // although no expire check ran
			w.serve(lifecycle.ClockHeld{Reason: "clocks"})
			w.serve(lifecycle.ExpireCheck{ID: id})
			if w.record(id).Offer == nil {
				w.t.Fatal("it ended by a clock that nobody believes")
			}
			w.must(admin, lifecycle.AcceptClock{})
			w.serve(lifecycle.ExpireCheck{ID: id})
			if e := w.record(id).Events[0]; w.record(id).Offer != nil || e.Action != "offer ended" || e.Actor != "" {
				w.t.Errorf("%+v", e)
			}
		},
		"24 held clock": func(w *world) {
			id := w.offered(lifecycle.DestroyFailed)
			w.serve(lifecycle.ClockHeld{Reason: "clocks"})
			w.advance(8 * 24 * time.Hour)
			w.must(ben, lifecycle.Take{ID: id})
		},
		"24 quota": func(w *world) {
			id := w.offered(lifecycle.Ready)
			w.m.Limits.Quotas = []lifecycle.Quota{{User: 1}}
			other := w.create(ben, plain())
			_, err := w.try(ben, lifecycle.Take{ID: id})
			if q, ok := errors.AsType[*lifecycle.QuotaError](err); !ok || q.Limit != 1 || q.What != "you" {
				w.t.Errorf("got %v", err)
			}
			w.must(ben, lifecycle.DestroyNow{ID: other})
			w.must(ben, lifecycle.Take{ID: id})
		},
		"24 another offer, and another owner": func(w *world) {
			id := w.offered(lifecycle.Ready)
			w.must(anna, lifecycle.Transfer{ID: id, To: user(carla)})
			w.refused(ben, lifecycle.Take{ID: id}, lifecycle.ErrDenied, "")
			if a := w.must(admin, lifecycle.Transfer{ID: id, To: user(ben)}); a.Status != 200 || !a.Record.Owner.Same(user(ben)) {
				w.t.Errorf("an admin's transfer: %d %+v", a.Status, a.Record.Owner)
			}
			w.refused(carla, lifecycle.Take{ID: id}, lifecycle.ErrPhase, "instance "+id+noOffer)
		},
		"24 a group": func(w *world) {
			team := with(func(t *template.Template) { t.Owner, t.Groups = "group", []string{"team-*"} })
			group := func(id string) template.Owner {
				return template.Owner{Kind: "group", Issuer: "https://id", ID: id}
			}
			e := creation(anna, team)
			e.Owner = group("team-a")
			id := w.must(anna, e).Record.ID
			w.refused(anna, lifecycle.Transfer{ID: id, To: group("friends")}, template.ErrInvalid, "/to: the template does not allow this owner")
			w.refused(anna, lifecycle.Transfer{ID: id, To: template.Owner{Kind: "group", Issuer: "https://other", ID: "team-b"}}, lifecycle.ErrDenied, "")
			w.must(anna, lifecycle.Transfer{ID: id, To: group("team-b")})
			w.refused(anna, lifecycle.Take{ID: id}, lifecycle.ErrDenied, "")
			w.must(carla, lifecycle.Take{ID: id})
			if o := w.record(id).Owner; !o.Same(group("team-b")) {
				w.t.Errorf("%+v", o)
			}
			w.must(ben, lifecycle.Transfer{ID: id, To: group("team-a")}) // he is in both
		},
		"24 its template changed": func(w *world) {
			id := w.offered(lifecycle.Ready)
			team, newer := with(func(t *template.Template) { t.Owner = "group" }), source("2.0.0")
			w.must(anna, lifecycle.Update{ID: id, Source: &newer, Template: team, Digest: digestOf(team)})
			w.run(id, good)
			w.refused(ben, lifecycle.Take{ID: id}, lifecycle.ErrDenied, "")
			w.must(ben, lifecycle.Take{ID: id, No: true})
		},
		"24 its end": func(w *world) {
			id := w.offered(lifecycle.Ready)
			w.advance(9 * time.Hour)
			w.refused(ben, lifecycle.Take{ID: id}, lifecycle.ErrPhase, "instance "+id+" has expired and cannot be taken")
			w.serve(lifecycle.ExpireCheck{ID: id})
			if w.want(id, lifecycle.Destroying).Offer != nil {
				w.t.Error("what is destroyed is offered")
			}
			other := w.offered(lifecycle.Ready)
			w.must(admin, lifecycle.Orphan{ID: other, Reason: "mine now"})
			if w.want(other, lifecycle.Orphaned).Offer != nil {
				w.t.Error("what is left to people is offered")
			}
		},
	}
}

// TestOfferOfPool refuses to offer an instance without an owner.
func TestOfferOfPool(t *testing.T) {
	w := newWorld(t)
	w.fill(pooled())
	for id := range w.d.Records {
		w.refused(anna, lifecycle.Transfer{ID: id, To: user(ben)}, lifecycle.ErrPhase, "")
	}
}
