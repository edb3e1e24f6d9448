// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/service"
)

// Discovery is what the protocols add to the discovery document of a server that
// serves them below the path base. Every service URL ends with a slash, without
// which the clients' provider code loses the last segment.
func Discovery(_ context.Context, base string) (map[string]any, error) {
	return map[string]any{"modules.v1": base + "/v1/modules/", "providers.v1": base + "/v1/providers/"}, nil
}

// unknown answers 404 for everything else. Who mixed up the base URLs of the
// protocols is told the right one.
func unknown(_ http.ResponseWriter, r *http.Request) error {
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/index.json") && !strings.HasPrefix(path, "/mirror/"):
		return notFound("no network mirror here: its base URL ends with /mirror/")
	case strings.HasSuffix(path, "/versions"), strings.Contains(path, "/download"):
		return notFound("no registry service here: modules are below /v1/modules/, providers below /v1/providers/, mirrored providers below /origin/HOSTNAME/v1/providers/")
	}
	return notFound("no such route")
}

// originDiscovery says where the providers of an origin are here. Terraform and OpenTofu
// never ask for it; Renovate does, for which /origin/HOSTNAME is a registry.
func (s *server) originDiscovery(w http.ResponseWriter, r *http.Request) error {
	p, err := addr.ParseProvider(r.PathValue("hostname") + "/namespace/type")
	if err != nil {
		return notFound("%v", err)
	}
	base := s.views.own.links.root(r) + "origin/" + p.Hostname + "/v1/providers/"
	return service.WriteJSON(w, http.StatusOK, map[string]string{"providers.v1": base})
}
