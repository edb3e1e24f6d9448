// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
)

// AddRoutes adds all routes to the multiplexer of a server that has others too.
func (h *Handler) AddRoutes(to *service.Mux) { h.s.addRoutes(to) }

// addRoutes registers all routes. HEAD works wherever GET does.
func (s *server) addRoutes(mux *service.Mux) http.Handler {
	meta := func(pattern string, h service.Handler) { mux.Handle(pattern, s.wrapHandler(s.kit.Limit(h))) }
	large := func(pattern string, h service.Handler) { mux.Handle(pattern, s.wrapHandler(h)) }
	m := s.modules
	p := s.providers
	pub := s.publishing
	name := hostname(s.o.Hostname)

	meta("GET /v1/modules/{namespace}/{name}/{system}/versions", handleParsed(s, moduleIn, rights.Read, m.serveVersions))
	meta("GET /v1/modules/{namespace}/{name}/{system}/{version}/download", handleParsed(s, moduleVersionIn, rights.Read, m.download))

	meta("GET /v1/modules/{namespace}/{name}/{system}/download", handleParsed(s, moduleIn, rights.Read, m.redirectLatest))
	meta("GET /v1/modules/{namespace}/{name}/{system}/{version}", handleParsed(s, moduleVersionIn, rights.Read, m.serveDetail))
	meta("GET /v1/modules/{namespace}/{name}/{system}", handleParsed(s, moduleIn, rights.Read, m.latestDetail))
	meta("GET /v1/modules/{namespace}/{name}", handleParsed(s, groupIn, rights.List, m.list))
	meta("GET /v1/modules/{namespace}", handleParsed(s, groupIn, rights.List, m.list))
	meta("GET /v1/modules/search", handleParsed(s, groupIn, rights.List, m.list))
	meta("GET /v1/modules/{$}", handleParsed(s, groupIn, rights.List, m.list))
	meta("GET /v1/modules", handleParsed(s, groupIn, rights.List, m.list))
	large("PUT /v1/modules/{namespace}/{name}/{system}/{version}", handleParsed(s, moduleVersionIn, rights.Publish, pub.publishModule))
	large("POST /v1/modules/{namespace}/{name}/{system}/{version}/status", handleParsed(s, storedModuleIn, rights.Publish, pub.changeStatus))
	meta("GET /v1/modules/{namespace}/{name}/{system}/{version}/signatures", handleParsed(s, storedModuleIn, rights.Read, pub.signatures))
	large("POST /v1/modules/{namespace}/{name}/{system}/{version}/signatures", handleParsed(s, storedModuleIn, rights.Publish, pub.sign))

	meta("GET /v1/providers/{namespace}/{type}/versions", handleParsed(s, name.parseProvider, rights.Read, p.serveProviderVersions))
	meta("GET /v1/providers/{namespace}/{type}/{version}/download/{os}/{arch}", handleParsed(s, name.parseBuild, rights.Read, p.serveBuild))
	meta("GET /v1/providers/{namespace}/{type}", handleParsed(s, name.parseProvider, rights.Read, p.serveLatestProvider))
	meta("GET /v1/providers/{namespace}/{type}/{version}", handleParsed(s, name.release, rights.Read, p.serveProviderDetail))
	large("PUT /v1/providers/{namespace}/{type}/{version}/files/{filename}", handleParsed(s, name.release, rights.Publish, pub.receiveFile))
	large("POST /v1/providers/{namespace}/{type}/{version}/files/{filename}", handleParsed(s, name.release, rights.Publish, pub.knownFile))
	large("POST /v1/providers/{namespace}/{type}/{version}", handleParsed(s, name.release, rights.Publish, pub.publishProvider))
	large("POST /v1/providers/{namespace}/{type}/{version}/status", handleParsed(s, name.parseStored, rights.Publish, pub.changeStatus))
	meta("GET /v1/providers/{namespace}/{type}/{version}/signatures", handleParsed(s, name.parseStored, rights.Read, pub.signatures))
	large("POST /v1/providers/{namespace}/{type}/{version}/signatures", handleParsed(s, name.parseStored, rights.Publish, pub.sign))
	meta("GET /origin/{hostname}/.well-known/terraform.json", s.originDiscovery)
	meta("GET /origin/{hostname}/v1/providers/{namespace}/{type}/versions", handleParsed(s, name.parseProvider, rights.Read, p.serveProviderVersions))
	meta("GET /origin/{hostname}/v1/providers/{namespace}/{type}/{version}/download/{os}/{arch}", handleParsed(s, name.parseBuild, rights.Read, p.serveBuild))

	for base, parse := range map[string]parser[stored]{
		"/v1/modules/{namespace}/{name}/{system}/{version}":            storedModuleIn,
		"/v1/providers/{namespace}/{type}/{version}":                   name.parseStored,
		"/origin/{hostname}/v1/providers/{namespace}/{type}/{version}": name.parseStored,
	} {
		c := s.content
		meta("GET "+base+"/content", handleParsed(s, parse, rights.Read, c.serveAbout))
		meta("GET "+base+"/content/tags/list", handleParsed(s, parse, rights.Read, c.tags))
		meta("GET "+base+"/content/manifests/{reference}", handleParsed(s, parse, rights.Read, c.manifest))
		meta("GET "+base+"/content/referrers/{digest}", handleParsed(s, parse, rights.Read, c.referrers))
		large("GET "+base+"/content/blobs/{digest}", handleParsed(s, parse, rights.Read, c.blob))
	}

	meta("GET /mirror/{hostname}/{namespace}/{type}/index.json", handleParsed(s, name.parseProvider, rights.Read, p.mirrorIndex))
	meta("GET /mirror/{hostname}/{namespace}/{type}/{file}", handleParsed(s, name.parseDocument, rights.Read, p.mirrorVersion))

	meta("GET /v1/catalog", handleParsed(s, everythingIn, rights.List, s.contents.list))
	meta("GET /v1/catalog/{address...}", handleParsed(s, itemIn, rights.Read, s.contents.listItemVersions))

	large("GET /archives/{token}/{rest...}", s.archives.serveBlob) // the link proves the right
	meta("/archives/{token}", serveUnknown)                        // otherwise the multiplexer would redirect

	if len(s.o.GitHub) > 0 {
		meta("POST /hooks/github", s.hooks.receive) // the signature of the delivery proves the right
	}
	meta("/", serveUnknown)
	return mux
}

type call[A any] struct {
	*http.Request
	*view              // what the caller may see
	at    A            // what the request is about
	grant access.Grant // the caller
}

// handleParsed returns the handler of requests whose path says what they are about: it parses the
// path, and if the right is there calls answer with the caller's view. No look-up or body precedes.
func handleParsed[A any](s *server, parse parser[A], action rights.Action, answer func(http.ResponseWriter, call[A]) error) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		at, right, bad := parse(r)
		right.Action = action
		g, err := s.kit.Guard.Allow(r, right)
		if err != nil {
			return err
		}
		if bad != nil {
			return addressError(action, bad)
		}
		if action == rights.Publish {
			if err := s.kit.OpenBody(r); err != nil {
				return err
			}
		}
		v, err := s.views.viewFor(g.Credential)
		if err != nil {
			return err
		}
		return v.reportedError(answer(w, call[A]{r, v, at, g}))
	}
}

// addressError is for an invalid address. Reads get 404, not 400: clients try their next source.
func addressError(action rights.Action, err error) error {
	if action == rights.Publish {
		return unprocessableError(err)
	}
	return notFound("%v", err)
}

// Discovery returns the protocols' entries in the discovery document of a server below the path
// base. Service URLs end with a slash, or the clients' provider code drops the last segment.
func Discovery(_ context.Context, base string) (map[string]any, error) {
	return map[string]any{"modules.v1": base + "/v1/modules/", "providers.v1": base + "/v1/providers/"}, nil
}

// serveUnknown refuses other paths. If base URLs were mixed up, it names the correct one.
func serveUnknown(_ http.ResponseWriter, r *http.Request) error {
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/index.json") && !strings.HasPrefix(path, "/mirror/"):
		return notFound("no network mirror here: its base URL ends with /mirror/")
	case strings.HasSuffix(path, "/versions"), strings.Contains(path, "/download"):
		return notFound("not a registry service: modules are under /v1/modules/, providers under /v1/providers/, mirrored providers under /origin/HOSTNAME/v1/providers/")
	}
	if strings.HasPrefix(path, "/state/") { // not 404, which backend "http" takes for a state that is empty
		return &service.Error{Status: http.StatusBadRequest, Text: "not a state: the address of a state is /state/NAME/WORKSPACE, that of its lock /state/NAME/WORKSPACE/lock"}
	}
	return notFound("unknown path")
}

// originDiscovery serves Renovate, which treats /origin/HOSTNAME as a registry.
func (s *server) originDiscovery(w http.ResponseWriter, r *http.Request) error {
	p, err := addr.ParseProvider(r.PathValue("hostname") + "/namespace/type")
	if err != nil {
		return notFound("%v", err)
	}
	base := s.views.own.links.root(r) + "origin/" + p.Hostname + "/v1/providers/"
	return service.WriteJSON(w, http.StatusOK, map[string]string{"providers.v1": base})
}
