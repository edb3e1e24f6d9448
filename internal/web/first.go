// SPDX-License-Identifier: Apache-2.0

package web

import (
	"html/template"

	"github.com/seed-141914ff/okara/internal/web/site"
)

// firstBody is the parts that the caller may open.
type firstBody struct {
	Own  template.HTML // section of instances
	Rows []site.Link
}

// firsts is what is below /ui/ where there is no catalog.
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
