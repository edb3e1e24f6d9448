// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/statebackend"
)

func TestPages(t *testing.T) {
	for _, tt := range []struct {
		query    string
		count    int
		from, to int
		want     string
	}{
		{"", 0, 0, 0, `{"pagination":{"current-page":1,"page-size":20,"prev-page":null,"next-page":null,"total-pages":1,"total-count":0}}`},
		{"page[size]=2", 5, 0, 2, `{"pagination":{"current-page":1,"page-size":2,"prev-page":null,"next-page":2,"total-pages":3,"total-count":5}}`},
		{"page[size]=2&page[number]=3", 5, 4, 5, `{"pagination":{"current-page":3,"page-size":2,"prev-page":2,"next-page":null,"total-pages":3,"total-count":5}}`},
		{"page[size]=1000&page[number]=2", 101, 100, 101, `{"pagination":{"current-page":2,"page-size":100,"prev-page":1,"next-page":null,"total-pages":2,"total-count":101}}`},
		{"page[number]=9223372036854775807", 5, 0, 0, `{"pagination":{"current-page":9223372036854775807,"page-size":20,"prev-page":1,"next-page":null,"total-pages":1,"total-count":5}}`},
		{"page[size]=-1&page[number]=x", 1, 0, 1, `{"pagination":{"current-page":1,"page-size":20,"prev-page":null,"next-page":null,"total-pages":1,"total-count":1}}`},
	} {
		q := must.Get(url.ParseQuery(tt.query))(t)
		from, to, meta := readPage(q).rangeOf(tt.count)
		got := must.Get(json.Marshal(meta))(t)
		if diff := cmp.Diff(tt.want, string(got)); diff != "" || from != tt.from || to != tt.to {
			t.Errorf("%s of %d: %d to %d (-want +got):\n%s", tt.query, tt.count, from, to, diff)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"ok": "ok", "a\x1b[31mb\nc": "a\ufffd[31mb c", "a\u202eb": "a\ufffdb", strings.Repeat("ä", 300): strings.Repeat("ä", maxClientText),
	} {
		must.Equal(t, in, printableText(in), want)
	}
}

// FuzzBody parses every body as each document that a request may contain. An accepted
// document can be put into a record within its bounds.
//
// Shows: cloud 24
func FuzzBody(f *testing.F) {
	f.Add(`{"data":{"type":"workspaces","attributes":{"name":"a","description":"b"},"relationships":{"tags":{"data":[{"attributes":{"name":"x"}}]},"project":{"data":{"type":"projects","id":"prj-eA"}}}}}`)
	f.Add(`{"data":[{"type":"tag-bindings","attributes":{"key":"a","value":"b"}}]}`)
	f.Add(`{"reason":"x"}`)
	f.Add(strings.Repeat("[", 100))
	f.Add(`{"data":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		var w workspaceBody
		if parseBody([]byte(text), &w) == nil {
			_ = w.applyTo("acme", &statebackend.Record{})
		}
		var l tagList
		if parseBody([]byte(text), &l) == nil {
			_, _ = l.addToRecord(&statebackend.Record{}), l.removeFrom(&statebackend.Record{})
		}
		var b lockBody
		if err := parseBody([]byte(text), &b); err == nil && strings.Count(text, "[") > 0 && strings.HasPrefix(text, strings.Repeat("[", bodyLevels+1)) {
			t.Errorf("%.60q was parsed", text)
		}
	})
}

// FuzzFilter parses every query.
//
// Shows: cloud 24
func FuzzFilter(f *testing.F) {
	f.Add("search[name]=a&search[tags]=x,y&filter[tagged][0][key]=a&filter[tagged][0][value]=b", "prod")
	f.Add("search[wildcard-name]=****************a&filter[tagged][[key]=a", "aaaaaaaaaaaaaaaaaaa")
	f.Fuzz(func(t *testing.T, query, name string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		filter, err := newFilter("acme", q)
		if err != nil {
			return
		}
		w := statebackend.Workspace{Name: name, Record: &statebackend.Record{Tags: map[string]string{"a": "b"}}}
		if filter.takesWorkspace(w) && !strings.Contains(name, q.Get("search[name]")) {
			t.Errorf("%q takes %q", query, name)
		}
	})
}
