// SPDX-License-Identifier: Apache-2.0

package search

import (
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
)

// Results are a page of what a query finds, as the JSON API and assistants get it.
type Results struct {
	Total    int       `json:"total"`
	Page     int       `json:"page"`
	Complete bool      `json:"complete"`          // false until the list of modules and providers was read completely
	Reading  *Progress `json:"reading,omitempty"` // progress of that, for administrators
	Results  []Result  `json:"results"`
	Docs     []DocPage `json:"docs,omitempty"` // pages of documentation that the query names
	Near     []Result  `json:"near,omitempty"` // suggestions if nothing was found
}

// Progress is how much of the list was read.
type Progress struct {
	Read int `json:"read"`
	All  int `json:"all"`
}

// Result is an entry that a query finds; all but kind and address is of its newest version.
type Result struct {
	Kind        string    `json:"kind"`
	Address     string    `json:"address"`
	Version     string    `json:"version,omitempty"`
	Digest      string    `json:"digest,omitempty"`
	PublishedAt time.Time `json:"published_at,omitzero"`
	Description string    `json:"description,omitempty"`
	Why         string    `json:"why,omitempty"` // where it matches, if not there
	Signed      bool      `json:"signed"`
	Scan        string    `json:"scan,omitempty"` // worst level with a finding, or clean
	Deprecated  bool      `json:"deprecated"`
	Downloads   int64     `json:"downloads"` // in the last 30 days
}

// DocPage is a page of the documentation of a provider's newest version.
type DocPage struct {
	Provider string `json:"provider"`
	Version  string `json:"version"`
	Name     string `json:"name"` // of the resource
	Kind     string `json:"kind"` // of the provider's entry
}

// Answer returns a page of what a query finds in a view.
func (v *View) Answer(q Query, downloads func(kind, address string) int64) Results {
	hits := v.Search(q, downloads)
	first := min((q.Page-1)*PageSize, len(hits))
	all := Results{Total: len(hits), Page: q.Page, Results: resultsOf(hits[first:min(first+PageSize, len(hits))], q, downloads)}
	if q.Page == 1 {
		all.Docs = q.DocPages(hits)
	}
	if len(hits) == 0 {
		all.Near = resultsOf(v.Near(q.Text), Query{}, downloads)
	}
	return all
}

func resultsOf(entries []*Entry, q Query, downloads func(kind, address string) int64) []Result {
	all := make([]Result, 0, len(entries))
	for _, e := range entries {
		all = append(all, Result{
			Kind: e.Kind, Address: e.Address, Version: e.Version, Digest: e.Digest, PublishedAt: e.Time, Description: e.Description, Why: e.Why(q),
			Signed: e.Signed, Scan: e.Scan, Deprecated: e.Deprecated, Downloads: downloads(e.Kind, e.Address),
		})
	}
	return all
}

// maxDocPages bounds the pages of documentation of an answer.
const maxDocPages = 8

// DocPages returns the pages of documentation of providers among the entries that a query names:
// all of a name, or its end.
func (q Query) DocPages(found []*Entry) (pages []DocPage) {
	words := strings.Join(strings.FieldsFunc(strings.Join(q.terms, " "), IsBreak), "_")
	for _, e := range found {
		if words == "" || e.Kind != addr.KindProvider && e.Kind != addr.KindMirror {
			continue
		}
		for _, name := range e.Resources {
			if (name == words || strings.HasSuffix(name, "_"+words)) && len(pages) < maxDocPages {
				pages = append(pages, DocPage{e.Address, e.Version, name, e.Kind})
			}
		}
	}
	return pages
}
