// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"net/http"
	"strings"
	"unicode"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

// transfer gives an instance to another owner: an owner between himself and those
// of his groups that the template admits, an admin to anybody. To others of his issuer
// an owner offers it.
func (s verbs) transfer(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return change(s.server, w, r, "transfer", func(b api.Transfer) (lifecycle.Event, error) {
		to, err := s.recipient(r, b)
		return lifecycle.Transfer{ID: r.at.ID, To: to}, err
	})
}

// take and decline are what somebody says to an offer. Its owner comes here as well: who
// took it may repeat that, and any other is refused.
func (s verbs) take(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return change(s.server, w, r, "take", func(none) (lifecycle.Event, error) { return lifecycle.Take{ID: r.at.ID}, nil })
}

func (s verbs) decline(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return change(s.server, w, r, "decline", func(none) (lifecycle.Event, error) { return lifecycle.Take{ID: r.at.ID, No: true}, nil })
}

func (s verbs) recipient(r call[*lifecycle.Record], b api.Transfer) (template.Owner, error) {
	own := []template.Owner{r.owner()}
	if t := r.view.Document.Templates[r.at.Snapshot]; t != nil && r.stale == nil {
		own = append(own, r.groups(t)...)
	}
	for _, o := range own {
		if ownerText(o) == b.To && (b.Issuer == "" || b.Issuer == o.Issuer) {
			return o, nil
		}
	}
	kind, id, _ := strings.Cut(b.To, ":")
	to := template.Owner{Kind: kind, Issuer: b.Issuer, ID: id, Label: b.Label}
	if to.Issuer == "" {
		to.Issuer = r.actor.Issuer
	}
	if to.Label == "" || !r.actor.Admin {
		to.Label = id
	}
	switch {
	case kind != template.OwnerUser && kind != template.OwnerGroup || id == "" || strings.ContainsFunc(id+to.Label, unicode.IsControl):
		return to, field("/to", "want user:SUBJECT or group:NAME")
	case to.Issuer != r.actor.Issuer && !r.actor.Admin:
		return to, field("/issuer", "only an admin gives it to somebody of another issuer")
	}
	return to, nil
}

func offerDoc(g *lifecycle.Gift) *api.Offer {
	if g == nil {
		return nil
	}
	return &api.Offer{To: ownerDoc(g.To), By: personDoc(g.By), At: g.At, Until: g.Until()}
}

// offered is an instance as somebody sees it who was offered it and is nothing else to
// it: enough to decide by, and nothing of what it was given, of what it made, or of what
// happened to it.
func offered(r *lifecycle.Record, have role) api.Instance {
	return api.Instance{
		ID: r.ID, Name: r.Name, Template: r.Template, Role: have.name(), Source: api.Source{Module: r.Source.Module, Version: r.Source.Version},
		Owner: ownerDoc(r.Owner), Phase: string(r.Phase), CreatedAt: r.CreatedAt, ReadyAt: r.ReadyAt, ClaimedAt: r.ClaimedAt, ExpiresAt: r.ExpiresAt,
		TTL: api.Duration(r.TTL), Extends: r.Extends, Offer: offerDoc(r.Offer),
	}
}
