// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
)

// discovery names the services. It is open to everybody: a refusal here would
// make `login` impossible. Every service URL ends with a slash, without which
// the clients' provider code loses the last segment.
func (s *server) discovery(w http.ResponseWriter, r *http.Request) error {
	base := strings.TrimSuffix(s.o.BasePath, "/")
	doc := map[string]any{
		"modules.v1":   base + "/v1/modules/",
		"providers.v1": base + "/v1/providers/",
	}
	cacheControl := discoveryCache
	if s.o.Login != nil {
		login, err := s.access.LoginService(r.Context(), base)
		if err != nil { // the other services go on, and the next request asks again
			cacheControl = "no-store"
		} else {
			doc["login.v1"] = login
		}
	}
	a, err := encode(doc)
	if err != nil {
		return err
	}
	a.write(w, r, cacheControl)
	return nil
}

// loginExchange has its right in the body.
func (s *server) loginExchange(w http.ResponseWriter, r *http.Request) error {
	service.OpenBody(r)
	return s.access.LoginExchange(w, r)
}

// healthz says that the process runs.
func (s *server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return text(w, "ok\n")
}

// readyz says that the registry has answered once. An outage later does not
// take the front-end out of service, since its caches go on answering.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) error {
	if s.closing.Load() {
		return &service.Error{Status: http.StatusServiceUnavailable, Text: "shutting down"}
	}
	if !s.ready.Load() {
		err := s.catalog.Ping(r.Context())
		if s.o.PassThrough != nil && errors.Is(err, oci.ErrUnauthenticated) {
			err = nil // it has answered, and it is the callers who bring credentials
		}
		if err != nil {
			s.kit.Log(r).Warn("registry not reached", "error", err)
			return &service.Error{Status: http.StatusServiceUnavailable, Text: "the registry has not answered yet"}
		}
		s.ready.Store(true)
	}
	return text(w, "ready\n")
}

func text(w http.ResponseWriter, body string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = fmt.Fprint(w, body) // the client is gone; there is nobody to tell
	return nil
}

// unknown answers 404 for everything else. Who mixed up the base URLs of the
// protocols is told the right one.
func (s *server) unknown(_ http.ResponseWriter, r *http.Request) error {
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/index.json") && !strings.HasPrefix(path, "/mirror/"):
		return notFound("no network mirror here: its base URL ends with /mirror/")
	case strings.HasSuffix(path, "/versions"), strings.Contains(path, "/download"):
		return notFound("no registry service here: modules are below /v1/modules/, providers below /v1/providers/, mirrored providers below /origin/HOSTNAME/v1/providers/")
	}
	return notFound("no such route")
}
