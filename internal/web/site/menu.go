// SPDX-License-Identifier: Apache-2.0

package site

import "strings"

// Entry is an entry of the menu.
type Entry struct {
	Link
	Count string // number of items behind it, "" for none
	Here  bool   // the current page; set by Menu
}

// Menu returns the entries that the caller of a page may open.
func (r *Request) Menu() []Entry {
	var all []Entry
	path := strings.TrimPrefix(r.URL.Path, "/ui/")
	for _, set := range r.site.o.Sets {
		if set.Menu == nil {
			continue
		}
		for _, e := range set.Menu(r) {
			e.Here = path == e.Href
			all = append(all, e)
		}
	}
	return all
}
