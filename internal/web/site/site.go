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

// Options configure the frame. Kit is required.
type Options struct {
	Kit     *service.Kit
	Sets    []Set // in the order of the menu
	Version string
	Replica string   // host name of this machine; "": pages do not show it
	Search  bool     // there is something to search
	Images  []string // other sources of images, as in a content security policy
	Now     func() time.Time
}

// Set is a set of pages. Nil fields add nothing.
type Set struct {
	Templates fs.FS // files of pages, and parts*.html for all of them
	Menu      func(*Request) []Entry
	Routes    func(*Routes)

	// What pages of the catalog show of the set: Home is a section on the first page,
	// Related are links on the page of a module.
	Home    func(*Request) (template.HTML, error)
	Related func(*Request, addr.Module) Related
	// Find returns what a search for a text finds in the set.
	Find func(*Request, string) []Found
	// State returns links for the page of a workspace or, with two empty names, for the
	// list of all states.
	State func(r *Request, name, workspace string) []Link
}

// Related has the links of a set for a module.
type Related struct {
	Templates []Link // templates that launch instances of the module
	Launch    string // page that launches an instance, below Up; "": the caller may not
}

// Found is what a search found in a set.
type Found struct {
	Link
	Name, Description string
}

// site answers requests for pages. Its only state is templates and assets.
type site struct {
	o         Options
	templates Templates
	assets    assetSet
	cross     *http.CrossOriginProtection
	policy    string // content security policy of all pages
}

// New returns the handler for everything below /ui/: the pages of the sets, and those
// that every site has.
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
	r.Form("POST /ui/theme", NoRight, s.setTheme) // these two change only a cookie
	r.Form("POST /ui/star", NoRight, s.setStar)
	r.mux.Handle("GET /ui/assets/{hash}/{file}", s.wrapLimits(s.sendAsset))
	r.mux.Handle("GET /favicon.ico", s.wrapLimits(s.sendIcon))
	r.Open("/ui/", func(*Request) (*Page, error) { return nil, NotFound("page not found") })
	return r.mux, nil
}

// Routes registers the pages of a set, each with the right that it requires.
type Routes struct {
	site *site
	mux  *service.Mux
}

// Right returns the right that a page requires, from its path alone. It is checked before
// an error of the path is reported, and before any lookup.
type Right func(*Request) (rights.Right, error)

// Show adds a page for callers with a right.
func (r *Routes) Show(pattern string, may Right, answer func(*Request) (*Page, error)) {
	r.mux.Handle(pattern, r.site.pageHandler(Holds(may), answer))
}

// Open adds a page for every caller.
func (r *Routes) Open(pattern string, answer func(*Request) (*Page, error)) {
	r.mux.Handle(pattern, r.site.pageHandler(NoRight, answer))
}

// Send adds a route that writes its own answer, for callers with a right.
func (r *Routes) Send(pattern string, may Right, answer func(*Request, http.ResponseWriter) error) {
	r.mux.Handle(pattern, r.site.rawHandler(Holds(may), answer))
}

// Stream is Send for an answer that goes on while the client reads. It has its own
// limits, not those of [service.Kit.Limit].
func (r *Routes) Stream(pattern string, may Right, answer func(*Request, http.ResponseWriter) error) {
	r.mux.Handle(pattern, r.site.o.Kit.Handle(r.site.checkFirst(Holds(may), answer), r.site.showError))
}

// Raw is Send for every caller.
func (r *Routes) Raw(pattern string, answer func(*Request, http.ResponseWriter) error) {
	r.mux.Handle(pattern, r.site.rawHandler(NoRight, answer))
}

// Post adds a form that changes something: it must come from a page of this server, from
// a caller with the right, and carry the key of that page.
func (r *Routes) Post(pattern string, may Check, f Do) {
	r.mux.Handle(pattern, r.site.actHandler(may, f))
}

// Form adds a small form without a key.
func (r *Routes) Form(pattern string, may Check, f Do) {
	r.mux.Handle(pattern, r.site.formHandler(smallForm, may, f))
}

// rawHandler returns the handler of a route that writes its own answer.
func (s *site) rawHandler(may Check, answer func(*Request, http.ResponseWriter) error) http.Handler {
	return s.wrapLimits(s.checkFirst(may, answer))
}

// checkFirst calls answer if may allows the request.
func (s *site) checkFirst(may Check, answer func(*Request, http.ResponseWriter) error) service.Handler {
	return func(w http.ResponseWriter, hr *http.Request) error {
		r := s.newRequest(w, hr)
		if err := may(r); err != nil {
			return err
		}
		return answer(r, w)
	}
}

func (s *site) pageHandler(may Check, answer func(*Request) (*Page, error)) http.Handler {
	return s.rawHandler(may, func(r *Request, w http.ResponseWriter) error {
		p, err := answer(r)
		if err != nil {
			return err
		}
		return s.sendPage(w, r, p)
	})
}

// wrapLimits adds limits, recovery from panics, and error pages to a handler.
func (s *site) wrapLimits(h service.Handler) http.Handler {
	return s.o.Kit.Handle(s.o.Kit.Limit(h), s.showError)
}

// Request is a request for a page, or of its form.
type Request struct {
	*http.Request
	Grant access.Grant // the caller's rights, once access is granted
	Reply http.Header  // of the answer
	AsOf  time.Time    // time of the data if it is from a copy; zero: current
	site  *site
}

func (s *site) newRequest(w http.ResponseWriter, r *http.Request) *Request {
	return &Request{Request: r, Reply: w.Header(), site: s}
}

// Answer sends a page, for a route that writes its own answer.
func (r *Request) Answer(w http.ResponseWriter, p *Page) error { return r.site.sendPage(w, r, p) }

// Part renders a part of a page, from the file of that page.
func (r *Request) Part(file, name string, of any) (template.HTML, error) {
	var b strings.Builder
	if err := r.site.templates.executeTemplate(&b, file, name, of); err != nil {
		return "", fmt.Errorf("part %s of page %s: %w", name, file, err)
	}
	return template.HTML(b.String()), nil // the template has escaped it
}

// Log returns the logger for records about the request.
func (r *Request) Log() *slog.Logger { return r.site.o.Kit.Log(r.Request) }

// allowAndKeep checks a right, and keeps the caller for the page.
func (r *Request) allowAndKeep(right rights.Right) error {
	g, err := r.site.o.Kit.Guard.Allow(r.Request, right)
	if err == nil {
		r.Grant = g
	}
	return err
}

// AllowLogin refuses a caller without any right, so that it is redirected to the login.
func (r *Request) AllowLogin() error { return r.site.o.Kit.Guard.AllowLogin(r.Request) }

// Holds returns the check that the caller has a right.
func Holds(may Right) Check {
	return func(r *Request) error {
		right, bad := may(r)
		if err := r.allowAndKeep(right); err != nil {
			return err
		}
		return bad
	}
}

// List is the right to lists, which have only the items that the caller may read.
func List(*Request) (rights.Right, error) {
	return rights.Right{Action: rights.List, Kind: rights.AnyKind}, nil
}

// Administer is the right of an administrator.
func Administer(*Request) (rights.Right, error) { return rights.Server(), nil }

// Readable reports whether the caller of a page may read an item.
func (r *Request) Readable(it addr.Item) bool { return r.mayItem(rights.Read, it) }

// Publishes reports whether the caller of a page may publish an item.
func (r *Request) Publishes(it addr.Item) bool { return r.mayItem(rights.Publish, it) }

func (r *Request) mayItem(action rights.Action, it addr.Item) bool {
	return r.Grant.May(rights.Right{Action: action, Kind: rights.Kind(it.Kind), Address: it.String()})
}

// Up returns the relative path from the page of a request to /ui/.
func Up(path string) string {
	if !strings.HasPrefix(path, "/ui/") {
		return "./" + strings.Repeat("../", strings.Count(path, "/")-1) + "ui/"
	}
	return "./" + strings.Repeat("../", strings.Count(strings.TrimPrefix(path, "/ui/"), "/"))
}

// Hosts are the names of this server and of its registry, HOST[:PORT]. "" means the host
// that the browser used.
type Hosts struct{ Server, Registry string }

// Of returns the name that clients use for this server.
func (h Hosts) Of(r *Request) string {
	if h.Server != "" {
		return h.Server
	}
	return r.Host
}

// RegistryOf returns the host of the artifacts, for clients that read them directly.
func (h Hosts) RegistryOf(r *Request) string {
	if h.Registry != "" {
		return h.Registry
	}
	return h.Of(r)
}

// Clock returns the current time.
type Clock func() time.Time

// When returns t as a [Timestamp] relative to now.
func (c Clock) When(t time.Time) Timestamp { return NewTimestamp(t, c()) }
