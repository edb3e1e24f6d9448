// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"cmp"
	"context"
	"net/url"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// versionBody is what the pages of a version of a module and of a provider share.
type versionBody struct {
	Address, Version string
	Base, Item       string // page of this version, and of the module or provider, below Up
	Tab              string
	Tabs             []site.Tab
	Marks            []site.Mark
	Deprecated       *notice
	Newer            *site.Link // the latest version, if this one is older
	Changes          string     // page of what changed until then, below Up; "": there is none
	Facts            []site.Fact
	Choices          []choices
	vouched
	UsageExamples []site.Example
	Security      securityBody
}

func newVersionBody(it addr.Item, v addr.Version, l *catalog.Versions, e vouched) versionBody {
	item := itemPath(it)
	b := versionBody{
		Address: it.String(), Version: v.String(), Item: item, Base: item + "/" + site.EscapePath(v.String()),
		Deprecated: deprecationNotice(l, v), Choices: newChoices(l, item, v.String()), vouched: e,
	}
	if latest, ok := l.Latest(); ok && v.EditionOf().Compare(latest) < 0 {
		b.Newer = &site.Link{Text: latest.String(), Href: item}
		if it.Kind == addr.KindModule {
			b.Changes = item + "/compare?" + url.Values{"from": {v.String()}, "to": {latest.String()}}.Encode()
		}
	}
	return b
}

func (b *versionBody) addMarks(v addr.Version) {
	if b.Deprecated != nil {
		b.Marks = append(b.Marks, site.Mark{Text: "deprecated", Kind: "bad"})
	}
	b.Marks = append(b.Marks, slices.Concat(b.vouched.evidenceMarks(), versionMarks(v))...)
}

func (b *versionBody) addTab(name, href string, count int) {
	b.Tabs = append(b.Tabs, site.Tab{Link: site.Link{Text: tabText(name), Href: href}, Count: count})
}

// versionsBody is the list of versions of a module or provider.
type versionsBody struct {
	site.Pages
	Address string
	Rows    []versionRow
	Left    int       // number of rows whose manifest has not been read yet
	Counted bool      // downloads are counted
	Held    []heldRow // versions that are not served, for callers that may publish
}

type heldRow struct {
	site.Link
	Reason string
}

type versionRow struct {
	site.Link
	Marks      []site.Mark
	Deprecated *notice
	Edition    bool           // the row is an edition of the version above it
	Time       site.Timestamp // zero: not recorded
	Digest     string         // "": the version was not read yet
	Size       int64          // of its archives, 0 if unknown
	Month      int64          // downloads in 30 days
}

// maxSummaries bounds the manifests that one view of a list reads.
const maxSummaries = 20

// versions has the lists of versions of modules and providers.
type versions struct {
	catalog *catalog.Catalog
	counts  counts
	clock   site.Clock
	uses    bool // there are pages of who uses an item
}

// usersLinks returns links to who uses an item, and this version of it.
func (s *versions) usersLinks(it addr.Item, v addr.Version) []site.Link {
	if !s.uses {
		return nil
	}
	kind := addr.KindModule
	if it.Kind != kind {
		kind = addr.KindProvider
	}
	at := "used-by?kind=" + kind + "&address=" + url.QueryEscape(it.String())
	return []site.Link{{Text: "Used by", Href: at}, {Text: "Who uses " + v.String(), Href: at + url.QueryEscape("@"+v.String())}}
}

// versionsPage returns a page of the served versions, highest first. Each view reads only some of
// the manifests that are not known yet, so that a list of a hundred versions does not
// need a hundred requests.
func (s *versions) versionsPage(r *site.Request, l *catalog.Versions, it addr.Item) versionsBody {
	item := itemPath(it)
	body := versionsBody{Address: it.String(), Pages: site.PagesOf(r, "page", len(l.Listed)), Counted: s.counts.downloads != nil}
	if r.Publishes(it) {
		held, reasons := l.Held()
		for i, v := range held[:min(len(held), site.RowsPerPage)] {
			body.Held = append(body.Held, heldRow{site.Link{Text: v.String(), Href: item + "/" + site.EscapePath(v.String())}, reasons[i].Error()})
		}
	}
	shown := underTheirs(l.Listed)[body.First:body.Last]
	ctx, stop := context.WithTimeout(r.Context(), partTime)
	defer stop()
	s.catalog.ReadSummaries(ctx, it, l, shown, maxSummaries)
	month := s.counts.byVersion(it)
	latest, _ := l.Latest()
	for _, v := range shown {
		row := versionRow{Link: site.Link{Text: v.String(), Href: item + "/" + site.EscapePath(v.String())}, Edition: v.Edition(), Deprecated: deprecationNotice(l, v), Month: month[v.String()]}
		if v == latest {
			row.Marks = append(row.Marks, site.Mark{Text: "latest", Kind: "good"})
		}
		row.Marks = append(row.Marks, versionMarks(v)...)
		if row.Deprecated != nil {
			row.Marks = append(row.Marks, site.Mark{Text: "deprecated", Kind: "bad"})
		}
		if summary, ok := s.catalog.Summary(it, v, l); ok {
			row.Digest = summary.Manifest.Digest.String()
			row.Size = summary.Size
			if at := l.Listing.Published(v, summary.Annotations); !at.IsZero() {
				row.Time = s.clock.When(at)
			}
		} else {
			body.Left++
		}
		body.Rows = append(body.Rows, row)
	}
	return body
}

// underTheirs puts editions below the version that they belong to. By precedence alone
// they would be among its pre-releases.
func underTheirs(all []addr.Version) []addr.Version {
	if !slices.ContainsFunc(all, addr.Version.Edition) {
		return all
	}
	after := func(v addr.Version) int {
		if v.Edition() {
			return 1
		}
		return 0
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b addr.Version) int {
		return cmp.Or(b.EditionOf().Compare(a.EditionOf()), cmp.Compare(after(a), after(b)))
	})
	return sorted
}

// byVersion returns the recent downloads of each version.
func (c counts) byVersion(it addr.Item) map[string]int64 {
	stats := c.statsOf(it)
	by := make(map[string]int64, len(stats.Versions))
	for _, p := range stats.Versions {
		by[p.Name] = p.Month
	}
	return by
}

func (s *modules) listModuleVersions(r *site.Request) (*site.Page, error) {
	m, l, err := s.listedModule(r)
	if err != nil {
		return nil, err
	}
	item := itemPath(m.Item())
	return &site.Page{
		Template: "versions.html", Title: "Versions of " + m.String(), Body: s.versions.versionsPage(r, l, m.Item()),
		Crumbs:  []site.Link{{Text: "Catalog"}, {Text: m.Namespace, Href: "modules/" + m.Namespace}, {Text: m.String(), Href: item}},
		Also:    []site.Link{{Text: "Compare versions", Href: item + "/compare"}, {Text: "Downloads", Href: item + "/downloads"}},
		Command: "okara list " + m.String(),
	}, nil
}
