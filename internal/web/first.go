// SPDX-License-Identifier: Apache-2.0

package web

// firstBody is the parts that the caller may open.
type firstBody struct{ Rows []link }

// first is what is below /ui/ where there is no catalog.
func first(r *request) (*page, error) {
	var body firstBody
	for _, e := range r.Menu() {
		body.Rows = append(body.Rows, e.link)
	}
	return &page{Template: "first.html", Title: "okara", Body: body}, nil
}
