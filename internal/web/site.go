// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/service"
)

// siteOptions is what the frame needs. Kit is required.
type siteOptions struct {
	Kit     *service.Kit
	Sets    []set // in the order of the menu
	Version string
	Replica string   // that answers, by the name of its machine; "": no page names it
	Search  bool     // there is something to search
	Images  []string // other sources of images, as policies of content name them
	Now     func() time.Time
}

// set is what a set of pages adds to the site. What is nil is not added.
type set struct {
	Templates fs.FS // files of pages, and of parts*.html that all of them have
	Menu      func(*request) []entry
	Routes    func(*routes)

	// What the pages of the catalog show of the set: a section on the first page, and
	// links beside a module.
	Home    func(*request) (template.HTML, error)
	Related func(*request, addr.Module) []link
}

// site answers the pages. It keeps nothing but templates and assets.
type site struct {
	o         siteOptions
	templates map[string]*template.Template
	assets    assetSet
	cross     *http.CrossOriginProtection
	policy    string // of content, of all pages
}

// newSite returns the pages of the sets, and those that every site has, for everything
// below /ui/.
func newSite(o siteOptions) (http.Handler, error) {
	templates, err := readTemplates(o.Sets)
	if err != nil {
		return nil, err
	}
	assets, err := newAssets()
	if err != nil {
		return nil, err
	}
	s := &site{o: o, templates: templates, assets: assets, cross: http.NewCrossOriginProtection(), policy: contentPolicy(o.Images)}
	r := &routes{site: s, mux: o.Kit.Mux()}
	for _, set := range o.Sets {
		if set.Routes != nil {
			set.Routes(r)
		}
	}
	r.Form("POST /ui/theme", anybody, s.setTheme) // changes a cookie only
	r.mux.Handle("GET /ui/assets/{hash}/{file}", s.handle(s.asset))
	r.Open("/ui/", func(*request) (*page, error) { return nil, notFound("there is no such page") })
	return r.mux, nil
}

// routes takes the pages of a set, each with the right that it takes.
type routes struct {
	site *site
	mux  *service.Mux
}

// right is what a page takes, by its path alone. It is asked before an error of the
// path is told, and before anything is looked up.
type right func(*request) (access.Right, error)

// Show adds a page for who has a right.
func (r *routes) Show(pattern string, may right, answer func(*request) (*page, error)) {
	r.mux.Handle(pattern, r.site.page(holds(may), answer))
}

// Open adds a page for anybody.
func (r *routes) Open(pattern string, answer func(*request) (*page, error)) {
	r.mux.Handle(pattern, r.site.page(anybody, answer))
}

// Send adds what writes its own answer, for who has a right.
func (r *routes) Send(pattern string, may right, answer func(*request, http.ResponseWriter) error) {
	r.mux.Handle(pattern, r.site.raw(holds(may), answer))
}

// Raw is Send for anybody.
func (r *routes) Raw(pattern string, answer func(*request, http.ResponseWriter) error) {
	r.mux.Handle(pattern, r.site.raw(anybody, answer))
}

// Post adds a form that changes something: it must come from a page of this server, from
// somebody who may, and carry the key of that page.
func (r *routes) Post(pattern string, may check, f do) {
	r.mux.Handle(pattern, r.site.act(may, f))
}

// Form adds a small form without a key.
func (r *routes) Form(pattern string, may check, f do) {
	r.mux.Handle(pattern, r.site.form(smallForm, may, f))
}

// raw makes a handler of what writes its own answer.
func (s *site) raw(may check, answer func(*request, http.ResponseWriter) error) http.Handler {
	return s.handle(func(w http.ResponseWriter, hr *http.Request) error {
		r := s.request(w, hr)
		if err := may(r); err != nil {
			return err
		}
		return answer(r, w)
	})
}

// page makes a handler of what a page shows.
func (s *site) page(may check, answer func(*request) (*page, error)) http.Handler {
	return s.raw(may, func(r *request, w http.ResponseWriter) error {
		p, err := answer(r)
		if err != nil {
			return err
		}
		return s.write(w, r, p)
	})
}

// handle is what is around all of them: limits, panics, and a page for an error.
func (s *site) handle(h service.Handler) http.Handler {
	return s.o.Kit.Handle(s.o.Kit.Limit(h), s.fail)
}

// request is a request for a page, or of its form.
type request struct {
	*http.Request
	Grant access.Grant // who asks, once it is decided that he may
	Reply http.Header  // of the answer
	AsOf  time.Time    // of what the page shows, where it is from a copy; zero: it is new
	site  *site
}

func (s *site) request(w http.ResponseWriter, r *http.Request) *request {
	return &request{Request: r, Reply: w.Header(), site: s}
}

// Answer sends a page, for what writes its own answer.
func (r *request) Answer(w http.ResponseWriter, p *page) error { return r.site.write(w, r, p) }

// Part is a part of a page, out of the file of one.
func (r *request) Part(file, name string, of any) (template.HTML, error) {
	var b strings.Builder
	if err := r.site.templates[file].ExecuteTemplate(&b, name, of); err != nil {
		return "", fmt.Errorf("part %s of page %s: %w", name, file, err)
	}
	return template.HTML(b.String()), nil // escaped
}

// Log is where what becomes of a request is noted.
func (r *request) Log() *slog.Logger { return r.site.o.Kit.Log(r.Request) }

// allow asks for a right, and keeps who the caller is for the page.
func (r *request) allow(right access.Right) error {
	g, err := r.site.o.Kit.Guard.Allow(r.Request, right)
	if err == nil {
		r.Grant = g
	}
	return err
}

// AllowLogin refuses a caller who has no right at all, and leads him to the login.
func (r *request) AllowLogin() error { return r.site.o.Kit.Guard.AllowLogin(r.Request) }

// holds is the check of who has a right.
func holds(may right) check {
	return func(r *request) error {
		right, bad := may(r)
		if err := r.allow(right); err != nil {
			return err
		}
		return bad
	}
}

// list is the right to lists, in which each sees what he may read.
func list(*request) (access.Right, error) {
	return access.Right{Action: access.List, Kind: access.AnyKind}, nil
}

// administer is the right of who runs the server.
func administer(*request) (access.Right, error) { return access.Server(), nil }

// Readable reports whether the caller of a page may read an item.
func (r *request) Readable(it addr.Item) bool { return r.mayItem(access.Read, it) }

// Publishes reports whether the caller of a page may publish an item.
func (r *request) Publishes(it addr.Item) bool { return r.mayItem(access.Publish, it) }

func (r *request) mayItem(action access.Action, it addr.Item) bool {
	return r.Grant.May(access.Right{Action: action, Kind: access.Kind(it.Kind), Address: it.String()})
}

// up is the way from the page of a request to /ui/.
func up(path string) string {
	if !strings.HasPrefix(path, "/ui/") {
		return "./" + strings.Repeat("../", strings.Count(path, "/")-1) + "ui/"
	}
	return "./" + strings.Repeat("../", strings.Count(strings.TrimPrefix(path, "/ui/"), "/"))
}

// hosts are the names of this server and of its registry, HOST[:PORT]. What is "" is the
// host that the browser used.
type hosts struct{ Server, Registry string }

// Of is by which clients call this server.
func (h hosts) Of(r *request) string {
	if h.Server != "" {
		return h.Server
	}
	return r.Host
}

// RegistryOf is the host of the artifacts, for whoever reads them without us.
func (h hosts) RegistryOf(r *request) string {
	if h.Registry != "" {
		return h.Registry
	}
	return h.Of(r)
}

// clock says what time it is.
type clock func() time.Time

// When is the moment of a time, as seen now.
func (c clock) When(t time.Time) moment { return seenAt(t, c()) }
