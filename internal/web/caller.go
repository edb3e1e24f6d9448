// SPDX-License-Identifier: Apache-2.0

package web

import (
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/search"
)

// callers are the things here whose newest version calls a module.
type callers struct {
	Rows    []resultRow
	Total   int
	Reading bool // the catalog has not been read yet
}

// callersOf finds those that the caller of the page may read, by kind and address.
// It asks the search index, which has the module blocks of each root directory.
func (s *server) callersOf(r *request, m addr.Module) callers {
	v, complete, err := s.o.Finder.View(r.Context(), r.grant.RightsKey(), r.grant.MayRead)
	if err != nil {
		return callers{Reading: true} // the rest of the page is known
	}
	c := callers{Reading: !complete}
	source := s.host(r) + "/" + m.String()
	for e := range v.All {
		if !calls(e, source) {
			continue
		}
		if c.Total++; len(c.Rows) < rowsPerPage {
			c.Rows = append(c.Rows, s.rowOf(e))
		}
	}
	return c
}

// calls reports whether something calls a module, or a directory of it.
func calls(e *search.Entry, source string) bool {
	return slices.ContainsFunc(e.Calls, func(call string) bool {
		address, _, _ := strings.Cut(call, "//")
		return address == source
	})
}
