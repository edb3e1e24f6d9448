// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// TestRoutesOfRoles: a portal has no routes for tools.
func TestRoutesOfRoles(t *testing.T) {
	const issuer = "https://login.example.com" // no request is sent to it
	for _, portal := range []bool{false, true} {
		client := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true}))(t)
		keys := []keyring.Key{{Secret: bytes.Repeat([]byte("s"), 32)}}
		ring := must.Get(keyring.New(keys))(t)
		front := must.Get(server.New(server.Options{
			Options: registry.Options{Client: client, Layout: addr.Layout{Prefix: "acme"}}, Keys: keys, Pages: true, Alone: portal,
			Sessions: &access.Sessions{Keyring: ring, Portal: portal},
			Login:    &access.Login{Issuer: access.Issuer{URL: issuer}, ClientID: "okara-web", PublicURL: "https://okara.example.com"},
		}))(t)
		for _, c := range []struct {
			path           string
			server, portal int
			location       string
		}{
			{"/", 303, 303, "ui/"},
			{"/favicon.ico", 302, 302, "ui/assets/"},
			{"/ui/login?stay", 200, 200, ""},
			{"/ui/me", 200, 200, ""},
			{"/ui/search", 303, 303, "./login?return=%2Fui%2Fsearch"},
			{"/app/settings/tokens", 303, 303, "../../ui/me"},
			{"/login/callback?state=x", 400, 400, ""},
			{"/login/authorize", 400, 404, ""},
			{"/.well-known/terraform.json", 200, 404, ""},
			{"/v1/modules/net/vpc/aws/versions", 401, 404, ""},
			{"/healthz", 200, 200, ""},
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://okara.example.com"+c.path, nil)
			r.Header.Set("Accept", "text/html")
			w := httptest.NewRecorder()
			front.ServeHTTP(w, r)
			want := c.server
			if portal {
				want = c.portal
			}
			if w.Code != want || !strings.HasPrefix(w.Header().Get("Location"), c.location) || c.location == "" && w.Header().Get("Location") != "" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("portal %v: %s is %d to %q, want %d", portal, c.path, w.Code, w.Header().Get("Location"), want)
			}
		}
	}
}
