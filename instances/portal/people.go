// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"slices"
	"strings"
	"sync"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

// people are the callers that this server has seen since it started, by their keys. With those
// that the ledger names they are whom an owner can give an instance to.
type people struct {
	mu   sync.Mutex // guards seen
	seen map[string]person
}

type person struct {
	template.Owner
	names  []string // by which others know the person: the name, and a verified address
	groups []string
}

// maxPeople bounds what is remembered; more are known by the ledger only.
const maxPeople = 20_000

func (p *people) noteCaller(c caller) {
	if c.isAnonymous() {
		return
	}
	// Anybody can name themselves after another's address at many issuers: only a verified one counts.
	names := []string{c.actor.Label, c.grant.Claims["preferred_username"]}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, "@") })
	if c.grant.Claims["email_verified"] == "true" {
		names = append(names, c.grant.Claims["email"])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[string]person{}
	}
	if had, ok := p.seen[c.key]; ok || len(p.seen) < maxPeople {
		if len(names) < len(had.names) { // a session of the pages keeps fewer claims than a token has
			names = had.names
		}
		p.seen[c.key] = person{c.owner(), names, c.actor.Groups}
	}
}

// findOwners returns the people and groups of an issuer that KIND:ID or a name means.
func (p *people) findOwners(d *lifecycle.Document, issuer, to string) (all []template.Owner) {
	add := func(o template.Owner, names ...string) {
		means := ownerText(o) == to || o.ID == to || to != "" && slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, to) })
		if means && o.ID != "" && o.Issuer == issuer && !slices.ContainsFunc(all, o.Same) {
			all = append(all, o)
		}
	}
	p.mu.Lock()
	for _, one := range p.seen {
		add(one.Owner, one.names...)
		for _, group := range one.groups {
			add(template.Owner{Kind: template.OwnerGroup, Issuer: one.Issuer, ID: group, Label: group})
		}
	}
	p.mu.Unlock()
	for _, r := range d.Records {
		by := r.CreatedBy
		add(r.Owner, r.Owner.Label)
		add(template.Owner{Kind: template.OwnerUser, Issuer: by.Issuer, ID: by.Subject, Label: by.Label}, by.Label)
	}
	return all
}
