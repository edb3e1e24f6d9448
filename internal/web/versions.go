// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/oci/artifact"
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
	link
	Reason string
}

type versionRow struct {
	link
	Marks      []mark
	Deprecated *notice
	Edition    bool   // of the version above it
	Time       moment // zero: nobody recorded it
	Digest     string // "": the version was not read yet
	Size       int64  // of its archives, 0 if nobody says
	Month      int64  // downloads in 30 days
}

// maxTold bounds the manifests that one view of a list has read.
const maxTold = 20

// versions are the lists of versions of modules and providers.
type versions struct {
	catalog *catalog.Catalog
	counts  counts
	clock   clock
}

// list is a page of what is to be had, highest first. What nobody has read yet
// is read, a part of it each time: a list of a hundred versions is no hundred requests.
func (s *versions) list(r *request, l *catalog.Versions, it addr.Item) versionsBody {
	item := itemPath(it)
	body := versionsBody{Address: it.String(), Total: len(l.Listed), Counted: s.counts.downloads != nil}
	if r.Publishes(it) {
		held, reasons := l.Held()
		for i, v := range held[:min(len(held), rowsPerPage)] {
			body.Held = append(body.Held, heldRow{link{v.String(), item + "/" + escapePath(v.String())}, reasons[i].Error()})
		}
	}
	body.First, body.Last, body.Before, body.After = cut(r, body.Total)
	shown := underTheirs(l.Listed)[body.First:body.Last]
	body.First++
	ctx, stop := context.WithTimeout(r.Context(), partTime)
	defer stop()
	s.catalog.Tell(ctx, it, l, shown, maxTold)
	month := s.counts.byVersion(it)
	latest, _ := l.Latest()
	for _, v := range shown {
		row := versionRow{link: link{v.String(), item + "/" + escapePath(v.String())}, Edition: v.Edition(), Deprecated: deprecation(l, v), Month: month[v.String()]}
		if v == latest {
			row.Marks = append(row.Marks, mark{"latest", "good"})
		}
		row.Marks = append(row.Marks, versionMarks(v)...)
		if row.Deprecated != nil {
			row.Marks = append(row.Marks, mark{"deprecated", "bad"})
		}
		if told, ok := s.catalog.Told(it, v, l); ok {
			row.Digest, row.Size = told.Manifest.Digest.String(), told.Size
			if at, err := time.Parse(time.RFC3339, told.Annotations[artifact.AnnCreated]); err == nil {
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
func (s *modules) all(r *request) (*page, error) {
	m, l, err := s.listed(r)
	if err != nil {
		return nil, err
	}
	item := itemPath(m.Item())
	return &page{
		Template: "versions.html", Title: "Versions of " + m.String(), Body: s.versions.list(r, l, m.Item()),
		Crumbs:  []link{{"Catalog", ""}, {m.Namespace, "modules/" + m.Namespace}, {m.String(), item}},
		Also:    []link{{"Compare versions", item + "/compare"}, {"Downloads", item + "/downloads"}},
		Command: "okara list " + m.String(),
	}, nil
}
