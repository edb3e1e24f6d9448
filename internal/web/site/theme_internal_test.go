// SPDX-License-Identifier: Apache-2.0

package site

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/service"
)

// TestThemeCookie keeps the theme for this server alone.
func TestThemeCookie(t *testing.T) {
	keys := must.Get(keyring.New([]keyring.Key{{Secret: make([]byte, 32)}}))(t)
	for _, c := range []struct {
		name     string
		sessions *access.Sessions
		cookie   string // before its value
		with     string // after it
	}{
		{"TLS", &access.Sessions{Keyring: keys}, "__Host-okara-theme=", "; Path=/; Max-Age=31536000; HttpOnly; Secure; SameSite=Lax"},
		{"below a path", &access.Sessions{Keyring: keys, Path: "/okara"}, "__Secure-okara-theme=", "; Path=/okara/; Max-Age=31536000; HttpOnly; Secure; SameSite=Lax"},
		{"loopback", &access.Sessions{Keyring: keys, Plain: true}, "okara-theme=", "; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax"},
		{"nobody logs in", nil, "okara-theme=", "; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax"},
	} {
		t.Run(c.name, func(t *testing.T) {
			guard := must.Get(access.New(access.Options{Keyring: keys, Sessions: c.sessions}))(t)
			pages := must.Get(New(Options{Kit: service.New(service.Options{Guard: guard, Logger: slog.New(slog.DiscardHandler)}), Now: time.Now}))(t)
			choose := func(theme string) string {
				r := httptest.NewRequest(http.MethodPost, "/ui/theme", strings.NewReader("theme="+theme+"&return=/ui/me"))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				w := httptest.NewRecorder()
				pages.ServeHTTP(w, r)
				return w.Header().Get("Set-Cookie")
			}
			look := func(cookies string) string {
				r := httptest.NewRequest(http.MethodGet, "/ui/none", nil)
				r.Header.Set("Cookie", cookies)
				w := httptest.NewRecorder()
				pages.ServeHTTP(w, r)
				return w.Body.String()
			}
			must.Equal(t, "dark is kept as", choose("dark"), c.cookie+"dark"+c.with)
			for _, theme := range []string{"", "purple"} {
				if got := choose(theme); !strings.HasPrefix(got, c.cookie+";") || !strings.Contains(got, "Max-Age=0") {
					t.Errorf("%q is kept as %q", theme, got)
				}
			}
			if !strings.Contains(look(c.cookie+"dark"), `data-theme="dark"`) {
				t.Error("the next page is not dark")
			}
			for _, cookies := range []string{c.cookie + "dark; " + c.cookie + "light", c.cookie + `"><script>`, "okara=dark"} {
				if strings.Contains(look(cookies), "data-theme") {
					t.Errorf("%s is a theme", cookies)
				}
			}
		})
	}
}

// TestStars keeps what a browser has starred, and nothing that is not a page.
func TestStars(t *testing.T) {
	guard := must.Get(access.New(access.Options{}))(t)
	pages := must.Get(New(Options{Kit: service.New(service.Options{Guard: guard, Logger: slog.New(slog.DiscardHandler)}), Now: time.Now}))(t)
	kept := ""
	star := func(path string) int {
		r := httptest.NewRequest(http.MethodPost, "/ui/star", strings.NewReader("path="+path))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", kept)
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, r)
		if set := w.Result().Cookies(); len(set) == 1 {
			kept = set[0].Name + "=" + set[0].Value
		}
		return w.Code
	}
	for _, path := range []string{"modules/net/vpc/aws", "templates/lab/vm", "modules/net/dns/aws", "modules/net/vpc/aws"} {
		if code := star(path); code != http.StatusSeeOther {
			t.Errorf("star %s: status %d", path, code)
		}
	}
	if want := "okara-stars=modules/net/dns/aws|templates/lab/vm"; kept != want {
		t.Errorf("the cookie is %s, want %s", kept, want)
	}
	for _, path := range []string{"modules/net/vpc", "templates/../x", "modules/a/b/c|d", "https://example.com/x", ""} {
		if code := star(path); code != http.StatusBadRequest {
			t.Errorf("star %q: status %d", path, code)
		}
	}
	for _, href := range []string{"modules/net/dns/aws", "templates/lab/vm"} {
		if _, name, _ := strings.Cut(href, "/"); mayOpen(access.Grant{}, Link{Text: name, Href: href}) {
			t.Errorf("%s is named to somebody who may not see it", href)
		}
	}
	for n := range maxStars + 5 {
		star("templates/lab/t" + strings.Repeat("x", n))
	}
	if got := strings.Count(kept, "|") + 1; got != maxStars {
		t.Errorf("%d stars are kept, want %d", got, maxStars)
	}
}
