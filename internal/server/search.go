// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"time"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/service"
)

// foundDoc is the answer to GET /api/v1/search.
type foundDoc struct {
	Total    int         `json:"total"`
	Page     int         `json:"page"`
	Complete bool        `json:"complete"`          // false until the list of modules and providers was read completely
	Reading  *readingDoc `json:"reading,omitempty"` // progress of that, for administrators
	Results  []entryDoc  `json:"results"`
	Near     []entryDoc  `json:"near,omitempty"` // suggestions if nothing was found
}

// readingDoc is the progress of reading the list.
type readingDoc struct {
	Read int `json:"read"`
	All  int `json:"all"`
}

// entryDoc is a search result; all but kind and address are of its newest version.
type entryDoc struct {
	Kind        string    `json:"kind"`
	Address     string    `json:"address"`
	Version     string    `json:"version,omitempty"`
	Digest      string    `json:"digest,omitempty"`
	PublishedAt time.Time `json:"published_at,omitzero"`
	Description string    `json:"description,omitempty"`
	Signed      bool      `json:"signed"`
	Scan        string    `json:"scan,omitempty"` // worst level with a finding, or clean
	Deprecated  bool      `json:"deprecated"`
	Downloads   int64     `json:"downloads"` // in the last 30 days
}

// search answers with the content of the search page as JSON.
func (f *Front) search(w http.ResponseWriter, r *http.Request) error {
	g, err := f.kit.Guard.Allow(r, rights.Right{Action: rights.List, Kind: rights.AnyKind})
	if err != nil {
		return err
	}
	if err := f.kit.Guard.AllowLogin(r); err != nil {
		return err
	}
	q, err := search.ParseQuery(r.URL.Query())
	if err != nil {
		return &service.Error{Status: http.StatusBadRequest, Text: err.Error()}
	}
	v, complete, err := f.finder.View(r.Context(), g.RightsKey(), g.MayRead)
	if err != nil {
		f.kit.Refuse(w, r, http.StatusBadGateway, "the request to the registry failed", err)
		return nil
	}
	hits := v.Search(q, f.Protocols.Downloads().Month)
	first := min((q.Page-1)*search.PageSize, len(hits))
	doc := foundDoc{Total: len(hits), Page: q.Page, Complete: complete, Results: f.entryDocs(hits[first:min(first+search.PageSize, len(hits))])}
	if !complete && g.May(rights.Server()) {
		p := f.Protocols.Catalog().Progress()
		doc.Reading = &readingDoc{p.Read, p.All}
	}
	if len(hits) == 0 {
		doc.Near = f.entryDocs(v.Near(q.Text))
	}
	return service.Send(w, r, "private, no-cache", doc)
}

func (f *Front) entryDocs(entries []*search.Entry) []entryDoc {
	docs := make([]entryDoc, 0, len(entries))
	for _, e := range entries {
		docs = append(docs, entryDoc{
			Kind: e.Kind, Address: e.Address, Version: e.Version, Digest: e.Digest, PublishedAt: e.Time, Description: e.Description,
			Signed: e.Signed, Scan: e.Scan, Deprecated: e.Deprecated, Downloads: f.Protocols.Downloads().Month(e.Kind, e.Address),
		})
	}
	return docs
}
