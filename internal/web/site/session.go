// SPDX-License-Identifier: Apache-2.0

package site

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

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
