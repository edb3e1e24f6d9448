// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// compareBody is the difference between two versions of a module.
type compareBody struct {
	Address  string
	From, To string
	Choices  []string
	Rows     []difference
	Pages    site.Pages
	Breaking int // number on all pages
	MayBreak int
}

// difference is a row of the table of differences.
type difference struct {
	description.Difference
	Group string // heading of the differences of its effect; "" if it is not the first one of the page
}

// compareVersions compares two versions by their descriptions alone.
func (s *modules) compareVersions(r *site.Request) (*site.Page, error) {
	m, l, err := s.listedModule(r)
	if err != nil {
		return nil, err
	}
	if len(l.Listed) == 0 {
		return nil, site.NotFound("no version of module %s is available: okara list %s shows why", m, m)
	}
	body := compareBody{Address: m.String()}
	for _, v := range l.Listed[:min(len(l.Listed), site.RowsPerPage)] {
		body.Choices = append(body.Choices, v.String())
	}
	from := r.URL.Query().Get("from")
	to := r.URL.Query().Get("to")
	if to == "" {
		to = body.Choices[0]
	}
	if from == "" {
		from = body.Choices[min(1, len(body.Choices)-1)]
	}
	var sides [2]artifact.ModuleDescription
	for i, text := range []string{from, to} {
		if sides[i], err = s.describedVersion(r, m, text); err != nil {
			return nil, err
		}
	}
	var all []difference
	for _, d := range description.Compare(sides[0], sides[1]) {
		switch d.Effect {
		case description.Breaks:
			body.Breaking++
		case description.MayBreak:
			body.MayBreak++
		}
		all = append(all, difference{Difference: d})
	}
	body.From = from
	body.To = to
	body.Rows, body.Pages = site.OnePage(r, "page", all)
	for i, d := range body.Rows {
		if i == 0 || d.Effect != body.Rows[i-1].Effect {
			body.Rows[i].Group = map[string]string{description.Breaks: "Breaks callers", description.MayBreak: "May break callers", description.New: "New, or no effect on callers"}[d.Effect]
		}
	}
	return &site.Page{
		Template: "compare.html", Title: "Compare versions", Body: body,
		Crumbs:  []site.Link{{Text: "Catalog"}, {Text: m.Namespace, Href: "modules/" + m.Namespace}, {Text: m.String(), Href: itemPath(m.Item())}},
		Command: "okara compare " + m.String() + " " + from + " " + to,
	}, nil
}

func (s *modules) describedVersion(r *site.Request, m addr.Module, version string) (d artifact.ModuleDescription, err error) {
	v, err := addr.ParseVersion(version)
	if err != nil {
		return d, site.NotFound("%v", err)
	}
	mv, err := s.catalog.ModuleVersion(r.Context(), m, v)
	if err != nil {
		return d, unavailableError(err, "module", m.String())
	}
	return s.catalog.Description(r.Context(), mv)
}

// Mark returns the kind of change, with its color.
func (d difference) Mark() site.Mark {
	kinds := map[string]string{description.Added: "good", description.Removed: "bad", description.Changed: "plain"}
	return site.Mark{Text: d.Change, Kind: kinds[d.Change]}
}
