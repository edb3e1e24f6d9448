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

// Options is what the pages need. Kit, Catalog and Finder are required.
type Options struct {
	Kit       *service.Kit
	Catalog   *catalog.Catalog
	Finder    *catalog.Finder
	Downloads catalogpages.Downloads // nil: nobody counts
	Off       Parts                  // of them
	States    *states.States         // nil: no page shows a state
	Archives  catalogpages.Archives  // of modules and providers; nil: no page shows what is in one
	Registry  string                 // of the artifacts, for oci:// addresses: HOST[:PORT]; "": the host that the browser used
	Hostname  string                 // by which clients call this server; "": the host that the browser used
	Version   string                 // of okara
	Replica   string                 // that answers, by the name of its machine; "": no page names it
	// ImageHosts are other hosts whose images READMEs show: HOST, *.DOMAIN, HOST:PORT, by
	// https alone. Nil: there are none, and such an image is a link.
	ImageHosts []string
	Instances  site.Set      // pages of templates and instances; none is the zero value
	Runs       site.Set      // pages of runs of workspaces, which belong to those of states
	Doctor     Doctor        // of this replica; nil: no page shows how it is
	Audit      *auditlog.Log // of all replicas; nil: no page shows who changed what
	Depot      Depot         // nil: no page shows what keeps the registry filled
	Now        func() time.Time
}

// Parts are those of the pages that can be off: then they are not found, and the menu
// does not name them. Login, "Me" and the pages of errors are always there.
type Parts struct{ Catalog, States, Instances, Depot, Doctor, Audit bool }

//go:embed templates/*.html
var templateFiles embed.FS

// New returns the pages, for everything below /ui/.
func New(o Options) (http.Handler, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := markdown.CheckImageHosts(o.ImageHosts); err != nil {
		return nil, err
	}
	return site.New(site.Options{
		Kit: o.Kit, Sets: sets(o), Version: o.Version, Replica: o.Replica, Search: !o.Off.Catalog, Images: markdown.ImageHosts(o.ImageHosts).Policy(), Now: o.Now,
	})
}

// sets are those that are there and not off, in the order of the menu.
func sets(o Options) []site.Set {
	renders := &site.RenderLimiter{}
	if o.Off.Instances {
		o.Instances = site.Set{}
	}
	var all []site.Set
	if o.Off.Catalog {
		all = append(all, site.Set{Routes: func(r *site.Routes) { r.Show("GET /ui/{$}", site.List, firsts{o.Instances}.show) }})
	} else {
		all = append(all, catalogpages.New(catalogpages.Options{
			Catalog: o.Catalog, Finder: o.Finder, Downloads: o.Downloads, Archives: o.Archives, Hosts: hostsOf(o), Images: o.ImageHosts, Renders: renders, Beside: o.Instances, Now: o.Now,
		}))
	}
	if o.States != nil && !o.Off.States {
		all = append(all, statepages.New(statepages.Options{States: o.States, Hosts: hostsOf(o), Renders: renders, Now: o.Now, Beside: o.Runs}), o.Runs)
	}
	all = append(all, o.Instances)
	if o.Depot != nil && !o.Off.Depot {
		d := &depots{depot: o.Depot, hosts: hostsOf(o), clock: o.Now}
		all = append(all, site.Set{Menu: administrators("Depot", "depot"), Routes: d.routes})
	}
	if o.Doctor != nil && !o.Off.Doctor {
		d := &doctors{doctor: o.Doctor, now: o.Now}
		all = append(all, site.Set{Menu: administrators("Doctor", "doctor"), Routes: d.routes})
	}
	if o.Audit != nil && !o.Off.Audit {
		a := &audits{auditLog: o.Audit, clock: o.Now}
		all = append(all, site.Set{Menu: administrators("Audit", "audit"), Routes: a.routes})
	}
	return append(all, site.Set{Templates: templateFiles, Routes: newLogins(o).routes})
}

func hostsOf(o Options) site.Hosts { return site.Hosts{Server: o.Hostname, Registry: o.Registry} }

// administrators is an entry of the menu for who runs the server.
func administrators(text, path string) func(*site.Request) []site.Entry {
	return func(r *site.Request) []site.Entry {
		if !r.Grant.May(rights.Server()) {
			return nil
		}
		return []site.Entry{{Link: site.Link{Text: text, Href: path}}}
	}
}
