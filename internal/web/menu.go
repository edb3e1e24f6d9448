// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
)

// entry is an entry of the menu.
type entry struct {
	link
	show  func(*server, *request) bool
	Here  bool
	Count string // of what is behind it, "" for nothing
}

// entries are what a menu may have, in its order.
func entries() []entry {
	return []entry{
		{link: link{"Catalog", ""}, show: func(s *server, _ *request) bool { return !s.o.Off.Catalog }},
		{link: link{"States", "states"}, show: (*server).showsStates},
		{link: link{"Launch", "templates"}, show: (*server).launches},
		{link: link{"Instances", "instances"}, show: (*server).launches},
		{link: link{"Approvals", "approvals"}, show: (*server).approves},
		{link: link{"Depot", "depot"}, show: (*server).depots},
		{link: link{"Doctor", "doctor"}, show: (*server).doctors},
		{link: link{"Audit", "audit"}, show: (*server).audits},
	}
}

// menu is what the caller of a page may open.
func (s *server) menu(r *request) []entry {
	var all []entry
	path := strings.TrimPrefix(r.URL.Path, "/ui/")
	for _, e := range entries() {
		if !e.show(s, r) {
			continue
		}
		e.Here = path == e.Href
		if e.Href == "instances" {
			e.Count = s.quota(r)
		}
		all = append(all, e)
	}
	return all
}

// launches reports whether there are pages of instances for the caller.
func (s *server) launches(r *request) bool {
	return !s.o.Off.Instances && s.o.Instances != nil && (r.mayInstances(access.Use) || r.mayInstances(access.Read) ||
		r.grant.May(access.Right{Action: access.Read, Kind: addr.KindTemplate, Address: access.Somewhere}))
}

func (s *server) approves(r *request) bool {
	return !s.o.Off.Instances && s.o.Instances != nil && r.mayInstances(access.Approve)
}

// mayInstances reports whether the caller has a right to instances of some template.
func (r *request) mayInstances(action access.Action) bool {
	return r.grant.May(access.Right{Action: action, Kind: addr.KindInstance, Address: access.Somewhere})
}

// quota is how many instances the caller has, and how many he may have; "": nobody
// counts.
func (s *server) quota(r *request) string {
	if s.o.Mine == nil || !r.mayInstances(access.Use) {
		return ""
	}
	me, err := ask[api.Me](s, r, asked{method: "GET", path: "me", mine: true})
	switch {
	case err != nil || me.Quota == nil:
		return "" // the page says what it can without
	case me.Quota.Limit > 0:
		return fmt.Sprintf("%d of %d", me.Quota.Used, me.Quota.Limit)
	case me.Quota.Used > 0:
		return fmt.Sprint(me.Quota.Used)
	}
	return ""
}

// showsStates reports whether there are pages of states for the caller.
func (s *server) showsStates(r *request) bool {
	return !s.o.Off.States && s.o.States != nil && r.grant.May(anyState())
}
