// SPDX-License-Identifier: Apache-2.0

package web

import "net/http"

// themeCookie keeps what somebody chose over what the system prefers.
const themeCookie = "okara-theme"

func theme(r *http.Request) string {
	c, err := r.Cookie(themeCookie)
	if err != nil || c.Value != "light" && c.Value != "dark" {
		return ""
	}
	return c.Value
}

// setTheme keeps the choice and goes back to the page that it was made on.
func (s *server) setTheme(r *request, f *form) (*answer, error) {
	c := &http.Cookie{Name: themeCookie, Value: f.Get("theme"), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: 365 * 24 * 3600}
	if c.Value != "light" && c.Value != "dark" {
		c.MaxAge = -1
	}
	r.setCookie(c)
	return &answer{To: back(f.Get("return"))}, nil
}
