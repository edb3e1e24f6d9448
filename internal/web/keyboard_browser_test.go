// SPDX-License-Identifier: Apache-2.0

//go:build browser

package web_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestBrowserKeyboard finds a module with the keyboard only, opens another version of it,
// copies its example and compares two versions; without script the same, except copying.
//
// Shows: pages 14 | by keyboard alone: find, copy, compare; log in and out; launch, watch, extend,
// destroy; approve
func TestBrowserKeyboard(t *testing.T) {
	b := webtest.New(t)
	s := New(t, rights.AnonymousRead()...)
	s.full(t)
	for name, look := range map[string]webtest.Look{"script": {Width: 1280, Theme: "light", Script: true}, "no script": {Width: 375, Theme: "dark"}} {
		t.Run(name, func(t *testing.T) {
			p := b.Tab(t, s.URL+"/ui/", look)
			p.To("Search")
			p.Press("vpc")
			p.Enter()
			p.Wait("found for")
			p.To("net/vpc/aws")
			p.Enter()
			p.Wait("Version 1.10.0")
			p.To("Version 1.10.0")
			p.Enter()
			p.To("1.0.0")
			p.Enter()
			p.Wait("Version 1.0.0")
			if look.Script { // the script adds the button
				copied := p.Clipboard()
				p.To("Copy")
				p.Enter()
				if text := copied(); !strings.Contains(text, "okara.example.com/net/vpc/aws") || strings.Contains(text, "Copy") {
					t.Errorf("copied is %q", text)
				}
			}
			p.To("Compare versions")
			p.Enter()
			p.Wait("break callers")
			if path := p.Path(); !strings.Contains(path, "/compare") {
				t.Errorf("the comparison is at %s", path)
			}
		})
	}
}

// TestBrowserSearch: "/", suggestions, facets, documented resources; without script all but
// suggestions.
func TestBrowserSearch(t *testing.T) {
	b := webtest.New(t)
	s := newGallery(t)
	pages, api := s.Config.Handler, http.NewServeMux()
	api.Handle("/", pages)
	api.HandleFunc("GET /api/v1/search", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("q") == "netw" {
			_, _ = io.WriteString(w, `{"results":[{"kind":"module","address":"net/network/aws","description":"</option><b>A network"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"results":[]}`)
	})
	s.Config.Handler = api
	for _, look := range []webtest.Look{{Width: 1440, Theme: "light", Script: true}, {Width: 375, Theme: "dark", Script: true}, {Width: 375, Theme: "dark"}} {
		look.Token = callerToken(admin)
		p := b.Tab(t, s.URL+"/ui/modules/net", look)
		p.Wait("net/network/aws")
		if look.Script {
			p.Press("/")
			p.Focused("Search")
			p.Press("netw")
			p.Offered("net/network/aws")
		} else {
			p.To("Search")
			p.Press("netw")
		}
		p.Enter()
		p.Wait("found for")
		p.Go(s.URL + "/ui/search?q=service")
		p.Wait("34 found")
		p.Go(s.URL + "/ui/search?q=aws")
		p.Wait("Namespace")
		p.To("data")
		p.Enter()
		p.Wait("2 found for")
		p.To("any Namespace")
		p.Go(s.URL + "/ui/search?q=dns_record")
		p.Wait("acme/dns")
		p.Go(s.URL + "/ui/search?q=peering") // a word of a readme
		p.Wait("net/network/aws")
	}
}
