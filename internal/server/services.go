// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"

	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/registry"
)

// offer is a service: a handler, and what it adds to the discovery document.
type offer struct {
	route   string                                                         // pattern of the multiplexer
	handler http.Handler                                                   // nil: there is none
	adds    func(ctx context.Context, base string) (map[string]any, error) // with paths below base; nil: nothing
}

// services is all that is served. HEAD works wherever GET does.
func (f *Front) services() []offer {
	own := []offer{
		{"/api/v1/", f.mounted.API, nil}, // it limits, counts and hands on its requests itself
		{"GET /metrics", f.limited(f.o.Metrics != nil && !f.o.HideMetrics, f.serveMetrics), nil},
		{"GET /healthz", f.handler(true, healthz), nil}, // who is busy is healthy
		{"GET /readyz", f.handler(true, service.InTime(f.readyz)), nil},
	}
	own = append(own, f.forPeople()...)
	if f.o.Alone {
		return own
	}
	return append(f.protocols(), own...)
}

// protocols are what a portal does not serve.
func (f *Front) protocols() []offer {
	brokered := f.o.Login != nil && !f.o.Login.Direct
	return []offer{
		{"/", f.Protocols, registry.Discovery},
		{"GET /api/v1/search", f.limited(true, f.search), nil},
		{"GET /api/v1/audit", f.handler(f.o.trail != nil, f.audit), nil},
		{"/v2/", f.handler(true, f.distribution), nil},
		{"/state/{name}/{workspace}", f.handler(f.states != nil, f.state), nil},
		{"/state/{name}/{workspace}/lock", f.handler(f.states != nil, lockAddress(f.state)), nil},
		{"/api/v2/", f.tfe, f.tfeService}, // as /api/v1/
		{"POST /depot/sync", f.limited(f.o.Depot != nil, f.depotSync), nil},
		{"GET /login/authorize", f.limited(brokered, f.kit.Guard.LoginAuthorize), f.loginService},
		{"POST /login/token", f.limited(brokered, f.loginExchange), nil},
		{"GET /.well-known/terraform.json", f.limited(true, f.discovery), nil},
	}
}

// forPeople are the pages, and where browsers come to them from elsewhere.
func (f *Front) forPeople() []offer {
	return []offer{
		{"GET /{$}", f.handler(f.o.Pages, toPages), nil},
		{"/ui/", f.pages, nil},
		{"GET /app/settings/tokens", f.limited(true, f.tokens), nil}, // where tofu login sends people
		{"GET /login/callback", f.callback(), nil},
	}
}

// callback is where the issuer sends a browser back to: one that is to be logged in
// here, or one that a tool waits for.
func (f *Front) callback() http.Handler {
	tools := f.limited(f.o.Login != nil && !f.o.Login.Direct && !f.o.Alone, f.kit.Guard.LoginCallback)
	if f.pages == nil || f.o.Login == nil {
		return tools
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tools == nil || f.kit.Guard.OfBrowser(r) {
			f.pages.ServeHTTP(w, r)
			return
		}
		tools.ServeHTTP(w, r)
	})
}

// handler returns the handler of a route that is on.
func (f *Front) handler(on bool, h service.Handler) http.Handler {
	if !on {
		return nil
	}
	return f.kit.Handle(h, f.kit.Fail)
}

// limited is handler for what is answered from memory or at once.
func (f *Front) limited(on bool, h service.Handler) http.Handler {
	return f.handler(on, f.kit.Limit(h))
}
