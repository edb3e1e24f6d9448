// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
)

// state lets a request through to the state server. Everything but GET changes
// something, locks included.
func (s *server) state(w http.ResponseWriter, r *http.Request) error {
	action := "write"
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		action = "read"
	}
	if _, err := s.allow(r, action, "state", r.PathValue("name")); err != nil {
		return err
	}
	s.o.State.ServeHTTP(w, r)
	return nil
}

// depotSync lets an administrator ask for a run of the depot file.
func (s *server) depotSync(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.allow(r, "admin", "*", "**"); err != nil {
		return err
	}
	s.o.Depot.ServeHTTP(w, r)
	return nil
}

// distribution lets a request through to the embedded registry, with the
// rights on what the layout says is in the repository.
func (s *server) distribution(w http.ResponseWriter, r *http.Request) error {
	action := "publish"
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		action = "read"
	}
	// As the registry reads it: from the body of a form too, and from there first.
	if from := r.FormValue("from"); from != "" {
		if err := s.allowRepository(r, "read", from); err != nil {
			return err
		}
	}
	switch r.URL.Path {
	case "/v2/_catalog": // names of states are in it, too
		if _, err := s.allow(r, "admin", "*", "**"); err != nil {
			return err
		}
	case "/v2/":
		// The probe of clients that log in: any valid token passes, and none
		// is needed where anonymous has any right.
		c, err := s.known(r, "login", "*", "")
		if err != nil {
			return err
		}
		if len(c.scopes) == 0 {
			s.decided(r, c, "login", "*", "", "")
			return &httpError{status: http.StatusUnauthorized, text: "a token is needed"}
		}
	default:
		if err := s.allowRepository(r, action, repositoryOf(r.URL.Path)); err != nil {
			return err
		}
	}
	s.o.Embedded.ServeHTTP(w, r)
	return nil
}

// allowRepository asks for the right on what a repository holds. Repositories
// outside the layout, the catalogue and the queue need a right on everything.
func (s *server) allowRepository(r *http.Request, action, repository string) error {
	kind, address := "*", repository
	if item, ok := s.o.Layout.Parse(repository); ok {
		switch item.Kind {
		case addr.KindModule:
			kind, address = "module", item.Module.String()
		case addr.KindProvider, addr.KindMirror:
			kind, address = item.Kind, item.Provider.String()
		case addr.KindState:
			kind, address = "state", item.State
			if action == "publish" {
				action = "write"
			}
		case addr.KindCatalog:
			return s.allowCatalog(r, action)
		}
	}
	_, err := s.allow(r, action, kind, address)
	return err
}

// allowCatalog lets everybody who may do something with any module or provider
// do it with the catalogue, which holds nothing but their names.
func (s *server) allowCatalog(r *http.Request, action string) error {
	c, err := s.known(r, action, "catalog", s.o.Layout.CatalogRepo())
	if err != nil {
		return err
	}
	for _, scope := range c.scopes {
		if scope.Kind != "state" && (scope.Action == action || scope.Action == "admin" || action == "read") {
			s.decided(r, c, action, "catalog", s.o.Layout.CatalogRepo(), scope.String())
			return nil
		}
	}
	_, err = s.allow(r, action, "*", s.o.Layout.CatalogRepo())
	return err
}

// repositoryOf is the repository in a path of the distribution API, "" for a
// path without one. Repository names may contain the words of the API, so the
// last one counts, as it does for the registry.
func repositoryOf(path string) string {
	path = strings.TrimPrefix(path, "/v2/")
	end := 0
	for _, mark := range []string{"/manifests/", "/blobs/", "/tags/", "/referrers/"} {
		end = max(end, strings.LastIndex(path, mark))
	}
	return path[:end]
}
