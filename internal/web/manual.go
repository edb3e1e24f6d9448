// SPDX-License-Identifier: Apache-2.0

package web

import (
	"html/template"
	"path"
	"strings"

	"github.com/seed-141914ff/okara/internal/manual"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// manuals show okara's own documentation, of the version that runs, to everybody.
type manuals struct{ text *markdown.Renderer }

type manualBody struct {
	Query    string
	Found    []site.Link // for Query
	Text     template.HTML
	Contents []markdown.Heading
}

func (m manuals) addRoutes(r *site.Routes) {
	r.Open("GET /ui/docs/{page...}", m.show)
	r.Open("GET /ui/docs", m.show)
}

func (m manuals) show(r *site.Request) (*site.Page, error) {
	name := r.PathValue("page")
	body := manualBody{Query: text.Clip(r.URL.Query().Get("q"), 200)}
	if name == "" && body.Query != "" {
		for _, p := range manual.Search(body.Query) {
			body.Found = append(body.Found, site.Link{Text: p.Title, Href: "docs/" + p.Name})
		}
		return &site.Page{Template: "manual.html", Title: "Search in the documentation", Crumbs: documentation, Body: body}, nil
	}
	if name == "" {
		name = manual.Index
	}
	p, ok := manual.Get(name)
	if !ok {
		return nil, site.NotFound("the documentation has no page %q", name)
	}
	root := site.Up(r.URL.Path) + "docs/"
	_, prose, _ := strings.Cut(p.Text, "\n") // the title is the heading of the page
	doc := m.text.Render(prose, markdown.Location{Key: root + path.Dir(p.Name), Dir: path.Dir(p.Name), File: func(name string, image bool) string {
		if name, isPage := strings.CutSuffix(name, ".md"); isPage && !image {
			return root + site.EscapePath(name)
		}
		return ""
	}})
	body.Text, body.Contents = doc.HTML, doc.Headings
	return &site.Page{Template: "manual.html", Title: p.Title, Crumbs: documentation, Body: body, Command: "okara docs " + p.Name}, nil
}

var documentation = []site.Link{{Text: "Documentation", Href: "docs/"}}
