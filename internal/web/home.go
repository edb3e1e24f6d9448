// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/search"
)

// newestShown is how many publications the first page names.
const newestShown = 8

// home says what is here.
type homeBody struct {
	Groups    []group     // of everything that may be read, by kind
	Newest    []resultRow // publications
	Empty     bool
	Reading   bool // the catalog has not been read yet
	Anonymous bool // the caller brought no token
	Host      string
}

// group is a namespace, or a host of mirrored providers, with how much is in it.
type group struct {
	Kind, Title string
	Rows        []groupRow
	Total       int
}

type groupRow struct {
	link
	Count int
}

func (s *server) home(r *request) (*page, error) {
	v, complete, err := s.view(r)
	if err != nil {
		return nil, err
	}
	body := homeBody{Groups: groups(v), Empty: v.Len() == 0, Reading: !complete, Anonymous: r.grant.Mode == "anonymous", Host: s.host(r)}
	for _, e := range newest(v) {
		body.Newest = append(body.Newest, s.rowOf(e))
	}
	return &page{Template: "home.html", Title: "Catalog", Command: "okara list", Body: body}, nil
}

// newest are the last publications.
func newest(v *search.View) []*search.Entry {
	var top []*search.Entry
	for e := range v.All {
		if e.Time.IsZero() || len(top) == newestShown && !e.Time.After(top[newestShown-1].Time) {
			continue
		}
		i, _ := slices.BinarySearchFunc(top, e, func(a, b *search.Entry) int { return cmp.Or(b.Time.Compare(a.Time), -1) })
		top = slices.Insert(top, i, e)
		top = top[:min(len(top), newestShown)]
	}
	return top
}

// groups counts entries by namespace.
func groups(v *search.View) []group {
	kinds := []group{
		{Kind: addr.KindModule, Title: "Modules"}, {Kind: addr.KindProvider, Title: "Providers"},
		{Kind: addr.KindMirror, Title: "Mirrored providers"}, {Kind: addr.KindTemplate, Title: "Templates"},
	}
	counts := map[[2]string]int{}
	for e := range v.All {
		counts[[2]string{e.Kind, e.Namespace()}]++
	}
	for i := range kinds {
		g := &kinds[i]
		for of, n := range counts {
			if of[0] != g.Kind {
				continue
			}
			g.Total += n
			g.Rows = append(g.Rows, groupRow{link{of[1], namespaceHref(g.Kind, of[1])}, n})
		}
		slices.SortFunc(g.Rows, func(a, b groupRow) int { return cmp.Compare(a.Text, b.Text) })
	}
	return slices.DeleteFunc(kinds, func(g group) bool { return g.Total == 0 })
}
