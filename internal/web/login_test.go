// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/internal/webtest"
	"github.com/seed-141914ff/okara/oci"
)

const (
	adminToken = "oks_admin_aaaaaaaaaaaaaaaaaaaaaaaa"
	annaToken  = "oks_anna_bbbbbbbbbbbbbbbbbbbbbbbb"
)

// tokens returns the tokens of an admin, and of a user that may read one namespace.
func tokens() []statictoken.Token {
	return []statictoken.Token{
		{ID: "admin", Hash: sha256.Sum256([]byte(adminToken)), Scopes: rights.AnonymousAll()},
		{ID: "anna", Hash: sha256.Sum256([]byte(annaToken)), Scopes: []rights.Scope{{Action: rights.Read, Kind: addr.KindModule, Glob: "net/**"}}},
	}
}

// ring returns a keyring with one key per letter.
func ring(t testing.TB, letters ...string) *keyring.Ring {
	t.Helper()
	var keys []keyring.Key
	for _, l := range letters {
		keys = append(keys, keyring.Key{Secret: bytes.Repeat([]byte(l), 32)})
	}
	return must.Get(keyring.New(keys))(t)
}

// house has the pages of one server, or several, over an empty registry.
type house struct {
	*httptest.Server
	guard *access.Guard
	audit *webtest.Audit
}

// newHouse starts pages of a guard, below base as behind a proxy.
func newHouse(t testing.TB, o access.Options, base string) *house {
	t.Helper()
	h := &house{audit: &webtest.Audit{}}
	if o.Keyring == nil {
		o.Keyring = ring(t, "a")
	}
	h.Server = httptest.NewUnstartedServer(nil)
	h.URL = "http://" + h.Listener.Addr().String()
	if o.Login != nil && o.Login.PublicURL == "" {
		o.Login.PublicURL = h.URL + base
	}
	o.Audit = slog.New(slog.NewJSONHandler(h.audit, nil))
	o.Logger = slog.New(slog.NewTextHandler(h.audit, nil))
	guard := must.Get(access.New(o))(t)
	h.guard = guard
	client := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true}))(t)
	there := catalog.New(catalog.Options{Client: client, Layout: addr.Layout{Prefix: "acme"}})
	all := must.Get(web.New(web.Options{
		Kit:     service.New(service.Options{Guard: guard, Logger: o.Logger}),
		Catalog: there, Finder: catalog.NewFinder(there, false), Version: "1.2.3", Now: o.Now,
	}))(t)
	h.Config.Handler = http.StripPrefix(base, all)
	h.URL = "" // set by Start
	h.Start()
	t.Cleanup(h.Close)
	return h
}

// browser returns a client that keeps cookies, and does not follow redirects.
func (h *house) browser(t testing.TB) *http.Client {
	t.Helper()
	jar := must.Get(cookiejar.New(nil))(t)
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// visit requests a page as a browser does; form is the body of a POST, "" for a GET.
func visit(t testing.TB, c *http.Client, at, form string, header ...string) (*http.Response, string) {
	t.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != "" {
		method, body = http.MethodPost, strings.NewReader(form)
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), method, at, body))(t)
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(c.Do(r))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp, string(b)
}

// goes returns the redirect of an answer, as the browser resolves it.
func goes(t testing.TB, resp *http.Response) string {
	t.Helper()
	to, err := resp.Location()
	if err != nil {
		t.Fatalf("%s leads nowhere: %v", resp.Request.URL, err)
	}
	return to.RequestURI()
}

// TestTokenLogin logs in with a token, from a page that needs it and back to that page,
// and logs out.
//
// Shows: pages 6
func TestTokenLogin(t *testing.T) {
	for _, base := range []string{"", "/okara"} {
		t.Run("below "+base+"/", func(t *testing.T) {
			h := newHouse(t, access.Options{Policy: access.Policy{Tokens: tokens()}, Sessions: &access.Sessions{Keyring: ring(t, "s"), Path: base, Plain: true}}, base)
			c := h.browser(t)
			resp, _ := visit(t, c, h.URL+base+"/ui/search?q=vpc", "")
			if resp.StatusCode != http.StatusSeeOther || goes(t, resp) != base+"/ui/login?return=%2Fui%2Fsearch%3Fq%3Dvpc" {
				t.Fatalf("%s to %s", resp.Status, resp.Header.Get("Location"))
			}
			resp, page := visit(t, c, h.URL+goes(t, resp), "")
			if resp.StatusCode != http.StatusOK || !strings.Contains(page, `name="return" value="/ui/search?q=vpc"`) || resp.Header.Get("Cache-Control") != "no-store" {
				t.Fatalf("%s\n%s", resp.Status, page)
			}
			form := url.Values{"return": {"/ui/search?q=vpc"}, "token": {annaToken}}
			if resp, page = visit(t, c, h.URL+base+"/ui/login", strings.Replace(form.Encode(), "bbb", "bbc", 1)); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(page, "not valid here") || strings.Contains(page, "bbc") {
				t.Fatalf("a wrong token: %s\n%s", resp.Status, page)
			}
			resp, _ = visit(t, c, h.URL+base+"/ui/login", form.Encode())
			if resp.StatusCode != http.StatusSeeOther || goes(t, resp) != base+"/ui/search?q=vpc" {
				t.Fatalf("%s to %s", resp.Status, resp.Header.Get("Location"))
			}
			for _, cookie := range resp.Cookies() {
				if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != base+"/" || cookie.MaxAge != 3600 || strings.Contains(cookie.Value, "bbb") {
					t.Errorf("%+v", cookie)
				}
			}
			if resp, _ = visit(t, c, h.URL+base+"/ui/search", ""); resp.StatusCode != http.StatusOK {
				t.Errorf("a page: %s", resp.Status)
			}
			if _, page = visit(t, c, h.URL+base+"/ui/me", ""); !strings.Contains(page, "Me: anna") || !strings.Contains(page, "read:module:net/**") || !strings.Contains(page, "Session ends") {
				t.Errorf("me:\n%s", page)
			}
			if resp, _ = visit(t, c, h.URL+base+"/ui/me", "", "Authorization", "Bearer oks_anna_wrongwrongwrongwrong"); resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("a wrong token beside a good session: %s", resp.Status)
			}
			if resp, _ = visit(t, c, h.URL+base+"/ui/logout", "a=b", "Origin", "https://evil.example.com"); resp.StatusCode != http.StatusForbidden {
				t.Errorf("another site logs out: %s", resp.Status)
			}
			resp, _ = visit(t, c, h.URL+base+"/ui/logout", "a=b")
			if resp.StatusCode != http.StatusSeeOther || goes(t, resp) != base+"/ui/login?stay" {
				t.Fatalf("%s to %s", resp.Status, resp.Header.Get("Location"))
			}
			if _, page = visit(t, c, h.URL+goes(t, resp), ""); !strings.Contains(page, "You are logged out") || strings.Contains(page, "anna") {
				t.Errorf("after the logout:\n%s", page)
			}
			if resp, _ = visit(t, c, h.URL+base+"/ui/search", ""); resp.StatusCode != http.StatusSeeOther {
				t.Errorf("a page after the logout: %s", resp.Status)
			}
			text := h.audit.String()
			for _, want := range []string{`"action":"login","kind":"*","address":"","version":"","from_version":"","digest":"","lock_id":"","run":0,"detail":"","outcome":"done","decision":"allowed","rule":"session","mode":"static","subject":"anna"`, `"action":"logout"`, `"decision":"denied","rule":"","mode":"refused"`} {
				if !strings.Contains(text, want) {
					t.Errorf("the records have no %s:\n%s", want, text)
				}
			}
			if strings.Contains(text, "bbbbbbbb") || strings.Contains(text, "bbcbbb") {
				t.Errorf("a token is in the records:\n%s", text)
			}
		})
	}
}

// TestLoginRate tries tokens until the server says to wait.
//
// Shows: pages 6
func TestLoginRate(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	h := newHouse(t, access.Options{
		Policy: access.Policy{Tokens: tokens()}, Sessions: &access.Sessions{Keyring: ring(t, "s"), Plain: true}, Now: func() time.Time { return now },
	}, "")
	c := h.browser(t)
	for i := range 10 {
		if resp, _ := visit(t, c, h.URL+"/ui/login", "token=oks_admin_wrongwrongwrongwrong"); resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("try %d: %s", i, resp.Status)
		}
	}
	resp, _ := visit(t, c, h.URL+"/ui/login", "token="+adminToken)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || len(resp.Cookies()) > 0 {
		t.Errorf("one more: %s %v", resp.Status, resp.Header)
	}
	now = now.Add(time.Minute)
	if resp, _ := visit(t, c, h.URL+"/ui/login", "token="+adminToken+"&return=//evil.example.com/ui/"); resp.StatusCode != http.StatusSeeOther || strings.Contains(resp.Header.Get("Location"), "evil") {
		t.Errorf("a minute later: %s to %s", resp.Status, resp.Header.Get("Location"))
	}
	if resp, _ := visit(t, c, h.URL+"/ui/login", "token="+strings.Repeat("a", 17<<10)); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a large form: %s", resp.Status)
	}
}
