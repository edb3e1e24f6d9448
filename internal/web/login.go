// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// maxLogins bounds the logins with a token per minute and address.
const maxLogins = 10

type loginBody struct {
	Issuer string // identity provider for the login; "": login with a token only
	Token  bool   // users log in with a token, beside the issuer if there is one
	Return string // page to return to, /ui/…
	Wrong  string // error message about the token
}

// logins has the login, the logout, and the page about the caller.
type logins struct {
	kit   *service.Kit
	guard *access.Guard
	rate  *service.Rate // of logins with a token, by address
	hosts site.Hosts
}

func (l *logins) addRoutes(r *site.Routes) {
	r.Raw("GET /ui/login", l.show)
	r.Form("POST /ui/login", l.limitTries, l.logIn) // limited to ten per minute
	r.Raw("GET /login/callback", l.completeLogin)   // the issuer redirects browsers to it
	r.Form("POST /ui/logout", site.NoRight, l.logOut)
	r.Open("GET /ui/me", l.showMe)
}

// show redirects a browser to the issuer, or shows the form for a token. With ?stay it
// waits for a click, as after a logout: the issuer may still have a session of the
// browser. Where there are both, the browser chooses, and ?issuer is its choice: whether
// the issuer answers is known only to the browser.
func (l *logins) show(r *site.Request, w http.ResponseWriter) error {
	to := r.Return()
	choose := l.guard.BrowserLogins().TakeTokens() && !r.URL.Query().Has("issuer")
	if l.guard.BrowserLogins().Way() != access.ByIssuer || choose || r.URL.Query().Has("stay") {
		return r.Answer(w, l.loginPage(to, ""))
	}
	at, cookie, err := l.guard.BrowserLogins().Begin(r.Request, "/ui/"+to)
	if status, text, own := service.Own(err); own && status == http.StatusServiceUnavailable && l.guard.BrowserLogins().TakeTokens() {
		return r.Answer(w, l.loginPage(to, text))
	}
	if err != nil {
		return err
	}
	r.SetCookie(cookie)
	site.Secure(w.Header())
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", at)
	w.WriteHeader(http.StatusFound)
	return nil
}

func (l *logins) loginPage(to, wrong string) *site.Page {
	body := loginBody{Return: "/ui/" + to, Wrong: wrong}
	body.Token = l.guard.BrowserLogins().TakeTokens()
	if l.guard.BrowserLogins().Way() == access.ByIssuer {
		body.Issuer = l.guard.BrowserLogins().Issuer()
	}
	return &site.Page{Template: "login.html", Title: "Log in", NoStore: true, Body: body}
}

// limitTries limits the rate at which tokens can be tried.
func (l *logins) limitTries(r *site.Request) error {
	wait, ok := l.rate.Allow(l.kit.Client(r.Request).String())
	if ok {
		return nil
	}
	r.Reply.Set("Retry-After", strconv.Itoa(max(1, int(wait/time.Second))))
	return &service.Error{Status: http.StatusTooManyRequests, Text: "too many logins from this address: try again in a minute"}
}

// logIn begins a session for the holder of a token.
func (l *logins) logIn(r *site.Request, f *site.Form) (*site.Answer, error) {
	to := site.Back(f.Get("return"))
	in, err := l.guard.BrowserLogins().ByToken(r.Request, strings.TrimSpace(f.Get("token")))
	if status, text, ok := service.Own(err); ok && status == http.StatusUnauthorized {
		p := l.loginPage(to, text)
		p.Status = http.StatusUnauthorized
		r.Reply.Set("WWW-Authenticate", access.Challenge(r.Request))
		return &site.Answer{Page: p}, nil
	}
	if err != nil {
		return nil, err
	}
	beginSession(r, in)
	return &site.Answer{To: to}, nil
}

// completeLogin completes a login after the issuer redirected the browser here.
func (l *logins) completeLogin(r *site.Request, w http.ResponseWriter) error {
	in, err := l.guard.BrowserLogins().Callback(r.Request)
	if err != nil {
		return err
	}
	beginSession(r, in)
	site.Secure(w.Header())
	w.Header().Set("Referrer-Policy", "no-referrer") // the address contains the issuer's code
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", site.Up(r.URL.Path)+site.Back(in.Back))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

func beginSession(r *site.Request, in access.LoggedIn) {
	r.Grant = access.Grant{Caller: in.Caller}
	for _, c := range in.Cookies {
		r.SetCookie(c)
	}
}

// logOut makes the browser forget its session.
func (l *logins) logOut(r *site.Request, _ *site.Form) (*site.Answer, error) {
	for _, c := range l.guard.BrowserLogins().End(r.Request) {
		r.SetCookie(c)
	}
	r.Grant = access.Grant{}
	return &site.Answer{To: "login?stay", Text: "You are logged out in this browser."}, nil
}
