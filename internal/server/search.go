// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/service"
)

// search answers with the content of the search page as JSON.
func (f *Front) search(w http.ResponseWriter, r *http.Request) error {
	g, err := allowList(f.kit.Guard, r)
	if err != nil {
		return err
	}
	if _, err := search.ParseQuery(r.URL.Query()); err != nil {
		return &service.Error{Status: http.StatusBadRequest, Text: err.Error()}
	}
	doc, err := findItems(r.Context(), f, r.URL.Query(), g)
	if err != nil {
		f.kit.Refuse(w, r, http.StatusBadGateway, "the request to the registry failed", err)
		return nil
	}
	return service.Send(w, r, "private, no-cache", doc)
}

// findItems returns what a query finds of that which a caller may read.
func findItems(ctx context.Context, f *Front, query url.Values, g access.Grant) (doc search.Results, err error) {
	q, err := search.ParseQuery(query)
	if err != nil {
		return doc, err
	}
	v, complete, err := f.finder.View(ctx, g.RightsKey(), g.MayRead)
	if err != nil {
		return doc, err
	}
	doc = v.Answer(q, f.Protocols.Downloads().Month)
	doc.Complete = complete
	if !complete && g.May(rights.Server()) {
		p := f.Protocols.Catalog().Progress()
		doc.Reading = &search.Progress{Read: p.Read, All: p.All}
	}
	return doc, nil
}
