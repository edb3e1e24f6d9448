// SPDX-License-Identifier: Apache-2.0

package site

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
)

// Return is the page to come back to, below /ui/: the one that is asked for, else
// the one with the link to the login.
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

// toLogin sends somebody without a session to where he gets one, and reports whether
// it did. A caller with a token of their own learns that it was wrong.
func (s *site) toLogin(r *Request) bool {
	guard := s.o.Kit.Guard
	sessions := guard.Sessions()
	if sessions == nil || r.Header.Get("Authorization") != "" || !strings.HasPrefix(r.URL.Path, "/ui/") {
		return false
	}
	for _, c := range sessions.Forget(r.Request) { // it was not good, or is not enough
		r.SetCookie(c)
	}
	if guard.BrowserLogins().Way() == access.NoWay {
		return false
	}
	to := r.Return() // of a form: its page
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		to = Back(r.URL.RequestURI())
	}
	Secure(r.Reply)
	r.Reply.Set("Cache-Control", "no-store")
	r.Reply.Set("Location", Up(r.URL.Path)+"login?return="+url.QueryEscape("/ui/"+to))
	return true
}

// know gives a page its reader.
func (s *site) know(r *Request, p *Page) {
	p.Login = s.o.Kit.Guard.BrowserLogins().Way() != access.NoWay
	if r.Grant.Mode == "" {
		if c, err := s.o.Kit.Guard.CallerOf(r.Request); err == nil {
			r.Grant.Caller = c
		}
	}
	if r.Grant.Mode != "anonymous" {
		p.Who = r.Grant.Label
		if p.Who == "" {
			p.Who = r.Grant.Subject
		}
	}
	if p.Who != "" {
		p.Replica = s.o.Replica
	}
}
