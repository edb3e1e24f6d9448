// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestBrowser follows every link in a real browser, in both themes, on a wide and
// a narrow screen.
func TestBrowser(t *testing.T) {
	b := webtest.New(t)
	s := newSite(t, access.AnonymousRead()...)
	s.full(t)
	for _, look := range []webtest.Look{{Width: 1280, Theme: "light", Script: true}, {Width: 375, Theme: "dark", Script: true}, {Width: 320, Theme: "light"}} {
		t.Run(fmt.Sprintf("%s %d", look.Theme, look.Width), func(t *testing.T) {
			pages := b.Crawl(t, s.URL+"/ui/", look, 200)
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
