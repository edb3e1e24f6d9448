// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/service"
)

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
func (s *server) setTheme(w http.ResponseWriter, r *http.Request) error {
	if err := s.cross.Check(r); err != nil {
		return &service.Error{Status: http.StatusForbidden, Text: "the form comes from another site"}
	}
	if t, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); t != "application/x-www-form-urlencoded" {
		return &service.Error{Status: http.StatusUnsupportedMediaType, Text: "this wants a form"}
	}
	if err := s.o.Kit.OpenBody(r); err != nil {
		return err
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<10))
	if err != nil {
		return &service.Error{Status: http.StatusRequestEntityTooLarge, Text: "the form is too large"}
	}
	form, err := url.ParseQuery(string(b))
	if err != nil {
		return &service.Error{Status: http.StatusBadRequest, Text: "the form cannot be read"}
	}
	c := &http.Cookie{Name: themeCookie, Value: form.Get("theme"), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: 365 * 24 * 3600}
	if c.Value != "light" && c.Value != "dark" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
	w.Header().Set("Location", below(form.Get("return")))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// below makes a way back of what a form says: a relative path below /ui/ of this
// server, and nothing that a browser takes for another one.
func below(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || u.Opaque != "" || strings.HasPrefix(path, "/") ||
		strings.ContainsAny(path, "\\\t\r\n") || strings.Contains(path, "..") || strings.Contains(path, ":") {
		return "./"
	}
	return "./" + path
}
