// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
)

// FuzzLogin: any queries redirect to the issuer only, and issue nothing.
func FuzzLogin(f *testing.F) {
	now := time.Now()
	i := newIssuer(f)
	front := loginFront(f, i, &now)
	q, _ := front.login(f, loginQuery())
	f.Add(loginQuery().Encode())
	f.Add(q.Encode())
	f.Add(url.Values{"grant_type": {"authorization_code"}, "code": {q.Get("code")}, "code_verifier": {"x"}, "redirect_uri": {"http://localhost:10003/login"}}.Encode())
	f.Add("redirect_uri=http://localhost:10003%2Flogin&state=%zz;")
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/login/authorize", "/login/callback"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.URL.RawQuery = query
			w := httptest.NewRecorder()
			front.handler.ServeHTTP(w, r)
			if to := w.Header().Get("Location"); w.Code >= 500 || w.Code < 400 && !strings.HasPrefix(to, i.URL+"/authorize?") {
				t.Errorf("%s?%s: %d to %q", path, query, w.Code, to)
			}
		}
		r := httptest.NewRequest(http.MethodPost, "/login/token", strings.NewReader(query))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		front.handler.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest {
			t.Errorf("token for %q: %d %s", query, w.Code, w.Body)
		}
	})
}

// FuzzBody: any bodies cause no server error and no version.
func FuzzBody(f *testing.F) {
	front := newFront(f, func(o *server.Options) { o.Access.Anonymous = rights.AnonymousAll() })
	for _, body := range []string{
		`{"receipts":["x"],"keys":["-----BEGIN PGP"]}`, `{"action":"yank","message":"x"}`, `{"digest":"sha256:00","payload":"e30=","signature":"eA=="}`, `{"digest":"x"}`, "PK\x03\x04", "\x1f\x8b", "",
	} {
		f.Add([]byte(body))
	}
	routes := []string{
		"PUT /v1/modules/net/vpc/aws/1.0.0?dry_run=1", "POST /v1/modules/net/vpc/aws/1.0.0/status", "POST /v1/modules/net/vpc/aws/1.0.0/signatures",
		"POST /v1/providers/acme/dns/1.0.0", "POST /v1/providers/acme/dns/1.0.0/status", "POST /v1/providers/acme/dns/1.0.0/signatures",
		"POST /v1/providers/acme/dns/1.0.0/files/terraform-provider-dns_1.0.0_linux_amd64.zip",
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, route := range routes {
			method, path, _ := strings.Cut(route, " ")
			w := httptest.NewRecorder()
			front.handler.ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(body)))
			if w.Code >= 500 || w.Code < 400 && !strings.Contains(path, "dry_run") {
				t.Errorf("%s with %q: %d %s", route, body, w.Code, w.Body)
			}
		}
	})
}
