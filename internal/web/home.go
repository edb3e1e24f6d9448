// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/service"
)

// Bounds of lists and queries.
const (
	rowsPerPage = 100
	maxPages    = 100
	maxQuery    = 200 // bytes
	maxTerms    = 8
)

// home says what is here.
type homeBody struct {
	Groups    []group // of everything that may be read, by kind
	Empty     bool
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
	items, err := s.items(r, catalog.Query{})
	if err != nil {
		return nil, err
	}
	body := homeBody{Groups: groups(items), Empty: len(items) == 0, Anonymous: r.grant.Mode == "anonymous", Host: s.host(r)}
	return &page{Template: "home.html", Title: "Catalog", Command: "okara list", Body: body}, nil
}

// groups counts items by namespace.
func groups(items []addr.Item) []group {
	kinds := []group{{Kind: addr.KindModule, Title: "Modules"}, {Kind: addr.KindProvider, Title: "Providers"}, {Kind: addr.KindMirror, Title: "Mirrored providers"}}
	for i := range kinds {
		g := &kinds[i]
		counts := map[string]int{}
		for _, it := range items {
			if it.Kind == g.Kind {
				counts[namespaceOf(it)]++
				g.Total++
			}
		}
		for name, n := range counts {
			href := "search?kind=" + g.Kind + "&namespace=" + escapeQuery(name)
			if g.Kind == addr.KindModule {
				href = "modules/" + escapePath(name)
			}
			g.Rows = append(g.Rows, groupRow{link{name, href}, n})
		}
		slices.SortFunc(g.Rows, func(a, b groupRow) int { return cmp.Compare(a.Text, b.Text) })
	}
	return slices.DeleteFunc(kinds, func(g group) bool { return g.Total == 0 })
}

// namespaceOf is what an item is listed under: its namespace, with the host of a
// mirrored provider before it.
func namespaceOf(it addr.Item) string {
	if it.Kind == addr.KindModule {
		return it.Module.Namespace
	}
	address := it.Provider.String()
	return address[:strings.LastIndexByte(address, '/')]
}

// items is what a query means, as far as the caller may read it.
func (s *server) items(r *request, q catalog.Query) ([]addr.Item, error) {
	if err := s.list(r); err != nil {
		return nil, err
	}
	if err := s.o.Kit.Guard.AllowLogin(r.Request); err != nil {
		return nil, err
	}
	index, err := s.o.Catalog.Index(r.Context())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(index.Search(q), func(it addr.Item) bool { return !r.readable(it) }), nil
}

// itemRow is an item in a list.
type itemRow struct {
	link
	Kind string
}

func rowOf(it addr.Item) itemRow { return itemRow{link{it.String(), itemPath(it)}, it.Kind} }

// itemPath is the page of an item, below /ui/.
func itemPath(it addr.Item) string {
	switch it.Kind {
	case addr.KindModule:
		return "modules/" + escapePath(it.Module.String())
	case addr.KindMirror:
		return "mirror/" + escapePath(it.Provider.String())
	}
	return "providers/" + escapePath(it.Provider.String())
}

// listBody is a page of a list.
type listBody struct {
	Query, Kind, Namespace, System string
	Rows                           []itemRow
	Total, First, Last             int
	Before, After                  string // links to the pages beside, "" for none
	Near                           []itemRow
	Kinds                          []choice
	Searched                       bool
}

// choice is an option of a form.
type choice struct {
	Value, Text string
	Chosen      bool
}

func (s *server) search(r *request) (*page, error) {
	v := r.URL.Query()
	text := v.Get("q")
	if len(text) > maxQuery || !utf8.ValidString(text) || len(strings.Fields(text)) > maxTerms {
		return nil, &service.Error{Status: 400, Text: "a query has at most " + strconv.Itoa(maxTerms) + " words and " + strconv.Itoa(maxQuery) + " bytes"}
	}
	all, err := s.items(r, catalog.Query{})
	if err != nil {
		return nil, err
	}
	body := listBody{Query: text, Kind: v.Get("kind"), Namespace: v.Get("namespace"), System: v.Get("system"), Searched: true}
	for _, k := range []choice{{"", "everything", false}, {addr.KindModule, "modules", false}, {addr.KindProvider, "providers", false}, {addr.KindMirror, "mirrored providers", false}} {
		k.Chosen = k.Value == body.Kind
		body.Kinds = append(body.Kinds, k)
	}
	found := ranked(all, body)
	body.fill(r, found)
	if len(found) == 0 {
		body.Near = nearest(all, text)
	}
	return &page{Template: "search.html", Title: "Search", Query: text, Command: "okara list --server", Body: body}, nil
}

// fill cuts the rows of this page out of a list.
func (b *listBody) fill(r *request, found []addr.Item) {
	n, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || n < 1 || n > maxPages {
		n = 1
	}
	b.Total, b.First = len(found), (n-1)*rowsPerPage
	b.Last = min(b.First+rowsPerPage, b.Total)
	for _, it := range found[min(b.First, b.Total):b.Last] {
		b.Rows = append(b.Rows, rowOf(it))
	}
	other := func(n int) string {
		q := r.URL.Query()
		q.Set("page", strconv.Itoa(n))
		return "?" + q.Encode()
	}
	if n > 1 {
		b.Before = other(n - 1)
	}
	if b.Last < b.Total && n < maxPages {
		b.After = other(n + 1)
	}
	b.First++
}

// ranked are the items that a search means, best first: the exact address, the
// exact name, a prefix of a name, a word of it, any part of the address.
func ranked(all []addr.Item, q listBody) []addr.Item {
	terms := strings.Fields(strings.ToLower(q.Query))
	type hit struct {
		it   addr.Item
		rank int
	}
	var hits []hit
	for _, it := range all {
		if q.Kind != "" && it.Kind != q.Kind || q.Namespace != "" && namespaceOf(it) != q.Namespace || q.System != "" && it.Module.System != q.System {
			continue
		}
		worst := 0
		for _, t := range terms {
			worst = max(worst, rank(it, t))
		}
		if worst < noRank {
			hits = append(hits, hit{it, worst})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(a.rank, b.rank) })
	found := make([]addr.Item, len(hits))
	for i, h := range hits {
		found[i] = h.it
	}
	return found
}

// noRank is the rank of what a word does not mean.
const noRank = 5

func rank(it addr.Item, term string) int {
	address, name := it.String(), nameOf(it)
	isWord := func(w string) bool { return w == term }
	switch {
	case address == term:
		return 0
	case name == term:
		return 1
	case strings.HasPrefix(name, term):
		return 2
	case slices.ContainsFunc(strings.FieldsFunc(name, func(c rune) bool { return c == '-' || c == '_' }), isWord):
		return 3
	case strings.Contains(address, term):
		return 4
	}
	return noRank
}

func nameOf(it addr.Item) string {
	if it.Kind == addr.KindModule {
		return it.Module.Name
	}
	return it.Provider.Type
}

// nearest are the items whose names are at most two letters away from a word: a
// search that finds nothing is mostly misspelt.
func nearest(all []addr.Item, text string) []itemRow {
	var near []itemRow
	for term := range strings.FieldsSeq(strings.ToLower(text)) {
		for _, it := range all {
			if d := distance(term, nameOf(it), 2); d <= 2 && d < len(term) && len(near) < 10 {
				near = append(near, rowOf(it))
			}
		}
	}
	return near
}

// distance is how many letters must be put in, taken out or replaced to make b of
// a, or most+1 if more than most.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, corner+1, row[j]+1)
		}
	}
	return min(row[len(b)], most+1)
}

func (s *server) namespace(r *request) (*page, error) {
	name := r.PathValue("namespace")
	all, err := s.items(r, catalog.Query{Kind: addr.KindModule, Namespace: name})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, notFound("there is no module in %s", name)
	}
	body := listBody{Namespace: name, Kind: addr.KindModule}
	body.fill(r, all)
	return &page{Template: "namespace.html", Title: name, Crumbs: []link{{"Catalog", ""}}, Command: "okara list", Body: body}, nil
}
