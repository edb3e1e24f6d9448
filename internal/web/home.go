// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
)

// homePath is the first page.
const homePath = "/ui/"

// newestShown is how many publications the first page names.
const newestShown = 8

// home says what is here.
type homeBody struct {
	Groups    template.HTML // of everything that may be read, by kind
	Newest    []resultRow   // publications
	Own       ownBody
	Empty     bool
	Reading   *readingBody // the catalog has not been read yet; nil: it has
	Anonymous bool         // the caller brought no token
	Host      string
}

// ownBody are the instances of the caller that live.
type ownBody struct {
	Rows  []instanceRow // the newest
	Total int
}

// own asks for them what this replica knows: the rest of the page waits for nobody.
func (s *server) own(r *request) (b ownBody) {
	if s.o.Mine == nil || !s.launches(r) {
		return b
	}
	q := url.Values{"owner": {"mine"}, "phase": {"live"}, "limit": {strconv.Itoa(newestShown)}}
	doc, err := ask[api.Instances](s, r, asked{method: http.MethodGet, path: "instances", query: q, mine: true})
	if err != nil {
		return b // their own page says why
	}
	b.Total = doc.Count
	for _, i := range doc.Instances {
		b.Rows = append(b.Rows, instanceRowOf(i, s.o.Now()))
	}
	return b
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
	o, err := s.overview(v)
	if err != nil {
		return nil, err
	}
	body := homeBody{Groups: o.groups, Empty: v.Len() == 0, Reading: s.reading(r, complete), Anonymous: r.grant.Mode == "anonymous", Host: s.host(r), Own: s.own(r)}
	for _, e := range o.newest {
		body.Newest = append(body.Newest, s.rowOf(e))
	}
	return &page{Template: "home.html", Title: "Catalog", Command: "okara list", Body: body}, nil
}

// overview is what the first page makes of all that somebody may read.
type overview struct {
	groups template.HTML
	newest []*catalog.Entry
}

// overview makes it once for a view, which is that of a set of rights for half a
// minute: there may be hundreds of namespaces.
func (s *server) overview(v *catalog.View) (*overview, error) {
	const form = "overview"
	if o, ok := v.Derived.Load(form); ok {
		return o.(*overview), nil
	}
	var b bytes.Buffer
	if err := s.templates["home.html"].ExecuteTemplate(&b, "groups", under{up(homePath), groups(v)}); err != nil {
		return nil, fmt.Errorf("overview of the catalog: %w", err)
	}
	o := &overview{groups: template.HTML(b.String()), newest: newest(v)}
	v.Derived.Store(form, o)
	return o, nil
}

// newest are the last publications.
func newest(v *catalog.View) []*catalog.Entry {
	var top []*catalog.Entry
	for e := range v.All {
		if e.Time.IsZero() || len(top) == newestShown && !e.Time.After(top[newestShown-1].Time) {
			continue
		}
		i, _ := slices.BinarySearchFunc(top, e, func(a, b *catalog.Entry) int { return cmp.Or(b.Time.Compare(a.Time), -1) })
		top = slices.Insert(top, i, e)
		top = top[:min(len(top), newestShown)]
	}
	return top
}

// groups counts entries by namespace.
func groups(v *catalog.View) []group {
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
