// SPDX-License-Identifier: Apache-2.0

package web

import (
	"strconv"

	"github.com/seed-141914ff/okara/internal/search"
)

// cut is the part of a list of total rows that a page shows, with the queries of the
// pages before and after it, "" for none.
func cut(r *request, total int) (first, last int, before, after string) {
	return cutBy(r, "page", total)
}

// cutBy is cut for one of several lists of a page, whose number has another name.
func cutBy(r *request, name string, total int) (first, last int, before, after string) {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 1 || n > search.MaxPage {
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
	if last < total && n < search.MaxPage {
		after = other(n + 1)
	}
	return first, last, before, after
}
