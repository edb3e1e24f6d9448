// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"crypto/sha256"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// formOf is what a browser sends at a button, without script.
func formOf(t *testing.T, body string) url.Values {
	t.Helper()
	page := must.Get(html.Parse(strings.NewReader(body)))(t)
	for node := range page.Descendants() {
		if node.Data != "form" {
			continue
		}
		form := url.Values{}
		for control := range node.Descendants() {
			if content, ok := contentOf(control); ok && attribute(control, "name") != "" {
				form.Add(attribute(control, "name"), content)
			}
		}
		if form.Has("key") {
			return form
		}
	}
	t.Fatalf("no form has a key:\n%s", body)
	return nil
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

// contentOf returns what a control sends; false: it is none, or sends nothing.
func contentOf(n *html.Node) (string, bool) {
	for up := n.Parent; up != nil; up = up.Parent {
		if up.Data == "template" {
			return "", false
		}
	}
	lines := strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n", "\r", "\r\n")
	switch n.Data {
	case "input":
		switch attribute(n, "type") {
		case "checkbox":
			return attribute(n, "value"), has(n, "checked")
		case "hidden":
			return lines.Replace(attribute(n, "value")), true
		}
		return strings.NewReplacer("\r", "", "\n", "").Replace(attribute(n, "value")), true
	case "textarea":
		var b strings.Builder
		for text := range n.Descendants() {
			b.WriteString(text.Data)
		}
		return lines.Replace(b.String()), true
	case "select":
		content, first := "", true
		for option := range n.Descendants() {
			if option.Data == "option" && (first || has(option, "selected")) {
				content, first = attribute(option, "value"), false
			}
		}
		return content, true
	}
	return "", false
}

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
	tab := b.Tab(t, d.Pages.URL+"/ui/"+path, webtest.Look{Theme: "light", Script: script})
	tab.Wait("A token of this server")
	tab.To("Token")
	tab.Press(token)
	tab.Enter()
	return tab
}

// launch fills a link's form, sends it, and returns the id.
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
