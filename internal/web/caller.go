// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
)

// callers are the things here whose newest version calls a module.
type callers struct {
	Rows      []resultRow
	Pages     pages
	Templates []link // by which instances of it are launched
	Reading   bool   // the catalog has not been read yet
}

// callersOf finds those that the caller of the page may read, by kind and address.
// It asks the search index, which has the module blocks of each root directory.
func (s *server) callersOf(r *request, m addr.Module) callers {
	c := callers{Templates: s.templatesOf(r, m)}
	v, complete, err := s.o.Finder.View(r.Context(), r.grant.RightsKey(), r.grant.MayRead)
	if err != nil {
		c.Reading = true // the rest of the page is known
		return c
	}
	c.Reading = !complete
	source := s.host(r) + "/" + m.String()
	var all []*catalog.Entry
	for e := range v.All {
		if calls(e, source) {
			all = append(all, e)
		}
	}
	all, c.Pages = onePage(r, "callers", all)
	for _, e := range all {
		c.Rows = append(c.Rows, s.rowOf(e))
	}
	return c
}

// calls reports whether something calls a module, or a directory of it.
func calls(e *catalog.Entry, source string) bool {
	return slices.ContainsFunc(e.Calls, func(call string) bool {
		address, _, _ := strings.Cut(call, "//")
		return address == source
	})
}

// maxAsked bounds the lists of templates that one page asks for.
const maxAsked = 10

// templatesOf are the templates of a module, of those that the caller may see, as this
// replica knows them.
func (s *server) templatesOf(r *request, m addr.Module) []link {
	if s.o.Mine == nil || !s.launches(r) {
		return nil
	}
	var all []link
	q := url.Values{}
	for range maxAsked {
		doc, err := ask[api.Templates](s, r, asked{method: http.MethodGet, path: "templates", query: q, mine: true})
		if err != nil {
			return all // their own page says why
		}
		for _, t := range doc.Templates {
			if t.Module == m.String() && len(all) < rowsPerPage {
				all = append(all, link{titleOf(t), "templates/" + escapePath(t.Name)})
			}
		}
		if doc.Next == "" {
			break
		}
		q.Set("after", doc.Next)
	}
	return all
}
