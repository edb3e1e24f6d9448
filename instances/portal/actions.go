// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

// action is a verb of an instance.
type action struct {
	name  string
	needs role // one of these
	event func(r *lifecycle.Record) lifecycle.Event
}

// actions are all verbs, in the order in which they are offered.
func actions() []action {
	return []action{
		{api.ActTake, receives, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Take{ID: r.ID} }},
		{api.ActDecline, receives, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Take{ID: r.ID, No: true} }},
		{api.ActApprove, approves, func(r *lifecycle.Record) lifecycle.Event {
			return lifecycle.Approve{ID: r.ID, Plan: lifecycle.Awaits(r)}
		}},
		{api.ActReject, approves, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Reject{ID: r.ID, Reason: "-"} }},
		{api.ActExtend, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Extend{ID: r.ID} }},
		{api.ActRetry, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Retry{ID: r.ID} }},
		{api.ActCancel, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Cancel{ID: r.ID} }},
		{api.ActUpdate, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Update{ID: r.ID} }},
		{api.ActStop, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Switch{ID: r.ID, Stop: true} }},
		{api.ActStart, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Switch{ID: r.ID} }},
		{api.ActRename, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Rename{ID: r.ID, Name: r.Name} }},
		{api.ActProtect, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Protect{ID: r.ID, On: true} }},
		{api.ActUnprotect, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Protect{ID: r.ID} }},
		{api.ActTransfer, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Transfer{ID: r.ID, To: r.Owner} }},
		{api.ActDestroy, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.DestroyNow{ID: r.ID} }},
		{api.ActOrphan, administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Orphan{ID: r.ID, Reason: "-"} }},
	}
}

// possible names what the caller may ask for now. The machine is asked itself, on
// a document that nobody keeps, so that no list beside it can be wrong.
func (s *server) possible(c caller, v lifecycle.View, r *lifecycle.Record, have role) []string {
	var names []string
	for _, a := range actions() {
		if have&a.needs == 0 || a.name == api.ActProtect && r.Protected != "" || a.name == api.ActUnprotect && r.Protected == "" {
			continue
		}
		changes, err := s.try(c, v, have, a.event(r))
		if err == nil && (changes || a.name != api.ActStop && a.name != api.ActStart) { // what is stopped is not stopped again
			names = append(names, a.name)
		}
	}
	return names
}

// try is why the machine would refuse an event of the caller now, nil if it would not, and
// whether the event would change anything.
func (s *server) try(c caller, v lifecycle.View, have role, e lifecycle.Event) (changes bool, err error) {
	actor := c.actor
	actor.Admin = have&administers != 0
	after, _, _, err := s.o.Machine.Step(v.Document, lifecycle.Command{Event: e, Actor: actor}, v.AsOf)
	return after != v.Document, err
}

// whole is one instance as the caller sees it, with what a list leaves out:
// parameters and events, what may be done with it, its place in the queue, what it
// costs.
func (s *server) whole(c caller, v lifecycle.View, r *lifecycle.Record) api.Instance {
	have := c.role(v.Document, r)
	doc := document(v.Document, r, have)
	for _, e := range r.Events {
		if tells(r, e, have) {
			doc.Events = append(doc.Events, eventDoc(e, have))
		}
	}
	if have&receives != 0 {
		if _, err := s.try(c, v, have, lifecycle.Take{ID: r.ID}); err != nil {
			doc.Offer.Refused = err.Error()
		}
	}
	if have&(owns|approves|administers) != 0 {
		doc.Parameters = masked(r)
		if doc.Pending != nil {
			fill(doc.Pending, r)
		}
	}
	doc.Actions = s.possible(c, v, r, have)
	if doc.Run != nil {
		doc.Run.Place = v.Document.Place(r.ID)
	}
	if t := v.Document.Templates[r.Snapshot]; t != nil {
		doc.Cost = costDoc(t.Cost)
		if t.TTL != nil {
			doc.ExtendBy = api.Duration(t.TTL.Extend)
		}
	}
	return doc
}

func costDoc(c *template.Cost) *api.Cost {
	if c == nil {
		return nil
	}
	return &api.Cost{Hourly: c.Hourly, Currency: c.Currency}
}
