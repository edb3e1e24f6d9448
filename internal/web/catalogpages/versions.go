// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// versionsBody are the versions of a module or provider.
type versionsBody struct {
	Address            string
	Rows               []versionRow
	Total, First, Last int
	Before, After      string    // links to the pages beside, "" for none
	Left               int       // rows of which nothing was read yet
	Counted            bool      // somebody counts downloads
	Held               []heldRow // that are served to nobody, for who may publish
}

type heldRow struct {
	site.Link
	Reason string
}

type versionRow struct {
	site.Link
	Marks      []site.Mark
	Deprecated *notice
	Edition    bool           // of the version above it
	Time       site.Timestamp // zero: nobody recorded it
	Digest     string         // "": the version was not read yet
	Size       int64          // of its archives, 0 if nobody says
	Month      int64          // downloads in 30 days
}

// maxSummaries bounds the manifests that one view of a list has read.
const maxSummaries = 20

// versions are the lists of versions of modules and providers.
type versions struct {
	catalog *catalog.Catalog
	counts  counts
	clock   site.Clock
}

// list is a page of what is to be had, highest first. What nobody has read yet
// is read, a part of it each time: a list of a hundred versions is no hundred requests.
func (s *versions) list(r *site.Request, l *catalog.Versions, it addr.Item) versionsBody {
	item := itemPath(it)
	body := versionsBody{Address: it.String(), Total: len(l.Listed), Counted: s.counts.downloads != nil}
	if r.Publishes(it) {
		held, reasons := l.Held()
		for i, v := range held[:min(len(held), site.RowsPerPage)] {
			body.Held = append(body.Held, heldRow{site.Link{Text: v.String(), Href: item + "/" + site.EscapePath(v.String())}, reasons[i].Error()})
		}
	}
	body.First, body.Last, body.Before, body.After = site.Cut(r, body.Total)
	shown := underTheirs(l.Listed)[body.First:body.Last]
	body.First++
	ctx, stop := context.WithTimeout(r.Context(), partTime)
	defer stop()
	s.catalog.ReadSummaries(ctx, it, l, shown, maxSummaries)
	month := s.counts.byVersion(it)
	latest, _ := l.Latest()
	for _, v := range shown {
		row := versionRow{Link: site.Link{Text: v.String(), Href: item + "/" + site.EscapePath(v.String())}, Edition: v.Edition(), Deprecated: deprecation(l, v), Month: month[v.String()]}
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
			if at := l.Published(v, summary.Annotations); !at.IsZero() {
				row.Time = s.clock.When(at)
			}
		} else {
			body.Left++
		}
		body.Rows = append(body.Rows, row)
	}
	return body
}

// underTheirs puts editions below the version that they are of. By precedence alone
// they are among its pre-releases.
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

// byVersion is how often each version was downloaded lately.
func (c counts) byVersion(it addr.Item) map[string]int64 {
	stats := c.of(it)
	by := make(map[string]int64, len(stats.Versions))
	for _, p := range stats.Versions {
		by[p.Name] = p.Month
	}
	return by
}

// all lists the versions of a module.
func (s *modules) all(r *site.Request) (*site.Page, error) {
	m, l, err := s.listed(r)
	if err != nil {
		return nil, err
	}
	item := itemPath(m.Item())
	return &site.Page{
		Template: "versions.html", Title: "Versions of " + m.String(), Body: s.versions.list(r, l, m.Item()),
		Crumbs:  []site.Link{{Text: "Catalog"}, {Text: m.Namespace, Href: "modules/" + m.Namespace}, {Text: m.String(), Href: item}},
		Also:    []site.Link{{Text: "Compare versions", Href: item + "/compare"}, {Text: "Downloads", Href: item + "/downloads"}},
		Command: "okara list " + m.String(),
	}, nil
}
