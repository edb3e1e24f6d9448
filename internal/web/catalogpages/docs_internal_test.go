// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/description"
)

// TestDocsGroups lists those of many pages that match the query, in open groups, with
// links that keep the query.
//
// Shows: page-mistakes 13
func TestDocsGroups(t *testing.T) {
	docs := &description.Docs{Pages: []description.Page{
		{Path: "index", Kind: description.Overview},
		{Path: "resources/record", Kind: description.Resource},
		{Path: "resources/zone", Kind: description.Resource},
		{Path: "data-sources/zone", Kind: description.Data},
	}}
	all := docsGroups(docs, "dns", "base", docs.Pages[1], "")
	if len(all) != 3 || all[0].Open || !all[1].Open || len(all[1].Rows) != 2 || all[1].Rows[1].Href != "base/docs/resources/zone" {
		t.Errorf("all pages: %+v", all)
	}
	found := docsGroups(docs, "dns", "base", docs.Pages[1], "DNS_z")
	if len(found) != 2 || !found[0].Open || !found[1].Open || len(found[0].Rows) != 1 || found[1].Rows[0].Href != "base/docs/data-sources/zone?q=DNS_z" {
		t.Errorf("those of zones: %+v", found)
	}
	if none := docsGroups(docs, "dns", "base", docs.Pages[1], "none"); len(none) != 0 {
		t.Errorf("those of nothing: %+v", none)
	}
}
