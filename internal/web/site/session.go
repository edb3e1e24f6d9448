// SPDX-License-Identifier: Apache-2.0

package site

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/seed-141914ff/okara/internal/access"
)

// Return returns the page to come back to, below /ui/: that of the parameter return, else
// the page with the link to the login.
func (r *Request) Return() string {
	if q := r.URL.Query(); q.Has("return") {
		return Back(q.Get("return"))
	}
	u, err := url.Parse(r.Referer())
	if err != nil || u.Host != r.Host {
		return ""
	}
	path := u.EscapedPath()
	if sessions := r.site.o.Kit.Guard.Sessions(); sessions != nil {
		path = strings.TrimPrefix(path, strings.TrimSuffix(sessions.Path, "/"))
	}
	if strings.HasPrefix(path, "/ui/login") {
		return ""
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return Back(path)
}

// toLogin redirects a caller without a session to the login, and reports whether it did.
// A caller with its own token gets the error of that instead.
func (s *site) toLogin(r *Request) bool {
	guard := s.o.Kit.Guard
	sessions := guard.Sessions()
	if sessions == nil || r.Header.Get("Authorization") != "" || !strings.HasPrefix(r.URL.Path, "/ui/") {
		return false
	}
	for _, c := range sessions.Forget(r.Request) { // it was invalid, or has too few rights
		r.SetCookie(c)
	}
	if guard.BrowserLogins().Way() == access.NoWay {
		return false
	}
	to := r.Return() // for a form: the page it is on
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		to = Back(r.URL.RequestURI())
	}
	Secure(r.Reply)
	r.Reply.Set("Cache-Control", "no-store")
	r.Reply.Set("Location", Up(r.URL.Path)+"login?return="+url.QueryEscape("/ui/"+to))
	return true
}

func (s *site) fillCaller(r *Request, p *Page) {
	p.Login = s.o.Kit.Guard.BrowserLogins().Way() != access.NoWay
	if r.Grant.Mode == "" {
		if c, err := s.o.Kit.Guard.CallerOf(r.Request); err == nil {
			r.Grant.Caller = c
		}
	}
	if r.Grant.Mode != "anonymous" {
		p.Who = r.Grant.Label
		p.Who = cmp.Or(p.Who, r.Grant.Subject)
	}
	if p.Who != "" {
		p.Replica = s.o.Replica
	}
}

// isLocalPath reports whether a URL is on this server, which means that it is only a path.
func isLocalPath(u *url.URL) bool {
	return !u.IsAbs() && u.Host == "" && u.Opaque == "" && u.User == nil
}

// Back validates the path of a page, /ui/…, that came with a request. It returns the part
// below /ui/, with its query, or "" if the path is not a page of this server. A browser
// treats a backslash as a slash, drops tabs and line feeds, and treats %2e as a dot.
func Back(path string) string {
	rest, ok := strings.CutPrefix(path, "/ui/")
	if !ok || len(path) > maxReturn || strings.ContainsFunc(path, func(c rune) bool { return c == '\\' || unicode.IsControl(c) || c == unicode.ReplacementChar }) {
		return ""
	}
	u, err := url.Parse(path)
	if err != nil || !isLocalPath(u) {
		return ""
	}
	for _, c := range u.Path {
		if c == '\\' || unicode.IsControl(c) {
			return ""
		}
	}
	startPage := rest == "" || u.Path == "/ui/"
	for segment := range strings.SplitSeq(strings.TrimSuffix(u.Path[len("/ui/"):], "/"), "/") {
		dots := segment == "." || segment == ".."
		if dots || segment == "" && !startPage {
			return ""
		}
	}
	to := strings.TrimPrefix(u.EscapedPath(), "/ui/")
	if u.RawQuery != "" {
		to += "?" + u.RawQuery
	}
	return to
}

// maxReturn bounds the address of a page to return to.
const maxReturn = 2 << 10
