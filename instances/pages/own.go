// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// ownBody are the instances of the caller that live.
type ownBody struct {
	Rows  []instanceRow // the newest
	Total int
}

// ownShown is how many of them the first page names.
const ownShown = 8

// home is their section of the first page. It asks for what this replica knows: the rest
// of the page waits for nobody.
func (s *instances) home(r *site.Request) (template.HTML, error) {
	if s.api.mine == nil || !admitted(r) {
		return "", nil
	}
	q := url.Values{"owner": {"mine"}, "phase": {"live"}, "limit": {strconv.Itoa(ownShown)}}
	doc, err := ask[api.Instances](s.api, r, asked{method: http.MethodGet, path: "instances", query: q, mine: true})
	if err != nil {
		return "", nil //nolint:nilerr // their own page says why
	}
	b := ownBody{Total: doc.Count}
	for _, i := range doc.Instances {
		b.Rows = append(b.Rows, instanceRowOf(i, s.clock()))
	}
	return r.Part("instances.html", "own", site.Under{Up: site.Up(r.URL.Path), Of: b})
}

// maxAsked bounds the lists of templates that one page asks for.
const maxAsked = 10

// related are the templates of a module, of those that the caller may see, as this
// replica knows them.
func (s *templates) related(r *site.Request, m addr.Module) []site.Link {
	if s.api.mine == nil || !admitted(r) {
		return nil
	}
	var all []site.Link
	q := url.Values{}
	for range maxAsked {
		doc, err := ask[api.Templates](s.api, r, asked{method: http.MethodGet, path: "templates", query: q, mine: true})
		if err != nil {
			return all // their own page says why
		}
		for _, t := range doc.Templates {
			if t.Module == m.String() && len(all) < site.RowsPerPage {
				all = append(all, site.Link{Text: titleOf(t), Href: "templates/" + site.EscapePath(t.Name)})
			}
		}
		if doc.Next == "" {
			break
		}
		q.Set("after", doc.Next)
	}
	return all
}
