// SPDX-License-Identifier: Apache-2.0

package web

import (
	"embed"
	"net/http"
	"time"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/web/catalogpages"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/internal/web/statepages"
)

// Options configure the pages. Kit, Catalog and Finder are required.
type Options struct {
	Kit       *service.Kit
	Catalog   *catalog.Catalog
	Finder    *catalog.Finder
	Downloads catalogpages.Downloads // nil: not counted
	Off       Parts                  // parts of the pages that are off
	States    *states.States         // nil: no pages of states
	Archives  catalogpages.Archives  // of modules and providers; nil: pages do not show their files
	Registry  string                 // of the artifacts, for oci:// addresses: HOST[:PORT]; "": the host that the browser used
	Hostname  string                 // name that clients use for this server; "": the host that the browser used
	Version   string                 // of okara
	Replica   string                 // host name of this machine; "": pages do not show it
	// ImageHosts are other hosts whose images READMEs show: HOST, *.DOMAIN, HOST:PORT,
	// only by https. If there are none, such an image is a link.
	ImageHosts []string
	Instances  site.Set      // pages of templates and instances; the zero value has none
	Runs       site.Set      // pages of runs of workspaces, which belong to those of states
	Uses       Uses          // of modules and providers by states; nil: unknown
	Doctor     Doctor        // of this replica; nil: no doctor page
	Audit      *auditlog.Log // of all replicas; nil: no audit page
	Depot      Depot         // nil: no depot page
	Now        func() time.Time
}

// Parts are the parts of the pages that are off: their addresses answer 404, and the menu
// does not have them. Login, "Me" and error pages are always on.
type Parts struct{ Catalog, States, Instances, Depot, Doctor, Audit bool }

//go:embed templates/*.html
var templateFiles embed.FS

// New returns the handler for everything below /ui/.
func New(o Options) (http.Handler, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := markdown.CheckImageHosts(o.ImageHosts); err != nil {
		return nil, err
	}
	return site.New(site.Options{
		Kit: o.Kit, Sets: pageSets(o), Version: o.Version, Replica: o.Replica, Search: !o.Off.Catalog, Images: markdown.ImageHosts(o.ImageHosts).Policy(), Now: o.Now,
	})
}

// pageSets returns the sets of pages that are on, in the order of the menu.
func pageSets(o Options) []site.Set {
	renders := site.NewRenderLimiter()
	if o.Off.Instances {
		o.Instances = site.Set{}
	}
	var all []site.Set
	var uses *usesPages
	beside := o.Instances
	if o.Uses != nil && o.States != nil && !o.Off.States {
		uses = &usesPages{uses: o.Uses, layout: o.States.Layout(), hosts: hostsOf(o), clock: o.Now}
		beside.Home = uses.homeSection(beside.Home)
		o.Runs.State = uses.stateLinks(o.Runs.State)
		all = append(all, site.Set{Routes: uses.addUsesRoutes})
	}
	if o.Off.Catalog {
		all = append(all, site.Set{Routes: func(r *site.Routes) { r.Show("GET /ui/{$}", site.List, firsts{o.Instances}.show) }})
	} else {
		all = append(all, catalogpages.New(catalogpages.Options{
			Catalog: o.Catalog, Finder: o.Finder, Downloads: o.Downloads, Archives: o.Archives, Hosts: hostsOf(o), Images: o.ImageHosts, Renders: renders, Beside: beside, Uses: uses != nil, Now: o.Now,
		}))
	}
	if o.States != nil && !o.Off.States {
		all = append(all, statepages.New(statepages.Options{States: o.States, Hosts: hostsOf(o), Renders: renders, Now: o.Now, Beside: o.Runs}), o.Runs)
	}
	all = append(all, o.Instances)
	if o.Depot != nil && !o.Off.Depot {
		d := &depots{depot: o.Depot, hosts: hostsOf(o), clock: o.Now}
		all = append(all, site.Set{Menu: adminEntries("Depot", "depot"), Routes: d.addRoutes})
	}
	if o.Doctor != nil && !o.Off.Doctor {
		d := &doctors{doctor: o.Doctor, now: o.Now}
		all = append(all, site.Set{Menu: adminEntries("Doctor", "doctor"), Routes: d.addRoutes})
	}
	if o.Audit != nil && !o.Off.Audit {
		a := &audits{auditLog: o.Audit, clock: o.Now}
		all = append(all, site.Set{Menu: adminEntries("Audit", "audit"), Routes: a.addRoutes})
	}
	all = append(all, site.Set{Routes: manuals{markdown.New(o.Now, nil)}.addRoutes})
	return append(all, site.Set{Templates: templateFiles, Routes: (&logins{kit: o.Kit, guard: o.Kit.Guard, rate: service.NewRate(maxLogins, o.Now), hosts: hostsOf(o)}).addRoutes})
}

func hostsOf(o Options) site.Hosts { return site.Hosts{Server: o.Hostname, Registry: o.Registry} }

// adminEntries returns a menu entry for administrators only.
func adminEntries(text, path string) func(*site.Request) []site.Entry {
	return func(r *site.Request) []site.Entry {
		if !r.Grant.May(rights.Server()) {
			return nil
		}
		return []site.Entry{{Link: site.Link{Text: text, Href: path}}}
	}
}
