// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
)

// greedy has every route with a body, all of which handlers read.
func greedy(t testing.TB) *front {
	reads := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.FormValue("from")
		_, _ = io.Copy(io.Discard, r.Body)
	})
	return newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), nil, func(o *server.Options) {
		private(t)(o)
		o.Embedded, o.Depot, o.Metrics = reads, reads, server.NewMetrics()
		o.TFE = &server.TFEOptions{Memory: 1 << 20}
		o.Stores = func(_ context.Context, name string) (*statebackend.Store, error) {
			repo, err := o.Client.Repo("acme/state/" + name)
			return statebackend.New(repo, statebackend.Options{}), err
		}
		o.GitHub = []registry.GitHub{{Owner: "acme", Secrets: [][]byte{[]byte("0123456789abcdef")}, Origins: func() (supply.Origins, error) { return supply.Origins{}, nil }}}
	})
}

// TestBodyBeforeRight is the attack with a body of 620 MB: no route reads a
// byte of an unauthorized request, for any type of body.
//
// Shows: mistakes 1 | `/v2/` read forms before it knew the caller: without a token, one body filled
// the disk and sixty filled the memory | no byte of a body is read until the right is decided from
// method, path and query; `/v2/` accepts no forms; at most 256 bodies at once, shared among clients
func TestBodyBeforeRight(t *testing.T) {
	f := greedy(t)
	routes := []string{
		"PUT /v1/modules/net/vpc/aws/1.0.0", "POST /v1/modules/net/vpc/aws/1.0.0/status", "POST /v1/modules/net/vpc/aws/1.0.0/signatures",
		"PUT /v1/providers/acme/dns/1.0.0/files/terraform-provider-dns_1.0.0_SHA256SUMS", "POST /v1/providers/acme/dns/1.0.0/files/terraform-provider-dns_1.0.0_SHA256SUMS",
		"POST /v1/providers/acme/dns/1.0.0", "POST /v1/providers/acme/dns/1.0.0/status", "POST /v1/providers/acme/dns/1.0.0/signatures",
		"POST /state/shop/default", "LOCK /state/shop/default", "UNLOCK /state/shop/default", "DELETE /state/shop/default", "GET /state/shop/default",
		"POST /api/v2/organizations/shop/workspaces", "PATCH /api/v2/organizations/shop/workspaces/default", "DELETE /api/v2/organizations/shop/workspaces/default",
		"POST /api/v2/workspaces/ws-c2hvcABkZWZhdWx0/actions/lock", "POST /api/v2/workspaces/ws-c2hvcABkZWZhdWx0/state-versions", "POST /api/v2/nothing",
		"PUT /api/v2/uploads/x", "PUT /api/v2/uploads/a.b.c", "GET /api/v2/account/details",
		"POST /depot/sync", "POST /hooks/github", "GET /metrics", "POST /metrics", "POST /v1/modules", "POST /nothing",
		"POST /v2/", "POST /v2/acme/modules/net/vpc/aws/blobs/uploads/", "PATCH /v2/acme/modules/net/vpc/aws/blobs/uploads/x", "PUT /v2/acme/modules/net/vpc/aws/manifests/1.0.0",
		"POST /v2/_catalog", "DELETE /v2/acme/catalog/manifests/x", "GET /v2/acme/modules/net/vpc/aws/tags/list", "POST /v2/acme/state/shop/blobs/uploads/?from=acme/state/bank",
	}
	types := []string{
		"", "application/octet-stream", "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/mixed; boundary=x",
		"application/x-www-form-urlencoded; =broken", "APPLICATION/X-WWW-FORM-URLENCODED",
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		for _, typ := range types {
			for _, token := range []string{"", readerToken + "x"} {
				body := &endless{}
				r := httptest.NewRequestWithContext(t.Context(), method, path, body)
				r.Header.Set("Content-Type", typ)
				if token != "" {
					r.Header.Set("Authorization", "Bearer "+token)
				}
				w := httptest.NewRecorder()
				f.handler.ServeHTTP(w, r)
				if w.Code < 400 || w.Code >= 500 || body.read > 0 {
					t.Errorf("%s of %q with token %q: %d, %d bytes were read", route, typ, token, w.Code, body.read)
				}
				if w.Header().Get("X-Content-Type-Options") != "nosniff" {
					t.Errorf("%s: no nosniff", route)
				}
			}
		}
	}
}

// TestFormsOnDistribution sends forms with the right to push: the registry,
// which would look there for its query first, never sees one.
//
// Shows: mistakes 1
func TestFormsOnDistribution(t *testing.T) {
	f := greedy(t)
	for typ, want := range map[string]int{
		"": 200, "application/octet-stream": 200, "application/vnd.oci.image.manifest.v1+json": 200, "text/plain": 200,
		"application/x-www-form-urlencoded": 415, "application/x-www-form-urlencoded; charset=utf-8": 415, "application/x-www-form-urlencoded; =broken": 415,
		"multipart/form-data; boundary=x": 415, "Multipart/Form-Data; boundary=x": 415, "multipart/mixed; boundary=x": 415,
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch} {
			body := &endless{}
			r := httptest.NewRequestWithContext(t.Context(), method, "/v2/acme/modules/net/vpc/aws/blobs/uploads/x", io.LimitReader(body, 1<<10))
			r.Header.Set("Content-Type", typ)
			r.Header.Set("Authorization", "Bearer "+publisherToken)
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, r)
			if w.Code != want || (body.read > 0) != (want == 200) {
				t.Errorf("%s of %q: %d, %d bytes were read, want %d", method, typ, w.Code, body.read, want)
			}
		}
	}
}
