// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// ownBody is the part of the first page that is about instances.
type ownBody struct {
	Awaiting   []approvalRow // the newest
	Approvals  int
	Launchable []templateCard // the first that the caller may launch
	Templates  int
	Rows       []instanceRow // the newest live ones of the caller and the caller's groups
	Total      int
	Offered    []offeredRow // the first
}

// ownShown is the maximum length of each list on the first page.
const ownShown = 6

// firstPage renders the part of the first page that is about instances.
type firstPage struct {
	api   *backend
	clock site.Clock
}

// show uses only what this replica knows, so that the first page does not wait for a leader.
// Refused parts are left out; their own pages give the reason.
func (s *firstPage) show(r *site.Request) (template.HTML, error) {
	if s.api.mine == nil || !admitted(r) {
		return "", nil
	}
	var b ownBody
	if mayInstances(r, rights.Approve) {
		doc, _ := known[api.Instances](s.api, r, "instances", url.Values{"phase": {"approvable"}})
		b.Approvals = doc.Count
		for _, i := range doc.Instances {
			b.Awaiting = append(b.Awaiting, approvalRowOf(i, s.clock))
		}
	}
	if mayInstances(r, rights.Use) {
		doc, _ := known[api.Templates](s.api, r, "templates", url.Values{"use": {"yes"}})
		b.Templates = doc.Count
		for _, t := range doc.Templates {
			b.Launchable = append(b.Launchable, cardOf(t))
		}
	}
	offers, _ := known[api.Instances](s.api, r, "instances", url.Values{"owner": {"offered"}})
	b.Offered = offeredRows(offers, s.clock())
	doc, _ := known[api.Instances](s.api, r, "instances", url.Values{"owner": {"mine"}, "phase": {"live"}})
	b.Total = doc.Count
	for _, i := range doc.Instances {
		b.Rows = append(b.Rows, instanceRowOf(i, s.clock()))
	}
	return r.Part("instances.html", "own", site.Under{Up: site.Up(r.URL.Path), Of: b})
}

// known reads the beginning of a list, as this replica knows it.
func known[T any](s *backend, r *site.Request, path string, q url.Values) (T, error) {
	q.Set("limit", strconv.Itoa(ownShown))
	return ask[T](s, r, asked{method: http.MethodGet, path: path, query: q, mine: true})
}

// related returns the templates of a module that the caller may see, as this replica knows
// them, and the page that launches one.
func (s *templates) related(r *site.Request, m addr.Module) site.Related {
	var all site.Related
	if s.api.mine == nil || !admitted(r) {
		return all
	}
	q := url.Values{"module": {m.String()}, "limit": {strconv.Itoa(site.RowsPerPage)}}
	doc, err := ask[api.Templates](s.api, r, asked{method: http.MethodGet, path: "templates", query: q, mine: true})
	if err != nil {
		return all // their own page gives the reason
	}
	for _, t := range doc.Templates {
		card := cardOf(t)
		all.Templates = append(all.Templates, card.Link)
		switch {
		case card.Launch == "":
		case all.Launch == "":
			all.Launch = card.Launch
		default:
			all.Launch = "templates?use=yes&module=" + url.QueryEscape(m.String())
		}
	}
	return all
}
