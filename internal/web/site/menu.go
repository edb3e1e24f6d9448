// SPDX-License-Identifier: Apache-2.0

package site

import "strings"

// Entry is an entry of the menu.
type Entry struct {
	Link
	Count string // of what is behind it, "" for nothing
	Here  bool   // set by the menu
}

// Menu is what the caller of a page may open.
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
