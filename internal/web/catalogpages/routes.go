// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"embed"
	"net/http"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// Options configure the pages of the catalog. Catalog and Finder are required.
type Options struct {
	Catalog   *catalog.Catalog
	Finder    *catalog.Finder
	Downloads Downloads // nil: not counted
	Archives  Archives  // of modules and providers; nil: pages do not show their files
	Hosts     site.Hosts
	Images    []string // hosts whose images READMEs show
	Renders   site.RenderLimiter
	Uses      bool     // another set has pages of who uses an item
	Beside    site.Set // content for the first page, and for that of a module
	Now       site.Clock
}

//go:embed templates/*.html
var templates embed.FS

// New returns the pages of the catalog.
func New(o Options) site.Set {
	text := markdown.New(o.Now, o.Images)
	counts := counts{o.Downloads}
	search := &searches{catalog: o.Catalog, finder: o.Finder, find: o.Beside.Find, counts: counts, clock: o.Now}
	home := &homes{searches: search, beside: o.Beside, hosts: o.Hosts}
	history := &versions{catalog: o.Catalog, counts: counts, clock: o.Now, uses: o.Uses}
	evidence := &evidences{catalog: o.Catalog, archives: o.Archives}
	usageExamples := usageExamples{o.Catalog, o.Hosts}
	m := &modules{
		catalog: o.Catalog, text: text, files: newFiles(o.Archives, text, o.Renders, o.Now), versions: history, evidences: evidence, usageExamples: usageExamples,
		requirements: requirements{o.Catalog, o.Hosts}, callers: callerSearch{search, o.Beside, o.Hosts}, hosts: o.Hosts,
	}
	p := &providers{catalog: o.Catalog, archives: o.Archives, text: text, versions: history, evidences: evidence, usageExamples: usageExamples, now: o.Now}
	return site.Set{
		Templates: templates,
		Menu:      func(*site.Request) []site.Entry { return []site.Entry{{Link: site.Link{Text: "Catalog"}}} },
		Routes: func(r *site.Routes) {
			r.Show("GET /ui/{$}", site.List, home.show) // lists only readable items
			r.Show("GET /ui/search", site.List, search.show)
			r.Show("GET /ui/modules/{namespace}/{$}", site.List, search.namespace) // 404 without a readable module
			r.Show("GET /ui/modules/{namespace}", site.List, search.namespace)
			m.addRoutes(r)
			p.addRoutes(r)
		},
	}
}

func (m *modules) addRoutes(r *site.Routes) {
	const at = "GET /ui/modules/{namespace}/{name}/{system}"
	r.Show(at, moduleRead, m.show)
	r.Show(at+"/{version}", moduleRead, m.show)
	r.Show(at+"/{version}/{tab}", moduleRead, m.show)
	r.Send(at+"/{version}/files/{path...}", moduleRead, m.showFile)
	r.Show(at+"/{version}/submodules/{path...}", moduleRead, m.submodule)
	r.Show(at+"/{version}/examples/{path...}", moduleRead, m.submodule)
	r.Show(at+"/versions", moduleRead, m.listModuleVersions)
	r.Show(at+"/downloads", moduleRead, m.downloads)
	r.Show(at+"/compare", moduleRead, m.compareVersions)
	r.Send(at+"/badge.svg", moduleRead, m.sendBadge)
}

// addRoutes adds the pages of providers, mirrored ones included.
func (p *providers) addRoutes(r *site.Routes) {
	for _, at := range []string{"GET /ui/providers/{namespace}/{type}", "GET /ui/mirror/{hostname}/{namespace}/{type}"} {
		r.Show(at, providerRead, p.show)
		r.Show(at+"/downloads", providerRead, p.downloads)
		r.Show(at+"/{version}", providerRead, p.show)
		r.Show(at+"/{version}/{tab}", providerRead, p.show)
		r.Show(at+"/{version}/docs/{path...}", providerRead, p.show)
	}
}

// showFile shows a file of a module, or with ?raw=1 sends the bytes of an image.
func (m *modules) showFile(r *site.Request, w http.ResponseWriter) error {
	if r.URL.Query().Get("raw") != "" {
		return m.image(r, w)
	}
	p, err := m.show(r)
	if err != nil {
		return err
	}
	return r.Answer(w, p)
}
