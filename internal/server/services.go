// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// serviceRoute is a service: a handler, and its entries in the discovery document.
type serviceRoute struct {
	route   string                                                         // pattern of the multiplexer
	handler http.Handler                                                   // nil: off
	adds    func(ctx context.Context, base string) (map[string]any, error) // entries with paths below base; nil: none
}

// allServices returns all services. HEAD works wherever GET does.
func (f *Front) allServices() []serviceRoute {
	own := []serviceRoute{
		{"/api/v1/", f.mounted.API, nil}, // limits, counts and forwards its requests itself
		{"GET /metrics", f.limitedHandler(f.o.Metrics != nil && !f.o.HideMetrics, f.serveMetrics), nil},
		{"GET /healthz", f.handler(true, healthz(f.o.Version)), nil}, // a busy server is healthy
		{"GET /readyz", f.handler(true, service.InTime(f.serveReady)), nil},
	}
	own = append(own, f.pageRoutes()...)
	if f.o.Alone {
		return own
	}
	return append(f.protocolRoutes(), own...)
}

// protocolRoutes returns the services that a portal does not have.
func (f *Front) protocolRoutes() []serviceRoute {
	brokered := f.o.Login != nil && !f.o.Login.Direct
	return []serviceRoute{
		{"/", nil, registry.Discovery}, // its routes are there
		{"GET /api/v1/search", f.limitedHandler(true, f.search), nil},
		{"/mcp", f.limitedHandler(f.o.MCP, refuseStream), nil},
		{"POST /mcp", f.limitedHandler(f.o.MCP, f.serveMCP), nil},
		{"GET /v1/used-by", f.limitedHandler(f.uses.Uses != nil, f.uses.serveUsers), nil},
		{"GET /v1/outdated", f.limitedHandler(f.uses.Uses != nil, f.uses.serveBehind), nil},
		{"GET /api/v1/audit", f.handler(f.o.auditLog != nil, f.serveAudit), nil},
		{"/v2/", f.handler(true, f.distribution), nil},
		{"/state/{name}/{workspace}", f.handler(f.states != nil, f.serveState), nil},
		{"/state/{name}/{workspace}/lock", f.handler(f.states != nil, lockAddress(f.serveState)), nil},
		{"/api/v2/", f.tfe, f.tfeService}, // like /api/v1/
		{"POST /depot/sync", f.limitedHandler(f.o.Depot != nil, f.depotSync), nil},
		{"GET /login/authorize", f.limitedHandler(brokered, f.kit.Guard.ToolLogins().Authorize), f.loginService},
		{"POST /login/token", f.limitedHandler(brokered, f.loginExchange), nil},
		{"GET /.well-known/terraform.json", f.limitedHandler(true, f.serveDiscovery), nil},
	}
}

// pageRoutes returns the pages, and the routes that redirect browsers to them.
func (f *Front) pageRoutes() []serviceRoute {
	return []serviceRoute{
		{"GET /{$}", f.handler(f.o.Pages, toPages), nil},
		{"/ui/", f.pages, nil},
		{"GET /favicon.ico", f.pages, nil},
		{"GET /app/settings/tokens", f.limitedHandler(true, f.tokens), nil}, // tofu login sends users here
		{"GET /app/{organization}/{workspace}/runs/{run}", f.limitedHandler(f.o.Pages && f.mounted.RunPages != nil, toRun), nil},
		{"GET /login/callback", f.callbackHandler(), nil},
	}
}

// callbackHandler serves where the issuer sends browsers back, for a login to pages or of a tool.
func (f *Front) callbackHandler() http.Handler {
	tools := f.limitedHandler(f.o.Login != nil && !f.o.Login.Direct && !f.o.Alone, f.kit.Guard.ToolLogins().Callback)
	if f.pages == nil || f.o.Login == nil {
		return tools
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tools == nil || f.kit.Guard.BrowserLogins().Owns(r) {
			f.pages.ServeHTTP(w, r)
			return
		}
		tools.ServeHTTP(w, r)
	})
}

// handler returns the handler of a route, nil if it is off.
func (f *Front) handler(on bool, h service.Handler) http.Handler {
	if !on {
		return nil
	}
	return f.kit.Handle(h, f.kit.Fail)
}

// limitedHandler is like handler, for answers that come from memory or take little time.
func (f *Front) limitedHandler(on bool, h service.Handler) http.Handler {
	return f.handler(on, f.kit.Limit(h))
}

// discoveryCache is the Cache-Control of the discovery document.
const discoveryCache = "public, max-age=300"

// serveDiscovery names the services. It needs no token, lest `login` be impossible. If one cannot
// tell its entries, the document has the others and is not cached.
func (f *Front) serveDiscovery(w http.ResponseWriter, r *http.Request) error {
	base := strings.TrimSuffix(f.o.BasePath, "/")
	doc := map[string]any{}
	cacheControl := discoveryCache
	for _, s := range f.adding {
		added, err := s.adds(r.Context(), base)
		if err != nil {
			cacheControl = "no-store"
			continue
		}
		maps.Copy(doc, added)
	}
	return service.Send(w, r, cacheControl, doc)
}

// loginService returns the addresses at which the tools log in.
func (f *Front) loginService(ctx context.Context, base string) (map[string]any, error) {
	if f.o.Login == nil {
		return nil, nil
	}
	login, err := f.kit.Guard.ToolLogins().Service(ctx, base)
	return map[string]any{"login.v1": login}, err
}

// loginExchange opens the body at once: the credential of the request is in it.
func (f *Front) loginExchange(w http.ResponseWriter, r *http.Request) error {
	service.OpenBody(r)
	return f.kit.Guard.ToolLogins().Exchange(w, r)
}

// healthz answers that the process runs, and with which version of okara.
func healthz(version string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, _ *http.Request) error { return writeText(w, "ok "+version+"\n") }
}

// serveReady reports whether the registry has answered once: caches outlive its outage. A full disk
// of the built-in registry is not ready.
func (f *Front) serveReady(w http.ResponseWriter, r *http.Request) error {
	if f.closing.Load() {
		return &service.Error{Status: http.StatusServiceUnavailable, Text: "shutting down"}
	}
	if !f.ready.Load() {
		err := f.Protocols.Catalog().Ping(r.Context())
		if f.o.PassThrough != nil && errors.Is(err, oci.ErrUnauthenticated) {
			err = nil // it has answered; the callers bring the credentials
		}
		if err != nil {
			if last := f.unready.Swap(new(err.Error())); last == nil || *last != err.Error() {
				f.kit.Log(r).Warn("registry unreachable", "error", err)
			}
			return &service.Error{Status: http.StatusServiceUnavailable, Text: cmp.Or(service.Refusal(err), "no response from the registry yet")}
		}
		f.ready.Store(true)
	}
	if f.o.CheckSpace != nil {
		if err := f.o.CheckSpace(); err != nil {
			return &service.Error{Status: http.StatusServiceUnavailable, Text: "the disk of the storage folder is full: only locks and small states are written"}
		}
	}
	return writeText(w, "ready\n")
}

func writeText(w http.ResponseWriter, body string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = fmt.Fprint(w, body) // an error means that the client is gone
	return nil
}
