// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// personal is the token of the user who launches.
const personal = "oks_anna_bbbbbbbbbbbbbbbbbbbbbbbb"

// visit opens a page as a user who may launch, logging in on the way.
func visit(t *testing.T, b *webtest.Browser, script bool, path string) (*portaltest.Pages, *webtest.Tab) {
	t.Helper()
	d := portaltest.NewPages(t, func(_ *portal.Options, p *access.Policy) { p.Tokens = []statictoken.Token{annasToken(t)} })
	return d, logged(t, b, d, script, path)
}

func annasToken(t *testing.T) statictoken.Token {
	t.Helper()
	return statictoken.Token{ID: "anna", Hash: sha256.Sum256([]byte(personal)), Scopes: webtest.Rule(t, "use", "use:instance:lab/*").Allow}
}

// logged opens a page, logged in with that token.
func logged(t *testing.T, b *webtest.Browser, d *portaltest.Pages, script bool, path string) *webtest.Tab {
	t.Helper()
	return loggedAs(t, b, d, personal, script, path)
}

func loggedAs(t *testing.T, b *webtest.Browser, d *portaltest.Pages, token string, script bool, path string) *webtest.Tab {
	t.Helper()
	tab := b.Tab(t, d.Pages.URL+"/ui/"+path, webtest.Look{Width: 1280, Theme: "light", Script: script})
	tab.Wait("A token of this server")
	tab.To("Token")
	tab.Press(token)
	tab.Enter()
	return tab
}

// launch fills the form behind a link, sends it, and returns the id of the instance, whose
// page is then open.
func launch(t *testing.T, b *webtest.Browser, script bool) (d *portaltest.Pages, tab *webtest.Tab, id string) {
	t.Helper()
	d, tab = visit(t, b, script, "run/lab/vpc?p.size=large")
	tab.Wait("The link that you followed")
	tab.To("Name")
	tab.Press("net one")
	tab.To("Lifetime")
	tab.To("Launch")
	tab.Enter()
	tab.Wait("Log of run 1")
	return d, tab, strings.TrimPrefix(tab.Path(), "/ui/instances/")
}
