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
	if dir := os.Getenv("OKARA_SCREENSHOTS"); dir != "" {
		pictures(t, b, s, dir)
	}
}

// pictures writes the main pages, for people to look at.
func pictures(t *testing.T, b *webtest.Browser, s *site, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"home": "", "search": "search?q=vpc", "nothing": "search?q=vpx", "module": "modules/net/vpc/aws", "inputs": "modules/net/vpc/aws/1.10.0/inputs",
		"usage": "modules/net/vpc/aws/1.10.0/usage", "compare": "modules/net/vpc/aws/compare", "provider": "providers/acme/dns", "me": "me", "versions": "modules/net/vpc/aws/versions",
		"dependencies": "modules/net/vpc/aws/1.10.0/dependencies",
	} {
		for _, look := range []webtest.Look{{Width: 1280, Theme: "light", Script: true}, {Width: 1280, Theme: "dark", Script: true}, {Width: 375, Theme: "light", Script: true}, {Width: 375, Theme: "dark", Script: true}} {
			b.Picture(t, s.URL+"/ui/"+path, filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, look.Theme, look.Width)), look)
		}
	}
}
