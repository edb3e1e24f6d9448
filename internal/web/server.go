// SPDX-License-Identifier: Apache-2.0

package web

import (
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/trail"
)

// Options is what the pages need. Kit, Catalog and Finder are required.
type Options struct {
	Kit       *service.Kit
	Catalog   *catalog.Catalog
	Finder    *catalog.Finder
	Downloads Downloads      // nil: nobody counts
	Off       Parts          // of them
	States    *states.States // nil: no page shows a state
	Archives  Archives       // of modules and providers; nil: no page shows what is in one
	Registry  string         // of the artifacts, for oci:// addresses: HOST[:PORT]; "": the host that the browser used
	Hostname  string         // by which clients call this server; "": the host that the browser used
	Version   string         // of okara
	Replica   string         // that answers, by the name of its machine; "": no page names it
	// ImageHosts are other hosts whose images READMEs show: HOST, *.DOMAIN, HOST:PORT, by
	// https alone. Nil: there are none, and such an image is a link.
	ImageHosts []string
	// Instances is the API of templates and instances, all of /api/v1/, which their
	// pages ask as who asks them; nil: there are no such pages. Mine answers the same
	// from what this replica knows, maybe a little late, for the counter on all pages;
	// nil: there is none.
	Instances, Mine http.Handler
	Doctor          Doctor       // of this replica; nil: no page shows how it is
	Audit           *trail.Trail // of all replicas; nil: no page shows who changed what
	Depot           Depot        // nil: no page shows what keeps the registry filled
	Now             func() time.Time
}

// server answers the pages. It keeps nothing but texts that it rendered.
type server struct {
	o         Options
	templates map[string]*template.Template
	assets    assetSet
	markdown  *markdown
	files     *files
	cross     *http.CrossOriginProtection
	logins    *service.Rate // of who brings a token, by address
	cold      *cold
	policy    string // of content, of all pages
}

// New returns the pages, for everything below /ui/.
func New(o Options) (http.Handler, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := CheckImageHosts(o.ImageHosts); err != nil {
		return nil, err
	}
	templates, err := readTemplates()
	if err != nil {
		return nil, err
	}
	assets, err := newAssets()
	if err != nil {
		return nil, err
	}
	cold := &cold{}
	s := &server{
		o: o, templates: templates, assets: assets, markdown: newMarkdown(o.Now, o.ImageHosts), files: newFiles(o, cold), cold: cold,
		cross: http.NewCrossOriginProtection(), logins: service.NewRate(maxLogins, o.Now), policy: contentPolicy(o.ImageHosts),
	}
	return s.routes(), nil
}

// routes is every page, with the right that it takes.
func (s *server) routes() http.Handler {
	mux := s.o.Kit.Mux()
	show := func(pattern string, answer func(*request) (*page, error)) { mux.Handle(pattern, s.page(answer)) }

	show("GET /ui/{$}", s.home)                                   // lists what may be read
	show("GET /ui/search", s.search)                              // the same
	show("GET /ui/modules/{namespace}/{$}", s.namespace)          // at least one module that may be read
	show("GET /ui/modules/{namespace}", s.namespace)              //
	show("GET /ui/modules/{namespace}/{name}/{system}", s.module) // read:module
	show("GET /ui/modules/{namespace}/{name}/{system}/{version}", s.module)
	show("GET /ui/modules/{namespace}/{name}/{system}/{version}/{tab}", s.module)
	mux.Handle("GET /ui/modules/{namespace}/{name}/{system}/{version}/files/{path...}", s.moduleFile())
	show("GET /ui/modules/{namespace}/{name}/{system}/{version}/submodules/{path...}", s.submodule)
	show("GET /ui/modules/{namespace}/{name}/{system}/{version}/examples/{path...}", s.submodule)
	show("GET /ui/modules/{namespace}/{name}/{system}/versions", s.moduleVersions)
	show("GET /ui/modules/{namespace}/{name}/{system}/downloads", s.moduleDownloads)
	show("GET /ui/modules/{namespace}/{name}/{system}/compare", s.compare)
	show("GET /ui/providers/{namespace}/{type}", s.provider) // read:provider
	show("GET /ui/providers/{namespace}/{type}/downloads", s.providerDownloads)
	show("GET /ui/providers/{namespace}/{type}/{version}", s.provider)
	show("GET /ui/providers/{namespace}/{type}/{version}/{tab}", s.provider)
	show("GET /ui/providers/{namespace}/{type}/{version}/docs/{path...}", s.provider)
	show("GET /ui/mirror/{hostname}/{namespace}/{type}", s.provider) // read:mirror
	show("GET /ui/mirror/{hostname}/{namespace}/{type}/downloads", s.providerDownloads)
	show("GET /ui/mirror/{hostname}/{namespace}/{type}/{version}", s.provider)
	show("GET /ui/mirror/{hostname}/{namespace}/{type}/{version}/{tab}", s.provider)
	show("GET /ui/mirror/{hostname}/{namespace}/{type}/{version}/docs/{path...}", s.provider)
	if s.o.States != nil { // read:state of the workspace
		show("GET /ui/states", s.states) // lists what may be read
		show("GET /ui/states/{name}", s.state)
		show("GET /ui/states/{name}/{workspace}", s.workspace)
		show("GET /ui/states/{name}/{workspace}/history", s.stateHistory)
		show("GET /ui/states/{name}/{workspace}/diff", s.diff)
		show("GET /ui/states/{name}/{workspace}/{n}", s.workspace)
		show("GET /ui/states/{name}/{workspace}/{n}/resources", s.resources)
		show("GET /ui/states/{name}/{workspace}/{n}/reveal", s.stateRevealPage)
		mux.Handle("POST /ui/states/{name}/{workspace}/{n}/reveal", s.act(s.mayRevealState, s.revealState))
	}
	if s.o.Depot != nil { // admin:*:**
		show("GET /ui/depot", s.depotShow)
		mux.Handle("POST /ui/depot/sync", s.act(s.mayDepot, s.depotSync))
		mux.Handle("POST /ui/depot/approve", s.act(s.mayDepot, s.depotApprove))
	}
	if s.o.Doctor != nil {
		show("GET /ui/doctor", s.doctor) // admin:*:**
	}
	if s.o.Audit != nil {
		show("GET /ui/audit", s.audit) // admin:*:**
	}
	if s.o.Instances != nil {
		s.instanceRoutes(mux, show)
	}

	mux.Handle("GET /ui/login", s.handle(s.login))                       // anybody
	mux.Handle("POST /ui/login", s.form(smallForm, s.mayLogIn, s.logIn)) // anybody, ten times a minute
	mux.Handle("GET /login/callback", s.handle(s.callback))              // whom the issuer sends back
	mux.Handle("POST /ui/logout", s.form(smallForm, anybody, s.logOut))  // anybody
	show("GET /ui/me", s.me)                                             // anybody
	mux.Handle("POST /ui/theme", s.form(smallForm, anybody, s.setTheme)) // changes a cookie only
	mux.Handle("GET /ui/assets/{hash}/{file}", s.handle(s.asset))
	show("/ui/", func(r *request) (*page, error) { return nil, notFound("there is no such page") })
	return s.without(mux)
}

// instanceRoutes are those of templates and instances. The API says who may see and
// do what; the check of a form is that the caller sees what the form is about.
func (s *server) instanceRoutes(mux *service.Mux, show func(string, func(*request) (*page, error))) {
	send := func(pattern string, may check, f do) { mux.Handle("POST "+pattern, s.act(may, f)) }

	show("GET /ui/templates", s.templateList)
	show("GET /ui/templates/{namespace}/{name}", s.templateShow)
	show("GET /ui/kinds/{name}", s.kindShow)
	show("GET /ui/run/{namespace}/{name}", s.launchShow)
	send("/ui/run/{namespace}/{name}", s.launcher, s.launch)
	show("GET /ui/instances", s.instanceList)
	show("GET /ui/instances/{id}", s.instanceShow)
	show("GET /ui/instances/{id}/runs/{n}", s.runShow)
	show("GET /ui/instances/{id}/reveal", s.revealShow)
	send("/ui/instances/{id}/reveal", s.mayReveal, s.reveal)
	show("GET /ui/instances/{id}/{verb}", s.verbShow)
	send("/ui/instances/{id}/{verb}", s.mayVerb, s.verb)
	show("GET /ui/approvals", s.approvals)
	show("GET /ui/admin/instances", s.adminInstances)
	show("GET /ui/admin/templates", s.adminTemplates)
	send("/ui/templates/{namespace}/{name}/pause", s.mayPause, s.pause)
	send("/ui/templates/{namespace}/{name}/resume", s.mayPause, s.resume)
}

// request is a request for a page, or of its form.
type request struct {
	*http.Request
	grant  access.Grant // who asks, once [server.may] said that he may
	header http.Header  // of the answer
	asOf   time.Time    // of what the API answered from a copy; zero: it is new
}

// may asks for a right, and keeps who the caller is for the page.
func (s *server) may(r *request, right access.Right) error {
	g, err := s.o.Kit.Guard.Allow(r.Request, right)
	if err == nil {
		r.grant = g
	}
	return err
}

// list is the right to lists, in which each sees what he may read.
func (s *server) list(r *request) error {
	return s.may(r, access.Right{Action: access.List, Kind: access.AnyKind})
}

// listInstances is that right for templates and instances, which the session of a
// portal has as well.
func (s *server) listInstances(r *request) error {
	return s.may(r, access.Right{Action: access.List, Kind: addr.KindInstance})
}

// readable reports whether the caller of a page may read an item.
func (r *request) readable(it addr.Item) bool {
	return r.grant.May(access.Right{Action: access.Read, Kind: access.Kind(it.Kind), Address: it.String()})
}

// up is the way from the page of a request to /ui/.
func up(path string) string {
	if !strings.HasPrefix(path, "/ui/") {
		return "./" + strings.Repeat("../", strings.Count(path, "/")-1) + "ui/"
	}
	return "./" + strings.Repeat("../", strings.Count(strings.TrimPrefix(path, "/ui/"), "/"))
}

// host is by which clients call this server.
func (s *server) host(r *request) string {
	if s.o.Hostname != "" {
		return s.o.Hostname
	}
	return r.Host
}
