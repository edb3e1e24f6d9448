// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/seed-141914ff/okara/internal/instance"
	"github.com/seed-141914ff/okara/internal/portaldoc"
	"github.com/seed-141914ff/okara/internal/service"
)

// showInstance answers one instance.
func (s *server) showInstance(w http.ResponseWriter, r call[*instance.Record]) error {
	return service.WriteJSON(w, http.StatusOK, s.whole(r.caller, r.view, r.at))
}

// destroy ends an instance.
func (s *server) destroy(w http.ResponseWriter, r call[*instance.Record]) error {
	return change(s, w, r, "destroy", func(struct{}) (instance.Event, error) { return instance.DestroyNow{ID: r.at.ID}, nil })
}

// document is an instance as somebody sees it in a list who has a role to it: a
// list is for choosing, so without parameters and events.
func document(d *instance.Document, r *instance.Record, have role) portaldoc.Instance {
	doc := portaldoc.Instance{
		ID: r.ID, Name: r.Name, Template: r.Template, Role: have.name(), Source: sourceDoc(r.Source), Owner: ownerDoc(r.Owner), CreatedBy: personDoc(r.CreatedBy),
		Phase: string(r.Phase), Reason: r.Reason,
		CreatedAt: r.CreatedAt, ReadyAt: r.ReadyAt, ClaimedAt: r.ClaimedAt, ExpiresAt: r.ExpiresAt, FinishedAt: r.FinishedAt, Next: r.Next,
		Extends: r.Extends, Protected: r.Protected, Pooled: r.Pooled, Forced: r.Forced,
	}
	if t := d.Templates[r.Snapshot]; t != nil && t.TTL != nil {
		doc.ExtendsMax = t.TTL.Extends
	}
	for _, c := range r.Conditions {
		shown := portaldoc.Condition{Type: c.Type, Reason: c.Reason}
		if have&readsLogs != 0 {
			shown.Message = c.Message
		}
		doc.Conditions = append(doc.Conditions, shown)
	}
	if r.Run != nil {
		doc.Run = runDoc(r, r.Run, have)
	}
	if have&(owns|approves|administers) != 0 {
		doc.Plan, doc.Pending = instance.Awaits(r), pendingDoc(r)
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
func masked(r *instance.Record) map[string]json.RawMessage {
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
func hidden() json.RawMessage { return json.RawMessage(`"` + portaldoc.Masked + `"`) }

func sourceDoc(s instance.Source) portaldoc.Source {
	return portaldoc.Source{Module: cmp.Or(s.Module, s.Chart), Version: s.Version, Digest: s.Digest, Path: s.Path}
}

func ownerDoc(o instance.Owner) *portaldoc.Owner {
	if o.Kind == "" {
		return nil
	}
	return &portaldoc.Owner{Kind: o.Kind, Issuer: o.Issuer, ID: o.ID, Label: o.Label}
}

func personDoc(a instance.Actor) *portaldoc.Person {
	if a.Issuer == "" && a.Subject == "" {
		return nil
	}
	return &portaldoc.Person{Issuer: a.Issuer, Subject: a.Subject, Label: a.Label}
}

func connectionDoc(c *instance.Connection) *portaldoc.Connection {
	if c == nil {
		return nil
	}
	return &portaldoc.Connection{Type: c.Type, URL: c.URL, Message: c.Message}
}

// eventDoc leaves out the words of the tool for those who may not read logs.
func eventDoc(e instance.History, have role) portaldoc.Event {
	doc := portaldoc.Event{At: e.At, Actor: e.Actor, Action: e.Action}
	if have&readsLogs != 0 {
		doc.Detail = e.Detail
	}
	return doc
}
