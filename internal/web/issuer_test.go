// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// team returns a policy that lets members of a group read modules of net.
func team(t testing.TB) access.Policy {
	t.Helper()
	return access.Policy{Rules: []access.Rule{webtest.Rule(t, "team", "read:module:net/**", "use:instance:sandbox/*")}}
}

// brokered returns a server whose users log in at an issuer.
func brokered(t testing.TB, i *webtest.Issuer, sessions *access.Sessions, change func(*access.Options)) *house {
	t.Helper()
	o := access.Options{
		Policy: team(t), Sessions: sessions,
		Login: &access.Login{Issuer: access.Issuer{URL: i.URL}, ClientID: "okara-web", PublicURL: "http://okara.invalid" + sessions.Path},
	}
	if change != nil {
		change(&o)
	}
	return newHouse(t, o, sessions.Path)
}

// toIssuer follows a browser from a page to the issuer, and returns the redirect back.
func (h *house) toIssuer(t testing.TB, c *http.Client, page string) *url.URL {
	t.Helper()
	resp, _ := visit(t, c, h.URL+page, "")
	if resp.StatusCode == http.StatusSeeOther {
		resp, _ = visit(t, c, h.URL+goes(t, resp), "")
	}
	if resp.StatusCode != http.StatusFound || resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	to := must.Get(resp.Location())(t)
	resp, body := visit(t, c, to.String(), "")
	if resp.StatusCode != http.StatusFound {
		t.Fatalf("%s %s", resp.Status, body)
	}
	at, err := resp.Location()
	if err != nil || at.Host != "okara.invalid" {
		t.Fatalf("the issuer sends the browser to %v", at)
	}
	return at
}

// in logs a browser in, and returns the address to which that leads.
func (h *house) in(t testing.TB, c *http.Client, page string) string {
	t.Helper()
	resp, body := visit(t, c, h.URL+h.toIssuer(t, c, page).RequestURI(), "")
	if resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("%s %s", resp.Status, body)
	}
	return goes(t, resp)
}

// teamed adds the group, and further claims that are not requested.
func teamed(claims map[string]any) {
	claims["groups"] = []string{"team", "other", "secret-group"}
	claims["phone"] = strings.Repeat("5", 3000)
}

// TestIssuerLogin logs in from a page through the issuer and back to the page.
//
// Shows: pages 6 | logins: at the issuer, with one parameter changed, with a token, rate limits
func TestIssuerLogin(t *testing.T) {
	for _, base := range []string{"", "/okara"} {
		t.Run("below "+base+"/", func(t *testing.T) {
			i := webtest.NewIssuer(t)
			i.Says = teamed
			h := brokered(t, i, &access.Sessions{Keyring: ring(t, "s"), Path: base, Plain: true}, nil)
			c := h.browser(t)
			must.Equal(t, "it led to", h.in(t, c, base+"/ui/search?q=vpc"), base+"/ui/search?q=vpc")
			resp, page := visit(t, c, h.URL+base+"/ui/me", "")
			for _, want := range []string{"Me: Anna", "read:module:net/**", "<code>team</code>", "tofu login"} {
				if !strings.Contains(page, want) {
					t.Errorf("no %q (%s):\n%s", want, resp.Status, page)
				}
			}
			if strings.Contains(page, "secret-group") || strings.Contains(page, "<code>other") {
				t.Errorf("a session keeps groups that nothing names:\n%s", page)
			}
			if resp, _ := visit(t, c, h.URL+base+"/ui/login", "token="+adminToken); resp.StatusCode != http.StatusNotFound {
				t.Errorf("a token where people log in at the issuer: %s", resp.Status)
			}
			// A redirect back that was used, or that belongs to another browser, is
			// refused.
			at := h.toIssuer(t, c, base+"/ui/login")
			if resp, _ := visit(t, h.browser(t), h.URL+at.RequestURI(), ""); resp.StatusCode != http.StatusBadRequest || len(resp.Cookies()) > 0 {
				t.Errorf("another browser: %s, %v", resp.Status, resp.Cookies())
			}
			if resp, _ := visit(t, c, h.URL+at.RequestURI(), ""); resp.StatusCode != http.StatusSeeOther {
				t.Errorf("this browser: %s", resp.Status)
			}
			if resp, _ := visit(t, c, h.URL+at.RequestURI(), ""); resp.StatusCode != http.StatusBadRequest {
				t.Errorf("once more: %s", resp.Status)
			}
			// Row 7: no token is in an address or a page.
			if text := h.audit.String(); strings.Contains(text, "eyJ") {
				t.Errorf("a token is in the records:\n%s", text)
			}
		})
	}
}

// TestLoginWithoutIssuer: a static token beside an issuer, only if configured.
func TestLoginWithoutIssuer(t *testing.T) {
	now := time.Now()
	for _, on := range []bool{false, true} {
		i := webtest.NewIssuer(t)
		h := brokered(t, i, &access.Sessions{Keyring: ring(t, "s"), Plain: true, Tokens: on}, func(o *access.Options) {
			o.Policy.Tokens, o.Now = tokens(), func() time.Time { return now }
		})
		c := h.browser(t)
		form := url.Values{"token": {annaToken}}.Encode()
		if on { // what the server knows of the issuer by now does not count
			if resp, _ := visit(t, c, h.URL+"/ui/login?issuer", ""); resp.StatusCode != http.StatusFound || !strings.HasPrefix(resp.Header.Get("Location"), i.URL) {
				t.Errorf("to the issuer: %s %s", resp.Status, resp.Header.Get("Location"))
			}
		}
		i.Close()
		resp, page := visit(t, c, h.URL+"/ui/login", "")
		if offered := strings.Contains(page, `name="token"`); offered != on || on == (resp.StatusCode == http.StatusServiceUnavailable) {
			t.Errorf("on %v: %s\n%s", on, resp.Status, page)
		}
		if _, page := visit(t, c, h.URL+"/ui/login?stay", ""); strings.Contains(page, `name="token"`) != on || !strings.Contains(page, i.URL) {
			t.Errorf("on %v, the login page:\n%s", on, page)
		}
		if resp, _ := visit(t, c, h.URL+"/ui/login", form); on != (resp.StatusCode == http.StatusSeeOther) {
			t.Errorf("on %v, a token: %s", on, resp.Status)
		}
		if resp, _ := visit(t, c, h.URL+"/ui/search", ""); on != (resp.StatusCode == http.StatusOK) {
			t.Errorf("on %v, a page: %s", on, resp.Status)
		}
		for n := range 12 {
			resp, _ := visit(t, c, h.URL+"/ui/login", strings.Replace(form, "bbb", "bbc", 1))
			if want := n >= 9 || !on; on && want != (resp.StatusCode == http.StatusTooManyRequests) {
				t.Errorf("wrong token %d: %s", n, resp.Status)
			}
		}
	}
}

// TestLoggedInWithoutRights logs in a user without any right: pages say so. A redirect to
// the issuer, which knows the user, would loop for ever.
//
// Shows: pages 5
func TestLoggedInWithoutRights(t *testing.T) {
	i := webtest.NewIssuer(t)
	h := brokered(t, i, &access.Sessions{Keyring: ring(t, "s"), Plain: true}, nil)
	c := h.browser(t)
	if to := h.in(t, c, "/ui/"); to != "/ui/" {
		t.Fatalf("it led to %s", to)
	}
	for _, page := range []string{"/ui/", "/ui/search?q=vpc", "/ui/modules/net"} {
		resp, body := visit(t, c, h.URL+page, "")
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "Your rights</a>") || !strings.Contains(body, `login?stay">Log in as another user</a>`) {
			t.Errorf("%s: %s to %s\n%s", page, resp.Status, resp.Header.Get("Location"), body)
		}
	}
	at := h.toIssuer(t, c, "/ui/login")
	refused := at.Query()
	refused.Set("error", "access_denied")
	if resp, body := visit(t, c, h.URL+at.Path+"?"+refused.Encode(), ""); resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "<h1>Not logged in</h1>") || !strings.Contains(body, `login?stay">Log in again</a>`) || strings.Contains(body, "administrator of this server can grant") {
		t.Errorf("a login that the issuer refused: %s\n%s", resp.Status, body)
	}
	if _, body := visit(t, c, h.URL+"/ui/me", ""); !strings.Contains(body, "Me: Anna") {
		t.Errorf("the session is gone:\n%s", body)
	}
}

// TestIssuerLoginRefused changes one part of a login.
//
// Shows: pages 6
func TestIssuerLoginRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		query  func(url.Values)
		says   func(map[string]any)
		cookie bool // the browser has lost its cookie
		after  time.Duration
		status int
	}{
		{"as it should be", nil, nil, false, 0, 303},
		{"no cookie", nil, nil, true, 0, 400},
		{"late", nil, nil, false, 10 * time.Minute, 400},
		{"no state", func(q url.Values) { q.Del("state") }, nil, false, 0, 400},
		{"a cut state", func(q url.Values) { q.Set("state", q.Get("state")[:40]) }, nil, false, 0, 400},
		{"another code", func(q url.Values) { q.Set("code", "7") }, nil, false, 0, 403},
		{"an error", func(q url.Values) { q.Set("error", "access_denied") }, nil, false, 0, 403},
		{"another issuer", func(q url.Values) { q.Set("iss", "https://evil.example.com") }, nil, false, 0, 400},
		{"another nonce", nil, func(c map[string]any) { c["nonce"] = "x" }, false, 0, 403},
		{"for another client", nil, func(c map[string]any) { c["aud"] = "another" }, false, 0, 403},
		{"from another issuer", nil, func(c map[string]any) { c["iss"] = "https://evil.example.com" }, false, 0, 403},
		{"expired", nil, func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() }, false, 0, 403},
		{"two cookies", nil, func(c map[string]any) { c["groups"] = longGroups(130) }, false, 0, 303},
		{"more than two cookies", nil, func(c map[string]any) { c["groups"] = longGroups(250) }, false, 0, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Now()
			i := webtest.NewIssuer(t)
			i.Says = c.says
			h := brokered(t, i, &access.Sessions{Keyring: ring(t, "s"), Plain: true, Keep: func() access.Kept { return access.Kept{Groups: []string{"**"}} }},
				func(o *access.Options) { o.Now = func() time.Time { return now } })
			b := h.browser(t)
			at := h.toIssuer(t, b, "/ui/search")
			q := at.Query()
			if c.query != nil {
				c.query(q)
			}
			if c.cookie {
				b = h.browser(t)
			}
			now = now.Add(c.after)
			resp, body := visit(t, b, h.URL+"/login/callback?"+q.Encode(), "")
			if c.name == "no state" || c.name == "a cut state" {
				if h.guard.BrowserLogins().Owns(resp.Request) {
					t.Error("it is taken for a login of a browser")
				}
			}
			if resp.StatusCode != c.status {
				t.Fatalf("%s\n%s", resp.Status, body)
			}
			resp, page := visit(t, b, h.URL+"/ui/me", "")
			if in := strings.Contains(page, "Me: Anna"); in != (c.status == http.StatusSeeOther) {
				t.Errorf("logged in: %v (%s)", in, resp.Status)
			}
		})
	}
}

// longGroups returns n names of groups of about 30 bytes.
func longGroups(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("a-group-of-thirty-bytes-%06d", i))
	}
	return all
}

// TestReplicas logs in at one server; another one with the same keys accepts the session
// as long as it has the key.
//
// Shows: pages 5
func TestReplicas(t *testing.T) {
	i := webtest.NewIssuer(t)
	i.Says = func(claims map[string]any) { claims["groups"] = append(longGroups(100), "team") }
	keep := func() access.Kept { return access.Kept{Groups: []string{"**"}} }
	sessions := func(letters ...string) *access.Sessions {
		return &access.Sessions{Keyring: ring(t, letters...), Keep: keep}
	}
	first := brokered(t, i, sessions("s"), nil)
	b := first.browser(t)
	at := first.toIssuer(t, b, "/ui/search")
	resp, body := visit(t, b, first.URL+at.RequestURI(), "")
	if resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("%s\n%s", resp.Status, body)
	}
	var cookies []string
	for _, c := range resp.Cookies() {
		if c.MaxAge > 0 {
			cookies = append(cookies, c.Name+"="+c.Value)
			if !c.Secure || !c.HttpOnly || c.Path != "/" || !strings.HasPrefix(c.Name, "__Host-okara") || len(c.String()) > 4096 {
				t.Errorf("%s: %d bytes, %+v", c.Name, len(c.String()), c)
			}
		}
	}
	if len(cookies) != 2 {
		t.Fatalf("%d cookies", len(cookies))
	}
	for name, c := range map[string]struct {
		letters []string
		cookies string
		status  int
	}{
		"the same":              {[]string{"s"}, strings.Join(cookies, "; "), 200},
		"rotated":               {[]string{"t", "s"}, strings.Join(cookies, "; "), 200},
		"rotated twice":         {[]string{"u", "t"}, strings.Join(cookies, "; "), 303},
		"without the rest":      {[]string{"s"}, cookies[0], 303},
		"the rest alone":        {[]string{"s"}, cookies[1], 303},
		"two of one name":       {[]string{"s"}, strings.Join(append(cookies, cookies[0]), "; "), 303},
		"two of the other name": {[]string{"s"}, strings.Join(append(cookies, cookies[1]), "; "), 303},
		"cut":                   {[]string{"s"}, cookies[0] + "; " + cookies[1][:len(cookies[1])-1], 303},
	} {
		other := brokered(t, i, sessions(c.letters...), nil)
		if resp, _ := visit(t, other.browser(t), other.URL+"/ui/search", "", "Cookie", c.cookies); resp.StatusCode != c.status {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
}
