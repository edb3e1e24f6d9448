// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestKeyboardCatalog finds a module by keyboard alone, goes to another version of it,
// copies its snippet and compares two. The same goes without script, but to copy.
func TestKeyboardCatalog(t *testing.T) {
	b := webtest.New(t)
	s := New(t, access.AnonymousRead()...)
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
			if look.Script { // the button is made by it
				copied := p.Clipboard()
				p.To("Copy")
				p.Enter()
				if text := copied(); !strings.Contains(text, "okara.example.com/net/vpc/aws") || strings.Contains(text, "Copy") {
					t.Errorf("copied is %q", text)
				}
			}
			p.To("Compare versions")
			p.Enter()
			p.Wait("can break a caller")
			if path := p.Path(); !strings.Contains(path, "/compare") {
				t.Errorf("the comparison is at %s", path)
			}
		})
	}
}
