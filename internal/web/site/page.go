// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// Page is what a template shows. It is complete before the template runs: none of
// them asks anything.
type Page struct {
	Template string // file below templates
	Status   int    // 0: 200
	Title    string // of the window and, where Heading is empty, of the page
	Crumbs   []Link // the way here, without the page itself
	Command  string // that gives the same
	NoStore  bool   // it shows what no browser may keep
	Key      string // of the forms that change something: newKey; "": there are none
	Also     []Link // pages that belong to this one
	Refresh  bool   // without script the page is loaded anew every few seconds

	OwnSearch bool // the page has its own search field, so the frame has none
	Body      any

	// What all pages have.
	Up      string
	Menu    []Entry
	Catalog bool      // the frame has a field of the search
	AsOf    time.Time // of what the page shows, where no leader answers; zero: it is new
	Path    string    // of this page, below Up
	Query   string    // in the field of the search
	Message *message  // of the form that led here; nil: there is none
	Who     string    // is logged in; "": nobody
	Login   bool      // people can log in
	Theme   string    // light, dark or ""
	Version string
	Replica string // machine that made the page, for who is logged in
	Assets  assetNames
}

// Link is a link below Up.
type Link struct{ Text, Href string }

// Under is what a part shows, with the way to /ui/.
type Under struct {
	Up string
	Of any
}

//go:embed templates/*.html
var frameFiles embed.FS

// Templates are the pages by file, each read when it is first asked for: most servers
// show few of them, and each has the layout around it.
type Templates map[string]func() (*template.Template, error)

// ReadTemplates finds the pages of the sets, and those that every site has. A set has
// its files below templates; its parts*.html are for all of its pages.
func ReadTemplates(sets []Set) (Templates, error) {
	frame := sync.OnceValues(func() (*template.Template, error) {
		return template.New("").Funcs(functions()).ParseFS(frameFiles, "templates/layout.html", "templates/parts.html")
	})
	all := Templates{}
	for _, set := range append([]Set{{Templates: frameFiles}}, sets...) {
		if set.Templates == nil {
			continue
		}
		if err := all.find(frame, set.Templates); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// find adds the pages of a set.
func (all Templates) find(frame func() (*template.Template, error), files fs.FS) error {
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return err
	}
	var parts, pages []string
	for _, name := range names {
		if strings.HasPrefix(name, "templates/parts") {
			parts = append(parts, name)
		} else {
			pages = append(pages, name)
		}
	}
	base := frame
	if len(parts) > 0 {
		base = within(frame, files, parts)
	}
	for _, name := range pages {
		all[path.Base(name)] = within(base, files, []string{name})
	}
	return nil
}

// within reads files into a copy of what is around them, once.
func within(around func() (*template.Template, error), files fs.FS, names []string) func() (*template.Template, error) {
	return sync.OnceValues(func() (*template.Template, error) {
		outer, err := around()
		if err != nil {
			return nil, err
		}
		own, err := outer.Clone()
		if err != nil {
			return nil, err
		}
		return own.ParseFS(files, names...)
	})
}

// write executes a template of the file of a page.
func (all Templates) write(w io.Writer, file, name string, of any) error {
	read, ok := all[file]
	if !ok {
		return errors.New("there is no such file")
	}
	t, err := read()
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(w, name, of)
}

// functions are what templates may call: none reads or asks anything.
func functions() template.FuncMap {
	return template.FuncMap{
		"size": text.Size,
		"summed": func(digest string) bool {
			return strings.HasPrefix(digest, "sha256:") || strings.HasPrefix(digest, "SHA256:")
		},
		"day":   func(t time.Time) string { return t.UTC().Format("2 Jan 2006") },
		"hour":  func(t time.Time) string { return t.UTC().Format("15:04") },
		"at":    func(up string, it any) placed { return placed{up, it} },
		"stamp": func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") },
		"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"plain": text.Block,
		"below": func(up string, of any) Under { return Under{up, of} },
		"parts": parts,
		"long":  func(s string) bool { return strings.Count(s, "\n") > 2 || len(s) > 160 },
	}
}

// parts are an address or the name of a file, cut where a line may end.
func parts(s string) (all []string) {
	for {
		i := strings.IndexAny(s, "/_")
		if i < 0 {
			return append(all, s)
		}
		all = append(all, s[:i+1])
		s = s[i+1:]
	}
}

// placed is something for a part that needs the way to /ui/ too.
type placed struct {
	Up string
	It any
}

// contentPolicy lets a page load what this server has for it, images of a few other
// hosts where who runs the server said so, and nothing else.
func contentPolicy(images []string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self'; " + strings.Join(append([]string{"img-src 'self'"}, images...), " ") + "; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// Secure sets what each answer says to the browser.
func Secure(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy(nil))
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// write renders a page and then sends it, or 304 if the browser has it.
func (s *site) write(w http.ResponseWriter, r *Request, p *Page) error {
	p.Up = Up(r.URL.Path)
	p.Path = strings.TrimPrefix(r.URL.Path, "/ui/")
	p.Version = s.o.Version
	p.Assets = s.assets.names
	p.Theme = s.theme(r.Request)
	s.know(r, p)
	p.Message = s.takeMessage(r)
	p.Menu = r.Menu()
	p.AsOf = r.AsOf
	p.Catalog = s.o.Search && !p.OwnSearch
	var b bytes.Buffer
	if err := s.templates.write(&b, p.Template, "layout", p); err != nil {
		return fmt.Errorf("page %s: %w", p.Template, err)
	}
	Secure(w.Header())
	w.Header().Set("Content-Security-Policy", s.policy)
	if p.Status != 0 || p.NoStore || p.Message != nil {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(cmp.Or(p.Status, http.StatusOK))
		_, _ = w.Write(b.Bytes()) // the browser is gone; there is nobody to tell
		return nil
	}
	a, err := service.Page(b.Bytes())
	if err != nil {
		return err
	}
	a.Write(w, r.Request, "private, no-cache")
	return nil
}

// errorBody is the page of an error.
type errorBody struct {
	Status    int
	Text      string
	Hint      string
	RequestID string
	Right     string // that is missing
	Me        bool   // with the way to what the caller may
}

// fail shows an error as a page.
func (s *site) fail(w http.ResponseWriter, hr *http.Request, err error) {
	r := s.request(w, hr)
	status, words, ok := service.Own(err)
	body := errorBody{Text: words}
	switch {
	case ok:
	case errors.Is(err, oci.ErrNotFound):
		status = http.StatusNotFound
		body.Text = "there is no such page"
	default:
		status = http.StatusBadGateway
		body.Text = "the registry does not answer as it should"
	}
	body.Status = status
	body.RequestID = service.RequestID(hr)
	if status == http.StatusUnauthorized && s.toLogin(r) {
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	switch status {
	case http.StatusUnauthorized:
		body.Hint = "These pages show what everybody may read. With a token, okara list and okara show tell the rest."
		w.Header().Set("WWW-Authenticate", access.Challenge(hr))
	case http.StatusNotFound:
		body.Hint = "It may have been withdrawn, or the address may be misspelt. The search knows all that you may read."
	case http.StatusConflict:
		body.Hint = "Nothing was changed."
	case http.StatusForbidden:
		body.Hint = "The administrator of this server can give you the right."
		body.Me = true
		if no, ok := errors.AsType[*access.Refusal](err); ok && no.Right != (rights.Right{}) {
			body.Right = Clip(text.Block(no.Right.String()))
		}
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
		body.Hint = "Try again in a moment."
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		body.Hint = "Try again in a moment. The log of the server has the reason, under the number of this request."
	}
	if status >= http.StatusInternalServerError {
		s.o.Kit.Log(hr).Error("page failed", "path", service.LogPath(hr), "status", status, "error", err)
	}
	p := &Page{Template: "error.html", Status: status, Title: errorTitle(status), Body: body}
	if err := s.write(w, r, p); err != nil {
		s.o.Kit.Fail(w, hr, err)
	}
}

// errorTitle says what happened in fewer words than the error, and better known ones
// than HTTP has.
func errorTitle(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "A token is needed"
	case http.StatusForbidden:
		return "You may not open this"
	case http.StatusNotFound:
		return "Not found"
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return "The registry does not answer"
	case http.StatusServiceUnavailable:
		return "Busy"
	}
	return http.StatusText(status)
}

// NotFound is the answer to what is not there, or not for the caller to know: 404.
func NotFound(format string, args ...any) error {
	return &service.Error{Status: http.StatusNotFound, Text: fmt.Sprintf(format, args...)}
}
