// SPDX-License-Identifier: Apache-2.0

package site

import (
	"net/http"
	"time"
)

// themeAge is how long a browser keeps the theme that the user chose.
const themeAge = 365 * 24 * time.Hour

// themeCookie returns the cookie with the theme. Its attributes are those of a session
// cookie; a negative age deletes it.
func (s *site) themeCookie(r *http.Request, value string, age time.Duration) *http.Cookie {
	if sessions := s.o.Kit.Guard.Sessions(); sessions != nil {
		return sessions.Cookie(r, "theme", value, age)
	}
	return &http.Cookie{Name: "okara-theme", Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(age / time.Second)}
}

func (s *site) theme(r *http.Request) string {
	all := r.CookiesNamed(s.themeCookie(r, "", 0).Name)
	if len(all) != 1 || all[0].Value != "light" && all[0].Value != "dark" {
		return ""
	}
	return all[0].Value
}

// setTheme stores the theme and redirects to the page of the form.
func (s *site) setTheme(r *Request, f *Form) (*Answer, error) {
	value := f.Get("theme")
	age := themeAge
	if value != "light" && value != "dark" {
		value = ""
		age = -time.Second
	}
	r.SetCookie(s.themeCookie(r.Request, value, age))
	return &Answer{To: Back(f.Get("return"))}, nil
}
