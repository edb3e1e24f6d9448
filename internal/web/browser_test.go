// SPDX-License-Identifier: Apache-2.0

//go:build browser

package web_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// newBusy is a server with everything that pages show, hostile data included.
func newBusy(t *testing.T) *whole {
	t.Helper()
	w := newWholeOf(t, portaltest.Shop, map[string][]string{
		reader:    {"read:module:team/**", "read:state:shop", "use:instance:lab/*"},
		publisher: {"publish:module:net/vpc/*", "read:provider:**", "approve:instance:lab/*"},
		wrong:     {"read:module:elsewhere/**", "read:state:elsewhere", "use:instance:elsewhere/*"},
	})
	w.full(t)
	w.module(t, "net/old/aws", "0.1.0", map[string]string{"main.tf": ""}) // the depot knows it
	w.module(t, "team/tool/aws", "1.0.0", map[string]string{"main.tf": `variable "name" {}`, "README.md": "# Tool\n"})
	w.mirror(t)
	w.shop(t)
	w.runs(t, "shop", "default")
	w.api.Results.Begin()
	w.depots.fill(w.now)
	d := &portaltest.Pages{Server: w.api, Tokens: map[string]string{"anna": callerToken(reader), "ben": w.api.Issuer.Token(t, "ben", "use", "team-b")}}
	w.ids = d.Full(t)
	w.start(t)
	return w
}

// TestBrowser follows every link as five callers, by keyboard, themes, widths, with script and
// without: no problems, nothing kept for scripts, no tag changed.
//
// Shows: pages 13 | a real browser as five kinds of callers who log in, wide and narrow, light and
// dark, with scripts and without: empty console, no failed request, no horizontal overflow,
// contrast, a visible focus, names, headings and landmarks of the accessibility tree
// Shows: page-mistakes 5 | a huge default breaks the table; tested with 20 KB at 320 px |
// terraform-aws-modules/terraform-aws-security-group#241
// Shows: page-mistakes 7
// Shows: page-mistakes 8 | a GET that changes something; here tags and ledger stay the same | Dploy
// Shows: opendepot 19
func TestBrowser(t *testing.T) {
	b := webtest.New(t)
	w := newBusy(t)
	tags, commits := w.tags(t), w.api.Store.Commits()
	for _, c := range []struct {
		caller string
		script bool
		least  int // pages
	}{{nobody, true, 3}, {wrong, true, 4}, {publisher, false, 50}, {reader, false, 50}, {admin, true, 150}} {
		t.Run("as "+c.caller, func(t *testing.T) {
			p := b.Tab(t, w.URL+"/ui/login", webtest.Look{Width: 1280, Theme: "light", Script: c.script})
			if c.caller != nobody {
				logIn(p, callerToken(c.caller))
			}
			pages := p.Crawl(w.URL+"/ui/", 400)
			bytes := 0
			for _, page := range pages {
				bytes = max(bytes, page.Bytes)
			}
			t.Logf("%d pages, %d bytes the largest", len(pages), bytes)
			if len(pages) < c.least || bytes > 100<<10 {
				t.Errorf("%d pages, at least %d, %d bytes the largest", len(pages), c.least, bytes)
			}
			p.Untraced(c.caller != nobody, callerToken(c.caller))
		})
	}
	w.unchanged(t, tags, commits)
}

// TestBrowserHome: search has the focus; it leads to launching and approving, modules to templates.
func TestBrowserHome(t *testing.T) {
	b := webtest.New(t)
	w := newBusy(t)
	for _, script := range []bool{true, false} {
		as := func(caller string) *webtest.Tab {
			p := b.Tab(t, w.URL+"/ui/login?return=/ui/", webtest.Look{Width: 1280, Theme: "light", Script: script})
			logIn(p, callerToken(caller))
			return p
		}
		p := as(reader)
		p.To("Search")
		p.Press("tool")
		p.Enter()
		p.Wait("1 found for")
		p.Go(w.URL + "/ui/")
		p.Wait("Your instances")
		p.To("Launch PostgreSQL")
		p.Enter()
		p.Wait("Launch PostgreSQL")
		p.To("Name")
		p = as(publisher)
		p.Wait("Needs your approval")
		p.To("load test")
		p.Enter()
		p.Wait("The plan is ready")
		p.To("Review and approve …")
		p.Enter()
		p.Wait("Exactly this plan is applied")
		p = as(admin)
		p.Go(w.URL + "/ui/modules/net/vpc/aws")
		p.Wait("Inputs")
		p.To("Launch")
		p.To("Version")
		p.To("Launch")
		p.Enter()
		p.Wait("Templates of the module net/vpc/aws")
	}
}

// logIn enters a token on the login page, with the keyboard.
func logIn(p *webtest.Tab, token string) {
	p.Wait("A token of this server")
	p.To("Token")
	p.Press(token)
	p.Enter()
	p.Wait("Me: ")
}

// TestBrowserLogin: with a token and at an issuer no token is in an address, a page or storage.
//
// Shows: pages 6
// Shows: pages 14
// Shows: page-mistakes 7 | tokens in URLs and in storage that scripts can read | Dploy
func TestBrowserLogin(t *testing.T) {
	b := webtest.New(t)
	sessions := func() *access.Sessions { return &access.Sessions{Keyring: ring(t, "s"), Plain: true} }
	for _, look := range []webtest.Look{{Width: 1440, Theme: "light", Script: true}, {Width: 375, Theme: "dark", Script: true}, {Width: 375, Theme: "dark"}} {
		t.Run("token", func(t *testing.T) {
			h := newHouse(t, access.Options{Policy: access.Policy{Tokens: tokens()}, Sessions: sessions()}, "")
			p := b.Tab(t, h.URL+"/ui/search?q=vpc", look)
			logIn(p, annaToken)
			cameBack(t, p, annaToken)
		})
		t.Run("issuer", func(t *testing.T) {
			i := webtest.NewIssuer(t)
			i.Says = teamed
			h := brokered(t, i, sessions(), func(o *access.Options) { o.Login.PublicURL = "" })
			look.Hosts = []string{strings.TrimPrefix(i.URL, "http://")}
			p := b.Tab(t, h.URL+"/ui/search?q=vpc", look)
			p.Wait("Me: Anna")
			cameBack(t, p, "eyJ") // the beginning of each token of an issuer
		})
	}
}

// cameBack checks that a login returned to a search, and logs out.
func cameBack(t *testing.T, p *webtest.Tab, secret string) {
	t.Helper()
	must.Equal(t, "the login led to", p.Path(), "/ui/search?q=vpc")
	p.Untraced(true, secret)
	p.To("Me: ")
	p.Enter()
	p.To("Log out")
	p.Enter()
	p.Wait("You are logged out")
	p.Untraced(false, secret)
}
