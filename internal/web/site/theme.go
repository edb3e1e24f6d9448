// SPDX-License-Identifier: Apache-2.0

package site

import (
	"net/http"
	"time"
)

// choiceAge is how long a browser keeps what the user chose.
const choiceAge = 365 * 24 * time.Hour

// choiceCookie returns the cookie with a choice. Its attributes are those of a session
// cookie; a negative age deletes it.
func (s *site) choiceCookie(r *http.Request, name, value string, age time.Duration) *http.Cookie {
	if sessions := s.o.Kit.Guard.Sessions(); sessions != nil {
		return sessions.Cookie(r, name, value, age)
	}
	return &http.Cookie{Name: "okara-" + name, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(age / time.Second)}
}

func (s *site) theme(r *http.Request) string {
	all := r.CookiesNamed(s.choiceCookie(r, "theme", "", 0).Name)
	if len(all) != 1 || all[0].Value != "light" && all[0].Value != "dark" {
		return ""
	}
	return all[0].Value
}

// setTheme stores the theme and redirects to the page of the form.
func (s *site) setTheme(r *Request, f *Form) (*Answer, error) {
	value := f.Get("theme")
	age := choiceAge
	if value != "light" && value != "dark" {
		value = ""
		age = -time.Second
	}
	r.SetCookie(s.choiceCookie(r.Request, "theme", value, age))
	return &Answer{To: Back(f.Get("return"))}, nil
}
