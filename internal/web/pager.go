// SPDX-License-Identifier: Apache-2.0

package web

import (
	"strconv"

	"github.com/seed-141914ff/okara/internal/catalog"
)

// rowsPerPage bounds lists but those of searches.
const rowsPerPage = 100

// pages are the way through a list that is cut.
type pages struct {
	First, Last, Total int    // the rows that are shown are those from First on and before Last
	Before, After      string // queries of the pages beside, "" for none
}

// From is the number of the first row that is shown, from 1.
func (p pages) From() int { return p.First + 1 }

// pagesOf are those of a list of total rows, by the query that has their number.
func pagesOf(r *request, name string, total int) pages {
	first, last, before, after := cutBy(r, name, total)
	return pages{first, last, total, before, after}
}

// onePage cuts the rows of a page out of a list.
func onePage[T any](r *request, name string, all []T) ([]T, pages) {
	p := pagesOf(r, name, len(all))
	return all[p.First:p.Last], p
}

// between is what first and last cut out of two lists, one after the other.
func between[T any](a, b []T, first, last int) ([]T, []T) {
	n := len(a)
	return a[min(first, n):min(last, n)], b[max(first-n, 0):max(last-n, 0)]
}

// cut is the part of a list of total rows that a page shows, with the queries of the
// pages before and after it, "" for none.
func cut(r *request, total int) (first, last int, before, after string) {
	return cutBy(r, "page", total)
}

// cutBy is cut for one of several lists of a page, whose number has another name.
func cutBy(r *request, name string, total int) (first, last int, before, after string) {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 1 || n > catalog.MaxPage {
		n = 1
	}
	other := func(n int) string {
		q := r.URL.Query()
		q.Set(name, strconv.Itoa(n))
		return "?" + q.Encode()
	}
	first = min((n-1)*rowsPerPage, total)
	last = min(first+rowsPerPage, total)
	if n > 1 {
		before = other(n - 1)
	}
	if last < total && n < catalog.MaxPage {
		after = other(n + 1)
	}
	return first, last, before, after
}
