// SPDX-License-Identifier: Apache-2.0

package web

import (
	"github.com/seed-141914ff/okara/internal/web/site"
)

// firstBody is the parts that the caller may open.
type firstBody struct{ Rows []site.Link }

// first is what is below /ui/ where there is no catalog.
func first(r *site.Request) (*site.Page, error) {
	var body firstBody
	for _, e := range r.Menu() {
		body.Rows = append(body.Rows, e.Link)
	}
	return &site.Page{Template: "first.html", Title: "okara", Body: body}, nil
}
