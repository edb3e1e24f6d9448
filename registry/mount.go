// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"mime"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/service"
)

// state lets a request through to the state server. Everything but GET changes
// something, locks included.
func (s *server) state(w http.ResponseWriter, r *http.Request) error {
	action := access.Write
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		action = access.Read
	}
	if _, err := s.access.Allow(r, access.Right{Action: action, Kind: addr.KindState, Address: r.PathValue("name")}); err != nil {
		return err
	}
	if err := s.kit.OpenBody(r); err != nil {
		return err
	}
	s.o.State.ServeHTTP(w, r)
	return nil
}

// depotSync lets an administrator ask for a run of the depot file.
func (s *server) depotSync(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.access.Allow(r, access.Server()); err != nil {
		return err
	}
	s.o.Depot.ServeHTTP(w, r)
	return nil
}

// serveMetrics is for administrators: the labels name modules that not
// everybody may know of.
func (s *server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.access.Allow(r, access.Server()); err != nil {
		return err
	}
	s.o.Metrics.Handler().ServeHTTP(w, r)
	return nil
}

// distribution lets a request through to the embedded registry. Method, path
// and query decide; a form in the body could say something else to a registry
// that looks there first, so there are no forms.
func (s *server) distribution(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path == "/v2/" {
		if err := s.access.AllowLogin(r); err != nil {
			return err
		}
	}
	for _, right := range distributionRights(s.o.Layout, r) {
		if _, err := s.access.Allow(r, right); err != nil {
			return err
		}
	}
	if isForm(r) {
		return &service.Error{Status: http.StatusUnsupportedMediaType, Text: "a registry takes no forms: send the bytes as application/octet-stream"}
	}
	if err := s.kit.OpenBody(r); err != nil {
		return err
	}
	rec := &service.Recorder{ResponseWriter: w}
	s.o.Embedded.ServeHTTP(rec, r)
	if r.Method == http.MethodPut && rec.Status() == http.StatusCreated {
		s.pushed(r.Context(), r.URL.Path)
	}
	return nil
}

// distributionRights are what a request of the distribution API needs: one to
// the repository in its path, and one to each that it mounts a blob from. They
// follow from method, path and query alone.
func distributionRights(l addr.Layout, r *http.Request) []access.Right {
	if r.URL.Path == "/v2/" {
		return nil // it says only that there is a registry
	}
	action := access.Publish
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		action = access.Read
	}
	var rights []access.Right
	for _, from := range r.URL.Query()["from"] {
		if from != "" {
			rights = append(rights, access.RightTo(l, access.Read, from))
		}
	}
	return append(rights, access.RightTo(l, action, repositoryOf(r.URL.Path)))
}

// isForm reports whether a library that asks for a value of the form would take
// it from the body. It reads the type as they do, malformed parameters included.
func isForm(r *http.Request) bool {
	for _, header := range r.Header.Values("Content-Type") {
		t, _, _ := mime.ParseMediaType(header)
		if t == "application/x-www-form-urlencoded" || strings.HasPrefix(t, "multipart/") {
			return true
		}
	}
	return false
}

// pushed makes the front-end know at once of a version that was pushed to the
// embedded registry. Who pushed it need not have a right to the catalogue.
func (s *server) pushed(ctx context.Context, path string) {
	repository := repositoryOf(path)
	tag, ok := strings.CutPrefix(path, "/v2/"+repository+"/manifests/")
	if _, version := addr.VersionFromTag(tag); !ok || !version {
		return
	}
	s.catalog.Changed(repository, tag)
	it, ok := s.o.Layout.Parse(repository)
	if !ok || !it.Versioned() {
		return
	}
	if err := s.depot.AddToCatalog(context.WithoutCancel(ctx), it); err != nil {
		s.log.Warn("a version was pushed and is not listed in the catalogue", "repository", repository, "tag", tag, "error", err)
		return
	}
	s.catalog.ChangedIndex()
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
