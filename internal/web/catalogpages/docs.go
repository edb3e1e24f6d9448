// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"html/template"
	"net/url"
	"path"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// docsBody is one page of a provider's documentation, with links to all pages.
type docsBody struct {
	Groups    []docsGroup
	All       int    // number of pages of the version
	Query     string // names in Groups contain it
	Title     string
	Sort      string // kind of page
	Text      template.HTML
	Contents  []markdown.Heading
	Cut       bool
	AsWritten bool   // Text is not rendered
	Problem   string // why there is no documentation
}

// docsGroup has the pages of a kind, or of a subcategory of it.
type docsGroup struct {
	Title string
	Open  bool // the group contains the current page
	Rows  []site.Tab
}

// renderDocs renders the page at a path, or the first page. Base is the page of the version.
func (s *providers) renderDocs(r *site.Request, pv *catalog.ProviderVersion, of addr.Provider, base, at string) (docsBody, error) {
	docs, err := s.catalog.Docs(r.Context(), pv)
	switch {
	case err != nil:
		return docsBody{}, err
	case docs == nil || docs.Broken == nil && len(docs.Pages) == 0:
		return docsBody{}, site.NotFound("this version has no documentation")
	case docs.Broken != nil:
		return docsBody{Problem: docs.Broken.Error()}, nil
	}
	p := docs.Pages[0]
	ok := true
	if at != "" {
		if p, ok = docs.Page(at); !ok { // a result of a search names the resource only
			p, ok = docs.Page(strings.Replace(at, "resources/", "data-sources/", 1))
		}
	}
	if !ok {
		return docsBody{}, site.NotFound("the documentation has no page %q", at)
	}
	root := site.Up(r.URL.Path) + base + "/docs/"
	shown := p.Text
	if of.Hostname == "" { // not a mirrored one, which keeps its address
		shown = sourceHere(shown, s.usageExamples.hosts.Of(r), of.String())
	}
	doc := s.text.Render(shown, markdown.Location{Key: root + path.Dir(p.Path), Dir: path.Dir(p.Path), File: func(name string, image bool) string {
		for _, ending := range []string{".html.markdown", ".html.md", ".markdown", ".md", ".html"} {
			name = strings.TrimSuffix(name, ending)
		}
		if _, ok := docs.Page(name); !ok || image {
			return "" // the documentation has no images
		}
		return root + site.EscapePath(name)
	}})
	query := text.Clip(r.URL.Query().Get("q"), maxQuery)
	return docsBody{
		Groups: docsGroups(docs.Docs, of.Type, base, p, query), All: len(docs.Pages), Query: query, Title: p.Name(of.Type), Sort: string(p.Kind),
		Text: doc.HTML, Contents: doc.Headings, Cut: p.Cut || doc.Cut, AsWritten: doc.AsWritten,
	}, nil
}

// Searched reports whether there are enough pages for a search field.
func (b docsBody) Searched() bool { return b.All > manyPages }

// manyPages is the number of links that fit beside a page.
const manyPages = 30

// docsGroups groups the pages whose names contain the query by kind and subcategory.
// Links keep the query.
func docsGroups(docs *description.Docs, typ, base string, at description.Page, query string) []docsGroup {
	plural := map[description.Kind]string{
		description.Overview: "Overview", description.Guide: "Guides", description.Resource: "Resources", description.Data: "Data sources",
		description.Ephemeral: "Ephemeral resources", description.Function: "Functions", description.List: "List resources", description.Act: "Actions",
	}
	with := ""
	if query != "" {
		with = "?q=" + url.QueryEscape(query)
	}
	var all []docsGroup
	for _, p := range docs.Pages {
		name := p.Name(typ)
		if !strings.Contains(strings.ToLower(name), strings.ToLower(query)) {
			continue
		}
		title := plural[p.Kind]
		if p.Subcategory != "" {
			title += ": " + p.Subcategory
		}
		if n := len(all); n == 0 || all[n-1].Title != title {
			all = append(all, docsGroup{Title: title})
		}
		g := &all[len(all)-1]
		here := p.Path == at.Path
		g.Open = g.Open || here || query != ""
		g.Rows = append(g.Rows, site.Tab{Link: site.Link{Text: name, Href: base + "/docs/" + site.EscapePath(p.Path) + with}, Here: here})
	}
	return all
}
