// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestRewriteLinks: into the archive, elsewhere, or nowhere.
func TestRewriteLinks(t *testing.T) {
	at := Location{Key: "test", Dir: "docs", File: func(name string, image bool) string {
		if image {
			return "./../modules/a/b/c/1.0.0/files/" + (&url.URL{Path: name}).EscapedPath() + "?raw=1"
		}
		return "./../modules/a/b/c/1.0.0/files/" + (&url.URL{Path: name}).EscapedPath()
	}}
	const files = "./../modules/a/b/c/1.0.0/files/"
	for _, c := range []struct{ name, source, has, not string }{
		{"file beside it", "[x](notes.md)", `href="` + files + `docs/notes.md"`, ""},
		{"file above it", "[x](../main.tf)", `href="` + files + `main.tf"`, ""},
		{"from the top", "[x](/main.tf)", `href="` + files + `main.tf"`, ""},
		{"out of the archive", "[x](../../../me)", "x", "href"},
		{"out of it, escaped", "[x](%2e%2e/%2e%2e/%2e%2e/me)", "x", "href"},
		{"another host without a scheme", "[x](//evil.example.com/)", "x", `href="./`},
		{"image", "![x](net.png)", `<img src="` + files + `docs/net.png?raw=1" alt="x">`, ""},
		{"image in HTML", `<img src=net.png onerror=alert(1) width=10 style=x>`, `width="10"`, "onerror"},
		{"image of a page", `<img src="../../../../ui/me?raw=1">`, "image", "<img"},
		{"image of another host", `<img src="//evil.example.com/x.png">`, "image", "<img"},
		{"image set", `<img src=net.png srcset="https://evil.example.com/x.png 2x">`, "net.png?raw=1", "srcset"},
		{"data", `<img src="data:image/svg+xml,x">`, "", "data:"},
		{"two addresses", `<a href="notes.md" href="javascript:alert(1)">x</a>`, "docs/notes.md", "javascript"},
		{"entities", `<a href="java&#115;cript:alert(1)">x</a>`, "x", "script"},
		{"part", "[x](#part)\n\n## Part\n", `href="#md-part"`, ""},
		{"part of our page", "[x](#main)", `href="#md-main"`, ""},
		{"line", "[x](../main.tf#L10-L12)", `href="` + files + `main.tf#L10"`, ""},
		{"part of a file", "[x](notes.md#a-b)", `href="` + files + `docs/notes.md#md-a-b"`, ""},
		{"picture", `<picture><source media="(prefers-color-scheme: dark)" srcset="dark.png 2x, x.png"><img src=net.png></picture>`, `<source media="(prefers-color-scheme: dark)" srcset="` + files + `docs/dark.png?raw=1">`, "2x"},
		{"own address", `<a href="./../modules/a/b/c/1.0.0/../../../../../me">x</a>`, "x", `../me"`},
		{"mail", "[x](mailto:a@example.com)", `rel="nofollow noopener ugc"`, ""},
		{"a query", "[x](notes.md?raw=1)", `docs/notes.md"`, "raw"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(New(time.Now, nil).renderSource(c.source, at).HTML)
			if !strings.Contains(got, c.has) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("got %s, want %q and not %q", got, c.has, c.not)
			}
		})
	}
}
