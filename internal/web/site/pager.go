// SPDX-License-Identifier: Apache-2.0

package site

import "strconv"

// RowsPerPage bounds all lists.
const RowsPerPage = 100

// maxPage bounds the number of a page in a query.
const maxPage = 100

// Pages divides a list into pages.
type Pages struct {
	First, Last, Total int    // shown are the rows from First to Last, Last excluded
	Before, After      string // queries of the previous and the next page, "" for none
}

// From returns the number of the first row that is shown, from 1.
func (p Pages) From() int { return p.First + 1 }

// PagesOf returns the pages of a list of total rows; name is the query parameter with the
// page number. A page has RowsPerPage rows, or as many as rows says.
func PagesOf(r *Request, name string, total int, rows ...int) Pages {
	size := RowsPerPage
	if len(rows) > 0 {
		size = rows[0]
	}
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 1 || n > maxPage {
		n = 1
	}
	n = min(n, max(1, (total+size-1)/size))
	other := func(n int) string {
		q := r.URL.Query()
		q.Set(name, strconv.Itoa(n))
		return "?" + q.Encode()
	}
	p := Pages{First: min((n-1)*size, total), Total: total}
	p.Last = min(p.First+size, total)
	if n > 1 {
		p.Before = other(n - 1)
	}
	if p.Last < total && n < maxPage {
		p.After = other(n + 1)
	}
	return p
}

// OnePage returns the rows of the current page of a list.
func OnePage[T any](r *Request, name string, all []T) ([]T, Pages) {
	p := PagesOf(r, name, len(all))
	return all[p.First:p.Last], p
}

// Between returns the parts of two concatenated lists from first to last.
func Between[T any](a, b []T, first, last int) ([]T, []T) {
	n := len(a)
	return a[min(first, n):min(last, n)], b[max(first-n, 0):max(last-n, 0)]
}
