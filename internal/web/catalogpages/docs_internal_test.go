// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"net/url"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/search"
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

// TestDocsRows leads from the name of a resource, or the end of one, to its page.
func TestDocsRows(t *testing.T) {
	found := []*search.Entry{
		{Kind: addr.KindMirror, Address: "registry.example.com/acme/dns", Version: "1.2.3", Resources: []string{"dns_cname_record", "dns_record", "dns_record_set"}},
		{Kind: addr.KindModule, Address: "net/dns/aws", Version: "1.0.0", Resources: []string{"dns_record"}},
	}
	for text, want := range map[string]string{"dns_record": "dns_record", "DNS record": "dns_record", "record": "dns_cname_record dns_record", "set": "dns_record_set", "cord": "", "": ""} {
		var got []string
		for _, row := range docsRows(must.Get(search.ParseQuery(url.Values{"q": {text}}))(t), found) {
			got = append(got, row.Text)
		}
		must.Equal(t, text, strings.Join(got, " "), want)
	}
	must.Equal(t, "page", docsRows(must.Get(search.ParseQuery(url.Values{"q": {"dns record 1.2.3"}}))(t), found)[0].Href, "mirror/registry.example.com/acme/dns/1.2.3/docs/resources/record")
}
