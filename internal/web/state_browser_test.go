// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestBrowserStates follows every link between the pages of states, in both themes
// and down to a narrow screen.
func TestBrowserStates(t *testing.T) {
	b := webtest.New(t)
	s := newStateSite(t, access.AnonymousAll()...)
	s.shop(t)
	for _, look := range []webtest.Look{{Width: 1280, Theme: "light", Script: true}, {Width: 375, Theme: "dark", Script: true}, {Width: 320, Theme: "light"}} {
		t.Run(fmt.Sprintf("%s %d", look.Theme, look.Width), func(t *testing.T) {
			pages := b.Crawl(t, s.URL+"/ui/states", look, 60)
			if len(pages) < 25 {
				t.Errorf("only %d pages were found", len(pages))
			}
			for _, p := range pages {
				if p.Bytes > 100<<10 {
					t.Errorf("%s loads %d bytes", p.URL, p.Bytes)
				}
			}
		})
	}
}

// TestPicturesStates writes the pages of states, and those of who runs the server, for
// people to look at: make screenshots. No test compares them.
func TestPicturesStates(t *testing.T) {
	dir := os.Getenv("OKARA_SCREENSHOTS")
	if dir == "" {
		t.Skip("OKARA_SCREENSHOTS names no directory for pictures")
	}
	b := webtest.New(t)
	s := newStateSite(t, access.AnonymousAll()...)
	s.shop(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"states": "states", "state": "states/shop", "workspace": "states/shop/default", "locked": "states/shop/locked", "sealed": "states/shop/sealed",
		"history": "states/shop/default/history", "diff": "states/shop/default/diff", "resources": "states/shop/default/2/resources",
		"resource": "states/shop/default/2/resources?address=aws_db_instance.main", "reveal": "states/shop/default/2/reveal?address=aws_db_instance.main&path=password",
		"doctor": "doctor", "audit": "audit", "decisions": "audit?what=decisions", "audit-nothing": "audit?actor=nobody",
	} {
		for _, look := range []webtest.Look{{Width: 1280, Theme: "light", Script: true}, {Width: 1280, Theme: "dark", Script: true}, {Width: 375, Theme: "light", Script: true}, {Width: 375, Theme: "dark", Script: true}} {
			b.Picture(t, s.URL+"/ui/"+path, filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, look.Theme, look.Width)), look)
		}
	}
}
