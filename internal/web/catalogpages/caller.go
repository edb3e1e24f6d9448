// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// callers are the items whose newest version calls a module.
type callers struct {
	Rows    []resultRow
	Pages   site.Pages
	Reading bool // the catalog has not been read yet
}

// callerSearch finds the callers of a module.
type callerSearch struct {
	searches *searches
	beside   site.Set
	hosts    site.Hosts
}

// relatedLinks returns the links that another set of pages has for a module.
func (s callerSearch) relatedLinks(r *site.Request, m addr.Module) site.Related {
	if s.beside.Related == nil {
		return site.Related{}
	}
	return s.beside.Related(r, m)
}

// callersOf returns the callers of m that the caller of the page may read, by kind and address.
// It uses the search index, which has the module blocks of each root directory.
func (s callerSearch) callersOf(r *site.Request, m addr.Module) callers {
	var c callers
	v, complete, err := s.searches.finder.View(r.Context(), r.Grant.RightsKey(), r.Grant.MayRead)
	if err != nil {
		c.Reading = true // the rest of the page is shown
		return c
	}
	c.Reading = !complete
	source := s.hosts.Of(r) + "/" + m.String()
	var all []*search.Entry
	for e := range v.All {
		if callsModule(e, source) {
			all = append(all, e)
		}
	}
	all, c.Pages = site.OnePage(r, "callers", all)
	for _, e := range all {
		c.Rows = append(c.Rows, s.searches.rowOf(e))
	}
	return c
}

func callsModule(e *search.Entry, source string) bool {
	return slices.ContainsFunc(e.Calls, func(call string) bool {
		address, _, _ := strings.Cut(call, "//")
		return address == source
	})
}
