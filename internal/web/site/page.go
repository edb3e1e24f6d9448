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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/oci"
)

// Page is the data of a template. It is complete before the template runs: templates make
// no requests.
type Page struct {
	Template string // file below templates
	Status   int    // 0: 200
	Title    string // of the window and of the page
	Summary  string // for what shows links; "": none
	Crumbs   []Link // path to this page, without the page itself
	Command  string // command with the same output
	NoStore  bool   // browsers must not cache the page
	Key      string // of the forms that change something, from [Clock.NewKey]; "": no such forms
	Also     []Link // related pages
	Refresh  bool   // without script, the page is reloaded every few seconds
	Star     string // path of what can be starred here; "": nothing

	OwnSearch bool // the page has a search field, so the frame has none
	Body      any

	// Fields that write sets for all pages.
	Up      string
	Menu    []Entry
	Catalog bool      // the frame has a search field
	AsOf    time.Time // time of the data if no leader answers; zero: current
	Path    string    // of this page, below Up
	Query   string    // in the search field
	Message *message  // result of the form that led here; nil: none
	Who     string    // the user that is logged in; "": none
	Login   bool      // login is possible
	Theme   string    // light, dark or ""
	Stars   []Link    // what the browser has starred
	Version string
	Replica string // machine that made the page; only for users that are logged in
	Assets  assetNames
}

// Link is a link below Up.
type Link struct{ Text, Href string }

// Under is the data of a part, with the path to /ui/.
type Under struct {
	Up string
	Of any
}

//go:embed templates/*.html
var frameFiles embed.FS

// Templates are the pages by file. Each is parsed when it is first used: most servers use
// few of them, and each contains the layout.
type Templates map[string]func() (*template.Template, error)

// ReadTemplates returns the pages of the sets, and those that every site has. A set has
// its files below templates; its parts*.html are for all of its pages.
func ReadTemplates(sets []Set) (Templates, error) {
	frame := sync.OnceValues(func() (*template.Template, error) {
		return template.New("").Funcs(templateFunctions()).ParseFS(frameFiles, "templates/layout.html", "templates/parts.html")
	})
	all := Templates{}
	for _, set := range append([]Set{{Templates: frameFiles}}, sets...) {
		if set.Templates == nil {
			continue
		}
		if err := all.addPages(frame, set.Templates); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (all Templates) addPages(frame func() (*template.Template, error), files fs.FS) error {
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
		base = parseWithin(frame, files, parts)
	}
	for _, name := range pages {
		all[path.Base(name)] = parseWithin(base, files, []string{name})
	}
	return nil
}

// parseWithin parses files into a copy of the template around, once.
func parseWithin(around func() (*template.Template, error), files fs.FS, names []string) func() (*template.Template, error) {
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

func (all Templates) executeTemplate(w io.Writer, file, name string, of any) error {
	read, ok := all[file]
	if !ok {
		return errors.New("file not found")
	}
	t, err := read()
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(w, name, of)
}

// templateFunctions returns the functions that templates may call: none makes a request.
func templateFunctions() template.FuncMap {
	descriptions := markdown.New(time.Now, nil)
	return template.FuncMap{
		"prose": func(description string) template.HTML { return descriptions.Descriptions([]string{description})[0] },
		"size":  text.Size,
		"summed": func(digest string) bool {
			return strings.HasPrefix(digest, "sha256:") || strings.HasPrefix(digest, "SHA256:")
		},
		"day":   func(t time.Time) string { return t.UTC().Format("2 Jan 2006") },
		"hour":  func(t time.Time) string { return t.UTC().Format("15:04") },
		"at":    func(up string, it any) placed { return placed{up, it} },
		"stamp": func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") },
		"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"plain": text.Block, "plural": text.Plural[int],
		"below": func(up string, of any) Under { return Under{up, of} },
		"parts": breakableParts,
		"long":  func(s string) bool { return strings.Count(s, "\n") > 2 || len(s) > 160 },
	}
}

// breakableParts splits an address or a file name where a line may break.
func breakableParts(s string) (all []string) {
	for {
		i := strings.IndexAny(s, "/_")
		if i < 0 {
			return append(all, s)
		}
		all = append(all, s[:i+1])
		s = s[i+1:]
	}
}

// placed is an item for a part that also needs the path to /ui/.
type placed struct {
	Up string
	It any
}

// contentPolicy returns a content security policy that lets a page load only the files of
// this server, and images of the given hosts.
func contentPolicy(images []string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self'; " + strings.Join(append([]string{"img-src 'self'"}, images...), " ") + "; connect-src 'self'; manifest-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// Secure sets the security headers of an answer.
func Secure(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy(nil))
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// sendPage renders a page and then sends it, or 304 if the browser has it.
func (s *site) sendPage(w http.ResponseWriter, r *Request, p *Page) error {
	p.Up = Up(r.URL.Path)
	p.Path = strings.TrimPrefix(r.URL.Path, "/ui/")
	p.Version = s.o.Version
	p.Assets = s.assets.names
	p.Theme = s.theme(r.Request)
	p.Stars = slices.DeleteFunc(s.stars(r.Request), func(l Link) bool { return !mayOpen(r.Grant, l) })
	s.fillCaller(r, p)
	p.Message = s.takeMessage(r)
	p.Menu = r.Menu()
	p.AsOf = r.AsOf
	p.Catalog = s.o.Search && !p.OwnSearch
	var b bytes.Buffer
	if err := s.templates.executeTemplate(&b, p.Template, "layout", p); err != nil {
		return fmt.Errorf("page %s: %w", p.Template, err)
	}
	Secure(w.Header())
	w.Header().Set("Content-Security-Policy", s.policy)
	if p.Status != 0 || p.NoStore || p.Message != nil {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(cmp.Or(p.Status, http.StatusOK))
		_, _ = w.Write(b.Bytes()) // an error means that the browser is gone
		return nil
	}
	a, err := service.Page(b.Bytes())
	if err != nil {
		return err
	}
	a.Write(w, r.Request, "private, no-cache")
	return nil
}

type errorBody struct {
	Status    int
	Text      string
	Hint      string
	RequestID string
	Right     string // right that is missing
	Me        bool   // link to the page with the caller's rights
	Login     string // text of the link to another login; "": none
}

func (s *site) showError(w http.ResponseWriter, hr *http.Request, err error) {
	r := s.newRequest(w, hr)
	status, words, ok := service.Own(err)
	body := errorBody{Text: words}
	switch {
	case ok:
	case errors.Is(err, oci.ErrNotFound):
		status = http.StatusNotFound
		body.Text = "page not found"
	default:
		status = http.StatusBadGateway
		body.Text = "the request to the registry failed"
	}
	body.Status = status
	body.RequestID = service.RequestID(hr)
	if status == http.StatusUnauthorized && s.toLogin(r) {
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	switch status {
	case http.StatusUnauthorized:
		body.Hint = "Without a login, these pages show only public items. With a token, okara list and okara show show the rest."
		w.Header().Set("WWW-Authenticate", access.Challenge(hr))
	case http.StatusNotFound:
		body.Hint = "It may have been withdrawn, or the address may be misspelt. The search finds everything that you may read."
	case http.StatusConflict:
		body.Hint = "Nothing was changed."
	case http.StatusForbidden:
		body.Hint = "The administrator of this server can grant you the right."
		body.Me = true
		if c, err := s.o.Kit.Guard.CallerOf(hr); err == nil && !c.Until.IsZero() {
			body.Login = "Log in as another user"
		}
		if no, ok := errors.AsType[*access.Refusal](err); ok && no.Right != (rights.Right{}) {
			body.Right = Clip(text.Block(no.Right.String()))
		}
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
		body.Hint = "Try again in a moment."
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		body.Hint = "Try again in a moment. The log of the server has the reason, with the ID of this request."
	}
	if status >= http.StatusInternalServerError {
		s.o.Kit.Log(hr).Error("page failed", "path", service.LogPath(hr), "status", status, "error", err)
	}
	title := errorTitle(status)
	if no, ok := errors.AsType[*access.Refusal](err); ok && no.Login {
		title = "Not logged in"
		body.Hint = "Log in again. If that fails too, the log of the server has the reason, with the ID of this request."
		body.Me = false
		body.Login = "Log in again"
	}
	p := &Page{Template: "error.html", Status: status, Title: title, Body: body}
	if err := s.sendPage(w, r, p); err != nil {
		s.o.Kit.Fail(w, hr, err)
	}
}

// errorTitle returns a title that is shorter than the error, and more familiar than
// HTTP's status text.
func errorTitle(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "Token required"
	case http.StatusForbidden:
		return "Access denied"
	case http.StatusNotFound:
		return "Not found"
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return "Registry unavailable"
	case http.StatusServiceUnavailable:
		return "Busy"
	}
	return http.StatusText(status)
}

// NotFound returns the error for a page that does not exist, or that the caller must not
// know of: 404.
func NotFound(format string, args ...any) error {
	return &service.Error{Status: http.StatusNotFound, Text: fmt.Sprintf(format, args...)}
}
