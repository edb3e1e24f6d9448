// SPDX-License-Identifier: Apache-2.0

package site

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
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
)

// Options is what the frame needs. Kit is required.
type Options struct {
	Kit     *service.Kit
	Sets    []Set // in the order of the menu
	Version string
	Replica string   // that answers, by the name of its machine; "": no page names it
	Search  bool     // there is something to search
	Images  []string // other sources of images, as policies of content name them
	Now     func() time.Time
}

// Set is what a set of pages adds to the site. What is nil is not added.
type Set struct {
	Templates fs.FS // files of pages, and of parts*.html that all of them have
	Menu      func(*Request) []Entry
	Routes    func(*Routes)

	// What the pages of the catalog show of the set: a section on the first page, and
	// links beside a module.
	Home    func(*Request) (template.HTML, error)
	Related func(*Request, addr.Module) Related
	// State is what pages of states show of the set: links beside a workspace of a state,
	// or, with two empty names, beside the list of all.
	State func(r *Request, name, workspace string) []Link
}

// Related is what there is of a set for a module.
type Related struct {
	Templates []Link // by which instances of it are launched
	Launch    string // page that launches one, below Up; "": the caller cannot
}

// site answers the pages. It keeps nothing but templates and assets.
type site struct {
	o         Options
	templates Templates
	assets    assetSet
	cross     *http.CrossOriginProtection
	policy    string // of content, of all pages
}

// New returns the pages of the sets, and those that every site has, for everything
// below /ui/.
func New(o Options) (http.Handler, error) {
	templates, err := ReadTemplates(o.Sets)
	if err != nil {
		return nil, err
	}
	assets, err := newAssets()
	if err != nil {
		return nil, err
	}
	s := &site{o: o, templates: templates, assets: assets, cross: http.NewCrossOriginProtection(), policy: contentPolicy(o.Images)}
	r := &Routes{site: s, mux: o.Kit.Mux()}
	for _, set := range o.Sets {
		if set.Routes != nil {
			set.Routes(r)
		}
	}
	r.Form("POST /ui/theme", Anybody, s.setTheme) // changes a cookie only
	r.mux.Handle("GET /ui/assets/{hash}/{file}", s.handle(s.asset))
	r.Open("/ui/", func(*Request) (*Page, error) { return nil, NotFound("there is no such page") })
	return r.mux, nil
}

// Routes takes the pages of a set, each with the right that it takes.
type Routes struct {
	site *site
	mux  *service.Mux
}

// Right is what a page takes, by its path alone. It is asked before an error of the
// path is reported, and before anything is looked up.
type Right func(*Request) (rights.Right, error)

// Show adds a page for who has a right.
func (r *Routes) Show(pattern string, may Right, answer func(*Request) (*Page, error)) {
	r.mux.Handle(pattern, r.site.page(Holds(may), answer))
}

// Open adds a page for anybody.
func (r *Routes) Open(pattern string, answer func(*Request) (*Page, error)) {
	r.mux.Handle(pattern, r.site.page(Anybody, answer))
}

// Send adds what writes its own answer, for who has a right.
func (r *Routes) Send(pattern string, may Right, answer func(*Request, http.ResponseWriter) error) {
	r.mux.Handle(pattern, r.site.raw(Holds(may), answer))
}

// Stream is Send for an answer that goes on for as long as somebody reads, and bounds
// itself.
func (r *Routes) Stream(pattern string, may Right, answer func(*Request, http.ResponseWriter) error) {
	r.mux.Handle(pattern, r.site.o.Kit.Handle(r.site.checked(Holds(may), answer), r.site.fail))
}

// Raw is Send for anybody.
func (r *Routes) Raw(pattern string, answer func(*Request, http.ResponseWriter) error) {
	r.mux.Handle(pattern, r.site.raw(Anybody, answer))
}

// Post adds a form that changes something: it must come from a page of this server, from
// somebody who may, and carry the key of that page.
func (r *Routes) Post(pattern string, may Check, f Do) {
	r.mux.Handle(pattern, r.site.act(may, f))
}

// Form adds a small form without a key.
func (r *Routes) Form(pattern string, may Check, f Do) {
	r.mux.Handle(pattern, r.site.form(smallForm, may, f))
}

// raw makes a handler of what writes its own answer.
func (s *site) raw(may Check, answer func(*Request, http.ResponseWriter) error) http.Handler {
	return s.handle(s.checked(may, answer))
}

// checked lets through who may.
func (s *site) checked(may Check, answer func(*Request, http.ResponseWriter) error) service.Handler {
	return func(w http.ResponseWriter, hr *http.Request) error {
		r := s.request(w, hr)
		if err := may(r); err != nil {
			return err
		}
		return answer(r, w)
	}
}

// page makes a handler of what a page shows.
func (s *site) page(may Check, answer func(*Request) (*Page, error)) http.Handler {
	return s.raw(may, func(r *Request, w http.ResponseWriter) error {
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

// Request is a request for a page, or of its form.
type Request struct {
	*http.Request
	Grant access.Grant // the caller's rights, once access is granted
	Reply http.Header  // of the answer
	AsOf  time.Time    // of what the page shows, where it is from a copy; zero: it is new
	site  *site
}

func (s *site) request(w http.ResponseWriter, r *http.Request) *Request {
	return &Request{Request: r, Reply: w.Header(), site: s}
}

// Answer sends a page, for what writes its own answer.
func (r *Request) Answer(w http.ResponseWriter, p *Page) error { return r.site.write(w, r, p) }

// Part is a part of a page, out of the file of one.
func (r *Request) Part(file, name string, of any) (template.HTML, error) {
	var b strings.Builder
	if err := r.site.templates.write(&b, file, name, of); err != nil {
		return "", fmt.Errorf("part %s of page %s: %w", name, file, err)
	}
	return template.HTML(b.String()), nil // escaped
}

// Log is where what becomes of a request is noted.
func (r *Request) Log() *slog.Logger { return r.site.o.Kit.Log(r.Request) }

// allow asks for a right, and keeps who the caller is for the page.
func (r *Request) allow(right rights.Right) error {
	g, err := r.site.o.Kit.Guard.Allow(r.Request, right)
	if err == nil {
		r.Grant = g
	}
	return err
}

// AllowLogin refuses a caller who has no right at all, and leads him to the login.
func (r *Request) AllowLogin() error { return r.site.o.Kit.Guard.AllowLogin(r.Request) }

// Holds is the check of who has a right.
func Holds(may Right) Check {
	return func(r *Request) error {
		right, bad := may(r)
		if err := r.allow(right); err != nil {
			return err
		}
		return bad
	}
}

// List is the right to lists, in which each sees what he may read.
func List(*Request) (rights.Right, error) {
	return rights.Right{Action: rights.List, Kind: rights.AnyKind}, nil
}

// Administer is the right of who runs the server.
func Administer(*Request) (rights.Right, error) { return rights.Server(), nil }

// Readable reports whether the caller of a page may read an item.
func (r *Request) Readable(it addr.Item) bool { return r.mayItem(rights.Read, it) }

// Publishes reports whether the caller of a page may publish an item.
func (r *Request) Publishes(it addr.Item) bool { return r.mayItem(rights.Publish, it) }

func (r *Request) mayItem(action rights.Action, it addr.Item) bool {
	return r.Grant.May(rights.Right{Action: action, Kind: rights.Kind(it.Kind), Address: it.String()})
}

// Up is the way from the page of a request to /ui/.
func Up(path string) string {
	if !strings.HasPrefix(path, "/ui/") {
		return "./" + strings.Repeat("../", strings.Count(path, "/")-1) + "ui/"
	}
	return "./" + strings.Repeat("../", strings.Count(strings.TrimPrefix(path, "/ui/"), "/"))
}

// Hosts are the names of this server and of its registry, HOST[:PORT]. What is "" is the
// host that the browser used.
type Hosts struct{ Server, Registry string }

// Of is by which clients call this server.
func (h Hosts) Of(r *Request) string {
	if h.Server != "" {
		return h.Server
	}
	return r.Host
}

// RegistryOf is the host of the artifacts, for whoever reads them without us.
func (h Hosts) RegistryOf(r *Request) string {
	if h.Registry != "" {
		return h.Registry
	}
	return h.Of(r)
}

// Clock says what time it is.
type Clock func() time.Time

// When is the moment of a time, as seen now.
func (c Clock) When(t time.Time) Timestamp { return NewTimestamp(t, c()) }
