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

// routes registers all routes of the protocols: what a request is about, which
// right it requires, and its handler. HEAD works wherever GET does.
func (s *server) routes() http.Handler {
	mux := s.kit.Mux()
	meta := func(pattern string, h service.Handler) { mux.Handle(pattern, s.wrap(s.kit.Limit(h))) }
	large := func(pattern string, h service.Handler) { mux.Handle(pattern, s.wrap(h)) }
	m := s.modules
	p := s.providers
	pub := s.publishing
	name := hostname(s.o.Hostname)

	meta("GET /v1/modules/{namespace}/{name}/{system}/versions", to(s, moduleIn, rights.Read, m.versions))
	meta("GET /v1/modules/{namespace}/{name}/{system}/{version}/download", to(s, moduleVersionIn, rights.Read, m.download))

	meta("GET /v1/modules/{namespace}/{name}/{system}/download", to(s, moduleIn, rights.Read, m.latest))
	meta("GET /v1/modules/{namespace}/{name}/{system}/{version}", to(s, moduleVersionIn, rights.Read, m.detail))
	meta("GET /v1/modules/{namespace}/{name}/{system}", to(s, moduleIn, rights.Read, m.latestDetail))
	meta("GET /v1/modules/{namespace}/{name}", to(s, groupIn, rights.List, m.list))
	meta("GET /v1/modules/{namespace}", to(s, groupIn, rights.List, m.list))
	meta("GET /v1/modules/search", to(s, groupIn, rights.List, m.list))
	meta("GET /v1/modules/{$}", to(s, groupIn, rights.List, m.list))
	meta("GET /v1/modules", to(s, groupIn, rights.List, m.list))
	large("PUT /v1/modules/{namespace}/{name}/{system}/{version}", to(s, moduleVersionIn, rights.Publish, pub.module))
	large("POST /v1/modules/{namespace}/{name}/{system}/{version}/status", to(s, storedModuleIn, rights.Publish, pub.status))
	meta("GET /v1/modules/{namespace}/{name}/{system}/{version}/signatures", to(s, storedModuleIn, rights.Read, pub.signatures))
	large("POST /v1/modules/{namespace}/{name}/{system}/{version}/signatures", to(s, storedModuleIn, rights.Publish, pub.sign))

	meta("GET /v1/providers/{namespace}/{type}/versions", to(s, name.provider, rights.Read, p.versions))
	meta("GET /v1/providers/{namespace}/{type}/{version}/download/{os}/{arch}", to(s, name.build, rights.Read, p.build))
	meta("GET /v1/providers/{namespace}/{type}", to(s, name.provider, rights.Read, p.latest))
	meta("GET /v1/providers/{namespace}/{type}/{version}", to(s, name.release, rights.Read, p.detail))
	large("PUT /v1/providers/{namespace}/{type}/{version}/files/{filename}", to(s, name.release, rights.Publish, pub.file))
	large("POST /v1/providers/{namespace}/{type}/{version}/files/{filename}", to(s, name.release, rights.Publish, pub.knownFile))
	large("POST /v1/providers/{namespace}/{type}/{version}", to(s, name.release, rights.Publish, pub.provider))
	large("POST /v1/providers/{namespace}/{type}/{version}/status", to(s, name.stored, rights.Publish, pub.status))
	meta("GET /v1/providers/{namespace}/{type}/{version}/signatures", to(s, name.stored, rights.Read, pub.signatures))
	large("POST /v1/providers/{namespace}/{type}/{version}/signatures", to(s, name.stored, rights.Publish, pub.sign))
	meta("GET /origin/{hostname}/.well-known/terraform.json", s.originDiscovery)
	meta("GET /origin/{hostname}/v1/providers/{namespace}/{type}/versions", to(s, name.provider, rights.Read, p.versions))
	meta("GET /origin/{hostname}/v1/providers/{namespace}/{type}/{version}/download/{os}/{arch}", to(s, name.build, rights.Read, p.build))

	for base, parse := range map[string]parser[stored]{
		"/v1/modules/{namespace}/{name}/{system}/{version}":            storedModuleIn,
		"/v1/providers/{namespace}/{type}/{version}":                   name.stored,
		"/origin/{hostname}/v1/providers/{namespace}/{type}/{version}": name.stored,
	} {
		c := s.content
		meta("GET "+base+"/content", to(s, parse, rights.Read, c.about))
		meta("GET "+base+"/content/tags/list", to(s, parse, rights.Read, c.tags))
		meta("GET "+base+"/content/manifests/{reference}", to(s, parse, rights.Read, c.manifest))
		meta("GET "+base+"/content/referrers/{digest}", to(s, parse, rights.Read, c.referrers))
		large("GET "+base+"/content/blobs/{digest}", to(s, parse, rights.Read, c.blob))
	}

	meta("GET /mirror/{hostname}/{namespace}/{type}/index.json", to(s, name.provider, rights.Read, p.mirrorIndex))
	meta("GET /mirror/{hostname}/{namespace}/{type}/{file}", to(s, name.document, rights.Read, p.mirrorVersion))

	meta("GET /v1/catalog", to(s, everythingIn, rights.List, s.contents.list))
	meta("GET /v1/catalog/{address...}", to(s, itemIn, rights.Read, s.contents.versions))

	large("GET /archives/{token}/{rest...}", s.archives.serve) // the link proves the right
	meta("/archives/{token}", unknown)                         // otherwise the multiplexer would redirect

	if len(s.o.GitHub) > 0 {
		meta("POST /hooks/github", s.hooks.receive) // the signature of the delivery proves the right
	}
	meta("/", unknown)
	return mux
}

// call is an authorized request.
type call[A any] struct {
	*http.Request
	*view              // what the caller may see
	at    A            // what the request is about
	grant access.Grant // the caller
}

// to returns the handler of requests whose path says what they are about: it
// parses the path, checks the right, finds the view of the caller, and calls
// answer. Nothing is looked up, and no body is read, before the right is
// checked.
func to[A any](s *server, parse parser[A], action rights.Action, answer func(http.ResponseWriter, call[A]) error) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		at, right, bad := parse(r)
		right.Action = action
		g, err := s.kit.Guard.Allow(r, right)
		if err != nil {
			return err
		}
		if bad != nil {
			return unreadable(action, bad)
		}
		if action == rights.Publish {
			if err := s.kit.OpenBody(r); err != nil {
				return err
			}
		}
		v, err := s.views.of(g.Credential)
		if err != nil {
			return err
		}
		return v.reported(answer(w, call[A]{r, v, at, g}))
	}
}

// unreadable returns the error for an invalid address. For reads it is 404, not
// 400: the clients then try their next source.
func unreadable(action rights.Action, err error) error {
	if action == rights.Publish {
		return unprocessable(err)
	}
	return notFound("%v", err)
}

// Discovery returns the entries of the protocols in the discovery document of a
// server that serves them below the path base. Every service URL ends with a
// slash, without which the clients' provider code drops the last segment.
func Discovery(_ context.Context, base string) (map[string]any, error) {
	return map[string]any{"modules.v1": base + "/v1/modules/", "providers.v1": base + "/v1/providers/"}, nil
}

// unknown answers all other paths with 404. If the base URLs of the protocols
// were mixed up, the error names the correct one.
func unknown(_ http.ResponseWriter, r *http.Request) error {
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/index.json") && !strings.HasPrefix(path, "/mirror/"):
		return notFound("no network mirror here: its base URL ends with /mirror/")
	case strings.HasSuffix(path, "/versions"), strings.Contains(path, "/download"):
		return notFound("no registry service here: modules are below /v1/modules/, providers below /v1/providers/, mirrored providers below /origin/HOSTNAME/v1/providers/")
	}
	if strings.HasPrefix(path, "/state/") {
		return notFound("no state here: a state's address is /state/NAME/WORKSPACE, and its lock's /state/NAME/WORKSPACE/lock")
	}
	return notFound("no such route")
}

// originDiscovery returns the service URLs for the providers of an origin.
// Terraform and OpenTofu never request it; Renovate does, because it treats
// /origin/HOSTNAME as a registry.
func (s *server) originDiscovery(w http.ResponseWriter, r *http.Request) error {
	p, err := addr.ParseProvider(r.PathValue("hostname") + "/namespace/type")
	if err != nil {
		return notFound("%v", err)
	}
	base := s.views.own.links.root(r) + "origin/" + p.Hostname + "/v1/providers/"
	return service.WriteJSON(w, http.StatusOK, map[string]string{"providers.v1": base})
}
