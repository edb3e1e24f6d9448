// SPDX-License-Identifier: Apache-2.0

package web

import (
	"html/template"

	"github.com/seed-141914ff/okara/internal/web/site"
)

// firstBody has links to the parts of the site that the caller may open.
type firstBody struct {
	Own  template.HTML // section of the pages of instances
	Rows []site.Link
}

// firsts is the first page below /ui/ if the pages of the catalog are off.
type firsts struct{ instances site.Set }

func (f firsts) show(r *site.Request) (*site.Page, error) {
	var body firstBody
	if f.instances.Home != nil {
		var err error
		if body.Own, err = f.instances.Home(r); err != nil {
			return nil, err
		}
	}
	for _, e := range r.Menu() {
		body.Rows = append(body.Rows, e.Link)
	}
	return &site.Page{Template: "first.html", Title: "okara", Body: body}, nil
}
