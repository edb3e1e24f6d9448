// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"cmp"
	"html/template"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// maxShown bounds the newest and the most downloaded items on the first page.
const maxShown = 6

// homeBody is the first page.
type homeBody struct {
	Groups    template.HTML // counts by kind, of items that the caller may read
	Newest    []resultRow   // newest publications
	Used      []resultRow   // most downloaded items
	Own       template.HTML // section of another set of pages
	Empty     bool
	Reading   *readingBody // the catalog is being read; nil: it has been read
	Anonymous bool         // the caller sent no token
	Host      string
}

// group has the namespaces of a kind, or the hosts of mirrored providers, with counts.
type group struct {
	Kind, Title string
	Rows        []groupRow
	Total       int
}

type groupRow struct {
	site.Link
	Count int
}

// homes has the first page.
type homes struct {
	searches *searches
	beside   site.Set
	hosts    site.Hosts
}

func (h *homes) show(r *site.Request) (*site.Page, error) {
	v, complete, err := h.searches.view(r)
	if err != nil {
		return nil, err
	}
	o, err := h.overview(r, v)
	if err != nil {
		return nil, err
	}
	body := homeBody{Groups: o.groups, Empty: v.Len() == 0, Reading: h.searches.readingProgress(r, complete), Anonymous: r.Grant.Mode == "anonymous", Host: h.hosts.Of(r)}
	if h.beside.Home != nil {
		if body.Own, err = h.beside.Home(r); err != nil {
			return nil, err
		}
	}
	for _, e := range o.newest {
		body.Newest = append(body.Newest, h.searches.rowOf(e))
	}
	for _, e := range o.used {
		body.Used = append(body.Used, h.searches.rowOf(e))
	}
	return &site.Page{Template: "home.html", Title: "Catalog", Command: "okara list", OwnSearch: true, Body: body}, nil
}

// overview is the part of the first page that depends only on the caller's view.
type overview struct {
	groups       template.HTML
	newest, used []*search.Entry
}

// overview returns the overview of a view, and makes it only once: there may be hundreds
// of namespaces. A view belongs to a set of rights and lives half a minute.
func (h *homes) overview(r *site.Request, v *search.View) (*overview, error) {
	const form = "overview"
	if o, ok := v.Derived.Load(form); ok {
		return o.(*overview), nil
	}
	all, err := r.Part("home.html", "groups", site.Under{Up: site.Up("/ui/"), Of: groupByNamespace(v)})
	if err != nil {
		return nil, err
	}
	o := &overview{
		groups: all,
		newest: topEntries(v, func(e *search.Entry) int64 { return max(0, e.Time.Unix()) }),
		used:   topEntries(v, func(e *search.Entry) int64 { return h.searches.counts.monthlyDownloads(e.Kind, e.Address) }),
	}
	v.Derived.Store(form, o)
	return o, nil
}

// topEntries returns the entries with the highest counts, without counts of zero.
func topEntries(v *search.View, count func(*search.Entry) int64) []*search.Entry {
	type counted struct {
		*search.Entry
		n int64
	}
	var top []counted
	for e := range v.All {
		c := counted{e, count(e)}
		if c.n == 0 || len(top) == maxShown && c.n <= top[maxShown-1].n {
			continue
		}
		i, _ := slices.BinarySearchFunc(top, c, func(a, b counted) int { return cmp.Or(cmp.Compare(b.n, a.n), -1) })
		top = slices.Insert(top, i, c)
		top = top[:min(len(top), maxShown)]
	}
	var all []*search.Entry
	for _, c := range top {
		all = append(all, c.Entry)
	}
	return all
}

// groupByNamespace counts entries by namespace.
func groupByNamespace(v *search.View) []group {
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
			g.Rows = append(g.Rows, groupRow{site.Link{Text: of[1], Href: namespaceHref(g.Kind, of[1])}, n})
		}
		slices.SortFunc(g.Rows, func(a, b groupRow) int { return cmp.Compare(a.Text, b.Text) })
	}
	return slices.DeleteFunc(kinds, func(g group) bool { return g.Total == 0 })
}
