// SPDX-License-Identifier: Apache-2.0

package web

import (
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/downloads"
)

// downloadsBody is how often a module or provider was fetched.
type downloadsBody struct {
	Address      string
	Month, Total int64
	First, Last  time.Time // of the days of the plot
	Plot         plot
	Days         []dayRow // those with downloads, the last one first
	Versions     []downloadRow
	Tools        []downloadRow
}

type dayRow struct {
	Day time.Time
	N   int64
}

type downloadRow struct {
	link
	Month, Total int64
}

// toolName is the name of a tool as people write it.
func toolName(tool string) string {
	switch tool {
	case downloads.ToolOpenTofu:
		return "OpenTofu"
	case downloads.ToolTerraform:
		return "Terraform"
	}
	return tool
}

// downloads shows how often a module was fetched.
func (s *modules) downloads(r *request) (*page, error) {
	m, l, err := s.listed(r)
	if err != nil {
		return nil, err
	}
	return s.versions.downloads(m.Item(), l), nil
}

// downloads shows how often a provider was fetched.
func (s *providers) downloads(r *request) (*page, error) {
	p, l, err := s.listed(r)
	if err != nil {
		return nil, err
	}
	return s.versions.downloads(p.Item(), l), nil
}

// downloads is the page of what has versions l.
func (s *versions) downloads(it addr.Item, l *catalog.Versions) *page {
	stats := s.counts.of(it)
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
		if listed[p.Name] && len(body.Versions) < rowsPerPage {
			body.Versions = append(body.Versions, downloadRow{link{p.Name, item + "/" + escapePath(p.Name)}, p.Month, p.Total})
		}
	}
	for _, p := range stats.Tools {
		body.Tools = append(body.Tools, downloadRow{link{Text: toolName(p.Name)}, p.Month, p.Total})
	}
	return &page{
		Template: "downloads.html", Title: "Downloads of " + it.String(), Body: body,
		Crumbs:  []link{{"Catalog", ""}, {namespaceOf(it), namespacePath(it)}, {it.String(), item}},
		Command: "GET api/v1/search?q=" + it.String(),
	}
}
