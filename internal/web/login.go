// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
)

// maxLogins bounds the logins with a token, a minute and address.
const maxLogins = 10

// loginBody is the page where people log in.
type loginBody struct {
	Issuer string // to log in at; "": with a token
	Token  bool   // people log in with a token
	Return string // the page to come back to, /ui/…
	Wrong  string // what was wrong with the token
}

// login sends a browser to the issuer, or shows the form for a token. With ?stay it
// waits to be told, as after a logout: the issuer may know the browser still.
func (s *server) login(w http.ResponseWriter, hr *http.Request) error {
	r := &request{Request: hr, header: w.Header()}
	to := s.returnOf(hr)
	guard := s.o.Kit.Guard
	if guard.LoginWay() != access.ByIssuer || hr.URL.Query().Has("stay") {
		return s.write(w, r, s.loginPage(to, ""))
	}
	at, cookie, err := guard.BrowserLogin(hr, "/ui/"+to)
	if err != nil {
		return err
	}
	r.setCookie(cookie)
	secure(w.Header())
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", at.String())
	w.WriteHeader(http.StatusFound)
	return nil
}

func (s *server) loginPage(to, wrong string) *page {
	body := loginBody{Return: "/ui/" + to, Wrong: wrong}
	switch s.o.Kit.Guard.LoginWay() {
	case access.ByIssuer:
		body.Issuer = s.o.Kit.Guard.LoginIssuer()
	case access.ByToken:
		body.Token = true
	}
	return &page{Template: "login.html", Title: "Log in", NoStore: true, Body: body}
}

// returnOf is the page to come back to, below /ui/: the one that is asked for, else
// the one with the link to the login.
func (s *server) returnOf(r *http.Request) string {
	if q := r.URL.Query(); q.Has("return") {
		return back(q.Get("return"))
	}
	u, err := url.Parse(r.Referer())
	if err != nil || u.Host != r.Host {
		return ""
	}
	path := u.EscapedPath()
	if sessions := s.o.Kit.Guard.Sessions(); sessions != nil {
		path = strings.TrimPrefix(path, strings.TrimSuffix(sessions.Path, "/"))
	}
	if strings.HasPrefix(path, "/ui/login") {
		return ""
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return back(path)
}

// mayLogIn bounds how fast tokens can be tried.
func (s *server) mayLogIn(r *request) error {
	wait, ok := s.logins.Take(s.o.Kit.Client(r.Request).String())
	if ok {
		return nil
	}
	r.header.Set("Retry-After", strconv.Itoa(max(1, int(wait/time.Second))))
	return &service.Error{Status: http.StatusTooManyRequests, Text: "too many logins from this address: try again in a minute"}
}

// logIn begins the session of who has a token.
func (s *server) logIn(r *request, f *form) (*answer, error) {
	to := back(f.Get("return"))
	in, err := s.o.Kit.Guard.TokenLogin(r.Request, strings.TrimSpace(f.Get("token")))
	if status, text, ok := service.Own(err); ok && status == http.StatusUnauthorized {
		p := s.loginPage(to, text)
		p.Status = http.StatusUnauthorized
		r.header.Set("WWW-Authenticate", access.Challenge(r.Request))
		return &answer{Page: p}, nil
	}
	if err != nil {
		return nil, err
	}
	s.begun(r, in)
	return &answer{To: to}, nil
}

// callback is where the issuer sends a browser back to.
func (s *server) callback(w http.ResponseWriter, hr *http.Request) error {
	r := &request{Request: hr, header: w.Header()}
	in, err := s.o.Kit.Guard.BrowserCallback(hr)
	if err != nil {
		return err
	}
	s.begun(r, in)
	secure(w.Header())
	w.Header().Set("Referrer-Policy", "no-referrer") // the address has the code of the issuer in it
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", up(hr.URL.Path)+back(in.Back))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

func (s *server) begun(r *request, in access.LoggedIn) {
	r.grant = access.Grant{Caller: in.Caller}
	for _, c := range in.Cookies {
		r.setCookie(c)
	}
}

// logOut makes the browser forget its session.
func (s *server) logOut(r *request, _ *form) (*answer, error) {
	for _, c := range s.o.Kit.Guard.LogOut(r.Request) {
		r.setCookie(c)
	}
	r.grant = access.Grant{}
	return &answer{To: "login?stay", Text: "You are logged out in this browser."}, nil
}

// toLogin sends somebody without a session to where he gets one, and reports whether
// it did. Who sent a token of his own is told that it was wrong.
func (s *server) toLogin(r *request) bool {
	guard := s.o.Kit.Guard
	sessions := guard.Sessions()
	if sessions == nil || r.Header.Get("Authorization") != "" || !strings.HasPrefix(r.URL.Path, "/ui/") {
		return false
	}
	for _, c := range sessions.Forget(r.Request) { // it was not good, or is not enough
		r.setCookie(c)
	}
	if guard.LoginWay() == access.NoWay {
		return false
	}
	to := s.returnOf(r.Request) // of a form: its page
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		to = back(r.URL.RequestURI())
	}
	secure(r.header)
	r.header.Set("Cache-Control", "no-store")
	r.header.Set("Location", up(r.URL.Path)+"login?return="+url.QueryEscape("/ui/"+to))
	return true
}

// know tells a page who looks at it.
func (s *server) know(r *request, p *page) {
	p.Login = s.o.Kit.Guard.LoginWay() != access.NoWay
	if r.grant.Mode == "" {
		if c, err := s.o.Kit.Guard.Who(r.Request); err == nil {
			r.grant.Caller = c
		}
	}
	if r.grant.Mode != "anonymous" {
		p.Who = r.grant.Label
		if p.Who == "" {
			p.Who = r.grant.Subject
		}
	}
	if p.Who != "" {
		p.Replica = s.o.Replica
	}
}
