// SPDX-License-Identifier: Apache-2.0

package web

import (
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
)

// versionsBody are the versions of a module or provider.
type versionsBody struct {
	Address string
	Rows    []versionRow
	More    int
	Compare string // page that compares two, "" for none
	Listed  []string
	Held    []heldRow // that are served to nobody, for who may publish
}

type heldRow struct {
	link
	Reason string
}

type versionRow struct {
	link
	Marks      []mark
	Deprecated *notice
}

// newVersions lists what is to be had, highest first.
func (s *server) newVersions(r *request, l *catalog.Versions, it addr.Item) versionsBody {
	body := versionsBody{Address: it.String()}
	if r.publishes(it) {
		held, reasons := l.Held()
		for i, v := range held[:min(len(held), rowsPerPage)] {
			body.Held = append(body.Held, heldRow{link{v.String(), itemPath(it) + "/" + escapePath(v.String())}, reasons[i].Error()})
		}
	}
	latest, _ := l.Latest()
	for _, v := range l.Listed {
		if len(body.Rows) == rowsPerPage {
			body.More = len(l.Listed) - rowsPerPage
			break
		}
		row := versionRow{link: link{v.String(), itemPath(it) + "/" + escapePath(v.String())}, Deprecated: s.deprecation(l, v)}
		if v == latest {
			row.Marks = append(row.Marks, mark{"latest", "good"})
		}
		row.Marks = append(row.Marks, versionMarks(v)...)
		if row.Deprecated != nil {
			row.Marks = append(row.Marks, mark{"deprecated", "bad"})
		}
		body.Rows, body.Listed = append(body.Rows, row), append(body.Listed, v.String())
	}
	return body
}

func (s *server) moduleVersions(r *request) (*page, error) {
	m, l, err := s.listedModule(r)
	if err != nil {
		return nil, err
	}
	body := s.newVersions(r, l, m.Item())
	body.Compare = itemPath(m.Item()) + "/compare"
	return &page{
		Template: "versions.html", Title: "Versions of " + m.String(), Body: body,
		Crumbs:  []link{{"Catalog", ""}, {m.Namespace, "modules/" + m.Namespace}, {m.String(), itemPath(m.Item())}},
		Command: "okara list " + m.String(),
	}, nil
}
