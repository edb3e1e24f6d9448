// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/manual"
)

// TestManual: everybody reads the documentation; each page is rendered, and each of its links
// to another page leads there.
func TestManual(t *testing.T) {
	s := New(t)
	link := regexp.MustCompile(`href="\./((?:\.\./)*docs/[^"#]*)`)
	for _, p := range manual.Pages() {
		at := "/ui/docs/" + p.Name
		status, body := s.get(t, at)
		if status != http.StatusOK || strings.Contains(p.Text, "\n## ") && !strings.Contains(body, ` id="md-`) {
			t.Fatalf("%s: %d\n%.400s", at, status, body)
		}
		for _, to := range link.FindAllStringSubmatch(body, -1) {
			u, err := (&url.URL{Path: at}).Parse(to[1])
			if err != nil {
				t.Fatal(err)
			}
			if name, _ := strings.CutPrefix(u.Path, "/ui/docs/"); name != "" {
				if _, ok := manual.Get(name); !ok {
					t.Errorf("%s leads to %s", at, u.Path)
				}
			}
		}
	}
	for at, want := range map[string]string{
		"/ui/docs":                 "all pages",
		"/ui/docs/":                `href="./../docs/use/start"`,
		"/ui/docs/?q=lock+modules": `>Lock modules</a>`,
		"/ui/docs/?q=artefact":     "No page contains",
		"/ui/docs/nothing":         "the documentation has no page",
	} {
		if _, body := s.get(t, at); !strings.Contains(body, want) {
			t.Errorf("%s:\n%s", at, body)
		}
	}
}
