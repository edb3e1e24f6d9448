// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"github.com/seed-141914ff/okara/internal/instance"
	"github.com/seed-141914ff/okara/internal/portaldoc"
)

// action is a verb of an instance.
type action struct {
	name  string
	needs role // one of these
	event func(r *instance.Record) instance.Event
}

// actions are all verbs, in the order in which they are offered.
func actions() []action {
	return []action{
		{portaldoc.ActApprove, approves, func(r *instance.Record) instance.Event { return instance.Approve{ID: r.ID, Plan: instance.Awaits(r)} }},
		{portaldoc.ActReject, approves, func(r *instance.Record) instance.Event { return instance.Reject{ID: r.ID, Reason: "-"} }},
		{portaldoc.ActExtend, owns | administers, func(r *instance.Record) instance.Event { return instance.Extend{ID: r.ID} }},
		{portaldoc.ActRetry, owns | administers, func(r *instance.Record) instance.Event { return instance.Retry{ID: r.ID} }},
		{portaldoc.ActCancel, owns | administers, func(r *instance.Record) instance.Event { return instance.Cancel{ID: r.ID} }},
		{portaldoc.ActUpdate, owns | administers, func(r *instance.Record) instance.Event { return instance.Update{ID: r.ID} }},
		{portaldoc.ActRename, owns | administers, func(r *instance.Record) instance.Event { return instance.Rename{ID: r.ID, Name: r.Name} }},
		{portaldoc.ActProtect, owns | administers, func(r *instance.Record) instance.Event { return instance.Protect{ID: r.ID, On: true} }},
		{portaldoc.ActUnprotect, owns | administers, func(r *instance.Record) instance.Event { return instance.Protect{ID: r.ID} }},
		{portaldoc.ActTransfer, owns | administers, func(r *instance.Record) instance.Event { return instance.Transfer{ID: r.ID, To: r.Owner} }},
		{portaldoc.ActDestroy, owns | administers, func(r *instance.Record) instance.Event { return instance.DestroyNow{ID: r.ID} }},
		{portaldoc.ActOrphan, administers, func(r *instance.Record) instance.Event { return instance.Orphan{ID: r.ID, Reason: "-"} }},
	}
}

// possible names what the caller may ask for now. The machine is asked itself, on
// a document that nobody keeps, so that no list beside it can be wrong.
func (s *server) possible(c caller, v instance.View, r *instance.Record, have role) []string {
	actor := c.actor
	actor.Admin = have&administers != 0
	var names []string
	for _, a := range actions() {
		if have&a.needs == 0 || a.name == portaldoc.ActProtect && r.Protected != "" || a.name == portaldoc.ActUnprotect && r.Protected == "" {
			continue
		}
		if _, _, _, err := s.o.Machine.Step(v.Document, instance.Command{Event: a.event(r), Actor: actor}, v.AsOf); err == nil {
			names = append(names, a.name)
		}
	}
	return names
}

// whole is one instance as the caller sees it, with what a list leaves out:
// parameters and events, what may be done with it, its place in the queue, what it
// costs.
func (s *server) whole(c caller, v instance.View, r *instance.Record) portaldoc.Instance {
	have := c.role(v.Document, r)
	doc := document(v.Document, r, have)
	for _, e := range r.Events {
		doc.Events = append(doc.Events, eventDoc(e, have))
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
			doc.ExtendBy = portaldoc.Duration(t.TTL.Extend)
		}
	}
	return doc
}

func costDoc(c *instance.Cost) *portaldoc.Cost {
	if c == nil {
		return nil
	}
	return &portaldoc.Cost{Hourly: c.Hourly, Currency: c.Currency}
}
