// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// downloadsBody is the page with the downloads of a module or provider.
type downloadsBody struct {
	Address      string
	Month, Total int64
	First, Last  time.Time // range of the plot
	Plot         plot
	Days         []dayRow // those with downloads, newest first
	Versions     []downloadRow
	Tools        []downloadRow
}

type dayRow struct {
	Day time.Time
	N   int64
}

type downloadRow struct {
	site.Link
	Month, Total int64
}

// toolName returns the usual spelling of a tool's name.
func toolName(tool string) string {
	switch tool {
	case downloads.ToolOpenTofu:
		return "OpenTofu"
	case downloads.ToolTerraform:
		return "Terraform"
	}
	return tool
}

func (s *modules) downloads(r *site.Request) (*site.Page, error) {
	m, l, err := s.listedModule(r)
	if err != nil {
		return nil, err
	}
	return s.versions.downloads(m.Item(), l), nil
}

func (s *providers) downloads(r *site.Request) (*site.Page, error) {
	p, l, err := s.listedProvider(r)
	if err != nil {
		return nil, err
	}
	return s.versions.downloads(p.Item(), l), nil
}

func (s *versions) downloads(it addr.Item, l *catalog.Versions) *site.Page {
	stats := s.counts.statsOf(it)
	item := itemPath(it)
	body := downloadsBody{
		Address: it.String(), Month: stats.Month, Total: stats.Total, Last: stats.Last, First: stats.Last.AddDate(0, 0, 1-downloads.Days), Plot: newPlot(stats.Days[:]),
	}
	for i, n := range slices.Backward(stats.Days[:]) {
		if n > 0 {
			body.Days = append(body.Days, dayRow{body.First.AddDate(0, 0, i), n})
		}
	}
	listed := make(map[string]bool, len(l.Listed))
	for _, v := range l.Listed {
		listed[v.String()] = true
	}
	for _, p := range stats.Versions {
		if listed[p.Name] && len(body.Versions) < site.RowsPerPage {
			body.Versions = append(body.Versions, downloadRow{site.Link{Text: p.Name, Href: item + "/" + site.EscapePath(p.Name)}, p.Month, p.Total})
		}
	}
	for _, p := range stats.Tools {
		body.Tools = append(body.Tools, downloadRow{site.Link{Text: toolName(p.Name)}, p.Month, p.Total})
	}
	return &site.Page{
		Template: "downloads.html", Title: "Downloads of " + it.String(), Body: body,
		Crumbs:  []site.Link{{Text: "Catalog"}, {Text: namespaceOf(it), Href: namespacePath(it)}, {Text: it.String(), Href: item}},
		Command: "GET api/v1/search?q=" + it.String(),
	}
}
