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
}

// TestPictures writes the main pages for people to look at: make screenshots. No
// test compares them.
func TestPictures(t *testing.T) {
	dir := os.Getenv("OKARA_SCREENSHOTS")
	if dir == "" {
		t.Skip("OKARA_SCREENSHOTS names no directory for pictures")
	}
	b := webtest.New(t)
	s := newSite(t, access.AnonymousRead()...)
	s.full(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	vpc := "modules/net/vpc/aws/1.10.0"
	for name, path := range map[string]string{
		"home": "", "search": "search?q=vpc", "nothing": "search?q=vpx", "module": vpc, "inputs": vpc + "/inputs", "dependencies": vpc + "/dependencies",
		"usage": vpc + "/usage", "security": vpc + "/security", "files": vpc + "/files", "file": vpc + "/files/main.tf", "versions": "modules/net/vpc/aws/versions",
		"compare": "modules/net/vpc/aws/compare", "large": "modules/net/large/aws/1.0.0/inputs", "bare": "modules/net/bare/aws/1.0.0/security",
		"provider": "providers/acme/dns", "keys": "providers/acme/dns/1.2.3/keys", "docs": "providers/acme/dns/1.2.3/docs/resources/record",
	} {
		for _, look := range []webtest.Look{{Width: 1280, Theme: "light", Script: true}, {Width: 1280, Theme: "dark", Script: true}, {Width: 375, Theme: "light", Script: true}, {Width: 375, Theme: "dark", Script: true}} {
			b.Picture(t, s.URL+"/ui/"+path, filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, look.Theme, look.Width)), look)
		}
	}
}
