// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"slices"
	"strings"
)

// Parts are those of the pages that can be off: then they are not found, and the menu
// does not name them. Login, "Me" and the pages of errors are always there.
type Parts struct{ Catalog, States, Instances, Depot, Doctor, Audit bool }

// first segments of the paths of the parts, below /ui/.
func (p Parts) segments() (off []string) {
	for _, part := range []struct {
		off      bool
		segments []string
	}{
		{p.Catalog, []string{"", "search", "modules", "providers", "mirror"}},
		{p.States, []string{"states"}},
		{p.Instances, []string{"templates", "kinds", "run", "instances", "approvals", "admin"}},
		{p.Depot, []string{"depot"}},
		{p.Doctor, []string{"doctor"}},
		{p.Audit, []string{"audit"}},
	} {
		if part.off {
			off = append(off, part.segments...)
		}
	}
	return off
}

// without answers 404 for the parts that are off, and leads to those that are on where
// the catalog would begin.
func (s *server) without(next http.Handler) http.Handler {
	off := s.o.Off.segments()
	if len(off) == 0 {
		return next
	}
	first := s.page(s.first)
	none := s.page(func(*request) (*page, error) { return nil, notFound("there is no such page") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/ui/"), "/")
		switch {
		case !slices.Contains(off, segment):
			next.ServeHTTP(w, r)
		case segment == "":
			first.ServeHTTP(w, r)
		default:
			none.ServeHTTP(w, r)
		}
	})
}

// first is what is below /ui/ where there is no catalog: the parts that the caller may
// open.
func (s *server) first(r *request) (*page, error) {
	if err := s.list(r); err != nil {
		return nil, err
	}
	var body firstBody
	for _, e := range s.menu(r) {
		body.Rows = append(body.Rows, e.link)
	}
	return &page{Template: "first.html", Title: "okara", Body: body}, nil
}

type firstBody struct{ Rows []link }
