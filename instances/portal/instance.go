// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/timetable"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/service"
)

// showInstance answers one instance.
func (s *server) showInstance(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	doc := s.whole(r.caller, r.view, r.at)
	if p := doc.Pending; p != nil && p.Was != nil && p.Was.Digest != p.Source.Digest {
		if err := compare(r.Context(), s.o.Catalog, p); err != nil {
			s.kit.Log(r.Request).Warn("versions of a module are not compared", "module", p.Source.Module, "error", err)
		}
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

// destroy ends an instance.
func (s *server) destroy(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return change(s, w, r, "destroy", func(struct{}) (lifecycle.Event, error) { return lifecycle.DestroyNow{ID: r.at.ID}, nil })
}

// document is an instance as somebody sees it in a list who has a role to it: a
// list is for choosing, so without parameters and events.
func document(d *lifecycle.Document, r *lifecycle.Record, have role) api.Instance {
	if have&reads == 0 {
		return offered(r, have)
	}
	doc := api.Instance{
		ID: r.ID, Name: r.Name, Template: r.Template, Role: have.name(), Source: sourceDoc(r.Source), Owner: ownerDoc(r.Owner), CreatedBy: personDoc(r.CreatedBy),
		Phase: string(r.Phase), Reason: r.Reason,
		CreatedAt: r.CreatedAt, ReadyAt: r.ReadyAt, ClaimedAt: r.ClaimedAt, ExpiresAt: r.ExpiresAt, TTL: api.Duration(r.TTL), FinishedAt: r.FinishedAt, Next: r.Next,
		Extends: r.Extends, Protected: r.Protected, Pooled: r.Pooled, Forced: r.Forced, Offer: offerDoc(r.Offer),
	}
	if t := d.Templates[r.Snapshot]; t != nil && t.TTL != nil {
		doc.ExtendsMax = t.TTL.Extends
	}
	if r.Switch != nil {
		stand(&doc, d, r)
	}
	for _, c := range r.Conditions {
		shown := api.Condition{Type: c.Type, Reason: c.Reason}
		if have&readsLogs != 0 {
			shown.Message = c.Message
		}
		doc.Conditions = append(doc.Conditions, shown)
	}
	if r.Run != nil {
		doc.Run = runDoc(r, r.Run, have)
	}
	if have&(owns|approves|administers) != 0 {
		doc.Plan, doc.Pending = lifecycle.Awaits(r), pendingDoc(r)
	}
	if have&(owns|administers) != 0 {
		doc.Outputs, doc.Connection = shownOutputs(d, r), connectionDoc(r.Connection)
	}
	if have&readsLogs == 0 {
		doc.Reason = ""
	}
	return doc
}

// masked are the parameters of an instance, without those that nobody is shown.
func masked(r *lifecycle.Record) map[string]json.RawMessage {
	if len(r.Parameters) == 0 {
		return nil
	}
	shown := make(map[string]json.RawMessage, len(r.Parameters))
	for name, value := range r.Parameters {
		if slices.Contains(r.Sensitive, name) {
			value = hidden()
		}
		shown[name] = value
	}
	return shown
}

// hidden is a value that nobody is shown.
func hidden() json.RawMessage { return json.RawMessage(`"` + api.Masked + `"`) }

func sourceDoc(s template.Source) api.Source {
	return api.Source{Module: cmp.Or(s.Module, s.Chart), Version: s.Version, Digest: s.Digest, Path: s.Path}
}

func ownerDoc(o template.Owner) *api.Owner {
	if o.Kind == "" {
		return nil
	}
	return &api.Owner{Kind: o.Kind, Issuer: o.Issuer, ID: o.ID, Label: o.Label}
}

func personDoc(a lifecycle.Actor) *api.Person {
	if a.Issuer == "" && a.Subject == "" {
		return nil
	}
	return &api.Person{Issuer: a.Issuer, Subject: a.Subject, Label: a.Label}
}

func connectionDoc(c *template.Connection) *api.Connection {
	if c == nil {
		return nil
	}
	return &api.Connection{Type: c.Type, URL: c.URL, Message: c.Message}
}

// eventDoc leaves out the words of the tool for those who may not read logs.
func eventDoc(e lifecycle.History, have role) api.Event {
	doc := api.Event{At: e.At, Actor: e.Actor, Action: e.Action}
	if have&readsLogs != 0 {
		doc.Detail = e.Detail
	}
	return doc
}

// stand says where an instance stands in its schedule.
func stand(doc *api.Instance, d *lifecycle.Document, r *lifecycle.Record) {
	s := r.Switch
	doc.Stopped, doc.StopsAt, doc.StartsAt = s.Stopped, s.StopsAt, s.StartsAt
	t := d.Templates[r.Snapshot]
	if !s.Stopped || s.StartsAt.IsZero() || t == nil || t.Schedule == nil {
		return
	}
	if table, err := t.Schedule.Read(); err == nil { // as the machine read it
		doc.StoppedUntil = table.Words(s.StartsAt, d.Clock.At)
	}
}

// hours are the next times of a schedule in words, on its own clocks; "": there is none.
func hours(s *timetable.Schedule, now time.Time) string {
	if s == nil {
		return ""
	}
	table, err := s.Read()
	if err != nil {
		return ""
	}
	stop, start := table.Next(now)
	var words []string
	if !stop.IsZero() {
		words = append(words, "stops "+table.Words(stop, now))
	}
	if !start.IsZero() {
		words = append(words, "starts "+table.Words(start, now))
	}
	switch {
	case len(words) == 0:
		return "stopped and started by hand"
	case len(words) == 2 && start.Before(stop):
		words[0], words[1] = words[1], words[0]
	}
	return strings.Join(words, ", ") + " (" + s.Timezone + ")"
}
