// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/seed-141914ff/okara/internal/must"
)

// formOf returns what a browser without script sends if somebody presses the button of the
// form with a key on a page: the content of each control as the page shows it.
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
