// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"cmp"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// Downloads has the numbers of downloads.
type Downloads interface {
	Month(kind, address string) int64 // in the last 30 days
	Of(kind, address string) downloads.Stats
}

// searches has the lists of items that the caller may read.
type searches struct {
	catalog *catalog.Catalog
	finder  *catalog.Finder
	find    func(*site.Request, string) []site.Found // of templates; nil: none
	counts  counts
	clock   site.Clock
}

// view returns the items that the caller may read, if the caller has any right.
func (s *searches) view(r *site.Request) (v *search.View, complete bool, err error) {
	if err := r.AllowLogin(); err != nil {
		return nil, false, err
	}
	return s.finder.View(r.Context(), r.Grant.RightsKey(), r.Grant.MayRead)
}

// readingBody says that the catalog is being read. Only administrators see the progress,
// since it counts items that other callers may not see.
type readingBody struct{ Read, All int }

// readingProgress returns nil if the catalog has been read.
func (s *searches) readingProgress(r *site.Request, complete bool) *readingBody {
	switch p := s.catalog.Progress(); {
	case complete:
		return nil
	case r.Grant.May(rights.Server()):
		return &readingBody{p.Read, p.All}
	}
	return &readingBody{}
}

// itemPath returns the page of an item, below /ui/.
func itemPath(it addr.Item) string { return entryPath(it.Kind, it.String()) }

func entryPath(kind, address string) string {
	switch kind {
	case addr.KindModule:
		return "modules/" + site.EscapePath(address)
	case addr.KindMirror:
		return "mirror/" + site.EscapePath(address)
	case addr.KindTemplate:
		return "templates/" + site.EscapePath(address)
	}
	return "providers/" + site.EscapePath(address)
}

func namespaceOf(it addr.Item) string {
	e := search.Entry{Kind: it.Kind, Address: it.String()}
	return e.Namespace()
}

// namespacePath returns the page of an item's namespace.
func namespacePath(it addr.Item) string { return namespaceHref(it.Kind, namespaceOf(it)) }

func namespaceHref(kind, namespace string) string {
	if kind == addr.KindModule {
		return "modules/" + site.EscapePath(namespace)
	}
	return "search?kind=" + kind + "&namespace=" + url.QueryEscape(namespace)
}

// counts returns numbers of downloads.
type counts struct{ downloads Downloads } // nil: not counted

// monthlyDownloads returns the recent downloads of an item, 0 if they are not counted.
func (c counts) monthlyDownloads(kind, address string) int64 {
	if c.downloads == nil {
		return 0
	}
	return c.downloads.Month(kind, address)
}

// statsOf returns the downloads of each version of an item, and by tool.
func (c counts) statsOf(it addr.Item) (stats downloads.Stats) {
	if c.downloads != nil {
		stats = c.downloads.Of(it.Kind, it.String())
	}
	return stats
}

// resultRow is an entry in a list.
type resultRow struct {
	site.Link
	Kind        string
	Description string
	Version     string
	Time        site.Timestamp
	Marks       []site.Mark
	Why         string // where it matches a search; "": in what is shown
	Downloads   int64  // in the last 30 days
	has         bool   // the version that a query names
}

func (s *searches) rowOf(e *search.Entry) resultRow {
	row := resultRow{
		Link: site.Link{Text: cmp.Or(e.Title, e.Address), Href: entryPath(e.Kind, e.Address)}, Kind: e.Kind, Description: e.Description, Version: e.Version, Time: s.clock.When(e.Time),
		Downloads: s.counts.monthlyDownloads(e.Kind, e.Address),
	}
	if e.Deprecated {
		row.Marks = append(row.Marks, site.Mark{Text: "deprecated", Kind: "bad"})
	}
	if e.Signed {
		row.Marks = append(row.Marks, site.Mark{Text: "signed", Kind: "good"})
	}
	switch e.Scan {
	case "":
	case search.ScanClean:
		row.Marks = append(row.Marks, site.Mark{Text: "scanned", Kind: "good"})
	case search.ScanCritical, search.ScanHigh:
		row.Marks = append(row.Marks, site.Mark{Text: e.Scan + " findings", Kind: "bad"})
	default:
		row.Marks = append(row.Marks, site.Mark{Text: e.Scan + " findings", Kind: "plain"})
	}
	return row
}

// listBody is a page of search results.
type listBody struct {
	search.Query
	site.Pages
	Rows         []resultRow
	Near         []resultRow
	First        []resultRow // pages of documentation that the query names
	Facets       []facet
	Kinds        []site.Choice
	Scans, Sorts []site.Choice
	Reading      *readingBody // the catalog is being read; nil: it has been read
	Wider        string       // same search in all namespaces and systems; "": it has no such filter
}

func queryIn(r *site.Request) (search.Query, error) {
	q, err := search.ParseQuery(r.URL.Query())
	if err != nil {
		return q, &service.Error{Status: http.StatusBadRequest, Text: err.Error()}
	}
	return q, nil
}

func (s *searches) show(r *site.Request) (*site.Page, error) {
	v, complete, err := s.view(r)
	if err != nil {
		return nil, err
	}
	q, err := queryIn(r)
	if err != nil {
		return nil, err
	}
	body := listBody{
		Query: q, Reading: s.readingProgress(r, complete),
		Kinds: site.Choose([]site.Choice{
			{Text: "Everything"}, {Value: addr.KindModule, Text: "Modules"}, {Value: addr.KindProvider, Text: "Providers"},
			{Value: addr.KindMirror, Text: "Mirrored providers"}, {Value: addr.KindTemplate, Text: "Templates"},
		}, q.Kind),
		Scans: site.Choose([]site.Choice{
			{Text: "Any scan"}, {Value: search.ScanLow, Text: "No findings"}, {Value: search.ScanMedium, Text: "No medium or worse"},
			{Value: search.ScanHigh, Text: "No high or worse"}, {Value: search.ScanCritical, Text: "No critical"},
		}, q.Scan),
		Sorts: site.Choose([]site.Choice{
			{Text: "Best first"}, {Value: search.ByName, Text: "By name"}, {Value: search.ByNewest, Text: "Newest first"}, {Value: search.ByDownloads, Text: "Most downloads first"},
		}, q.Sort),
	}
	if q.Namespace+q.System != "" {
		body.Wider = queryWith(r, "namespace", "", "system", "")
	}
	found := v.Search(q, s.counts.monthlyDownloads)
	s.fillRows(r, &body, found)
	for i := range body.Rows {
		body.Rows[i].Why = found[body.Pages.First+i].Why(q)
	}
	if body.Pages.First == 0 {
		body.First = docsRows(q, found)
		s.leadTo(r, q.Version, body.Rows)
	}
	if s.find != nil && q.Text != "" && q.Namespace+q.System+q.Scan == "" && !q.Signed && (q.Kind == "" || q.Kind == addr.KindTemplate) {
		for _, one := range s.find(r, q.Text) {
			if _, ok := v.Has(addr.KindTemplate, one.Name); ok {
				continue
			}
			body.Total++
			row := resultRow{Link: one.Link, Kind: addr.KindTemplate, Description: one.Description}
			named := strings.EqualFold(one.Text, strings.TrimSpace(q.Text)) // by its title
			switch {
			case named && body.Pages.First == 0:
				body.Rows = slices.Insert(body.Rows, 0, row)
				body.Last++
			case !named && body.Pages.After == "": // the others are on the last page
				body.Rows = append(body.Rows, row)
				body.Last++
			}
		}
	}
	body.Facets = facetsOf(r, q, found)
	if body.Total == 0 {
		for _, e := range v.Near(q.Text) {
			body.Near = append(body.Near, s.rowOf(e))
		}
	}
	return &site.Page{Template: "search.html", Title: "Search", Query: q.Text, Command: "okara list", Body: body}, nil
}

// maxLed bounds the rows that lead to a version, each of which costs a list that is read once.
const maxLed = 5

// leadTo leads the first rows to the version that a query names, those that have it first.
func (s *searches) leadTo(r *site.Request, v addr.Version, rows []resultRow) {
	if v == (addr.Version{}) {
		return
	}
	rows = rows[:min(len(rows), maxLed)]
	for i := range rows {
		row := &rows[i]
		it, err := addr.ParseItem(row.Text)
		if err != nil || it.Kind != row.Kind {
			continue
		}
		l, err := s.catalog.Versions(r.Context(), it)
		if err != nil {
			continue
		}
		if _, row.has = l.Highest(func(one addr.Version) bool { return one == v }); !row.has {
			row.Why = "It has no version " + v.String() + " that is served"
			continue
		}
		row.Href += "/" + site.EscapePath(v.String())
		if row.Version != v.String() { // what is known is of the newest
			row.Version, row.Time, row.Marks = v.String(), site.Timestamp{}, nil
		}
	}
	slices.SortStableFunc(rows, func(a, b resultRow) int {
		switch {
		case a.has == b.has:
			return 0
		case a.has:
			return -1
		}
		return 1
	})
}

// docsRows returns the pages of documentation of providers that a query names.
func docsRows(q search.Query, found []*search.Entry) (rows []resultRow) {
	for _, p := range q.DocPages(found) {
		at := p.Version + "/docs/resources/" + strings.TrimPrefix(p.Name, path.Base(p.Provider)+"_")
		rows = append(rows, resultRow{Link: site.Link{Text: p.Name, Href: entryPath(p.Kind, p.Provider) + "/" + site.EscapePath(at)}, Kind: "documentation", Description: "Of " + p.Provider + "."})
	}
	return rows
}

// maxFacet bounds the values of a facet on a page.
const maxFacet = 8

// facet is a property of the results, with the number of results for each value.
type facet struct {
	Title string
	Rows  []groupRow // links that filter by a value
	All   string     // link that removes the filter; "": there is none
}

// facetsOf counts the results by kind, namespace and target provider.
func facetsOf(r *site.Request, q search.Query, found []*search.Entry) []facet {
	var all []facet
	for _, of := range []struct {
		title, name, chosen string
		value               func(*search.Entry) string
	}{
		{"Kind", "kind", q.Kind, func(e *search.Entry) string { return e.Kind }},
		{"Namespace", "namespace", q.Namespace, (*search.Entry).Namespace},
		{"Provider", "system", q.System, (*search.Entry).System},
	} {
		f := facet{Title: of.title}
		if of.chosen != "" {
			f.All = queryWith(r, of.name, "")
		}
		counts := map[string]int{}
		for _, e := range found {
			if value := of.value(e); value != "" {
				counts[value]++
			}
		}
		for value, n := range counts {
			f.Rows = append(f.Rows, groupRow{site.Link{Text: value, Href: queryWith(r, of.name, value)}, n})
		}
		slices.SortFunc(f.Rows, func(a, b groupRow) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Text, b.Text)) })
		f.Rows = f.Rows[:min(len(f.Rows), maxFacet)]
		if len(f.Rows) > 1 || f.All != "" {
			all = append(all, f)
		}
	}
	return all
}

// queryWith returns the query of a page with other values, without the page number.
func queryWith(r *site.Request, pairs ...string) string {
	q := r.URL.Query()
	q.Del("page")
	for i := 0; i+1 < len(pairs); i += 2 {
		if q.Del(pairs[i]); pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return "?" + q.Encode()
}

// fillRows adds the rows of the current page of a list.
func (s *searches) fillRows(r *site.Request, b *listBody, found []*search.Entry) {
	found, b.Pages = site.OnePage(r, "page", found)
	for _, e := range found {
		b.Rows = append(b.Rows, s.rowOf(e))
	}
}

func (s *searches) namespace(r *site.Request) (*site.Page, error) {
	v, complete, err := s.view(r)
	if err != nil {
		return nil, err
	}
	q, err := queryIn(r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("namespace")
	body := listBody{Query: search.Query{Kind: addr.KindModule, Namespace: name, Sort: q.Sort}, Reading: s.readingProgress(r, complete)}
	found := v.Search(body.Query, s.counts.monthlyDownloads)
	if len(found) == 0 && complete {
		return nil, site.NotFound("no module in %s", name)
	}
	s.fillRows(r, &body, found)
	return &site.Page{Template: "namespace.html", Title: name, Crumbs: []site.Link{{Text: "Catalog"}}, Command: "okara list", Body: body}, nil
}
