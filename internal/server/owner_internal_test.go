// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// TestRunDoors: a run reaches states only through /state/, and only its own.
func TestRunDoors(t *testing.T) {
	front := doorsFront(t)
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil))(t)
	b := must.Get(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}}))(t)
	file := filepath.Join(t.TempDir(), "jwks.json")
	must.Succeed(t, os.WriteFile(file, b, 0o600))
	const issuer = "okara-operator.prod"
	var allow []rights.Scope
	for _, right := range []string{"write:state:**", "run:state:**", "read:module:**"} {
		s := must.Get(rights.ParseScope(right))(t)
		allow = append(allow, s)
	}
	must.Succeed(t, front.kit.Guard.Replace(access.Policy{
		Issuers: []access.Issuer{{URL: issuer, Audiences: []string{"okara"}, KeysFile: file}}, Rules: []access.Rule{{Name: "runs", Issuer: issuer, Allow: allow}},
	}))
	ask := func(subject string, d door) *httptest.ResponseRecorder {
		t.Helper()
		token := must.Get(jwt.Signed(signer).Claims(map[string]any{"iss": issuer, "aud": "okara", "sub": subject, "exp": time.Now().Add(time.Hour).Unix()}).Serialize())(t)
		r := httptest.NewRequestWithContext(t.Context(), d.method, "http://localhost"+d.path, strings.NewReader(d.body))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/vnd.api+json")
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		return w
	}
	for _, d := range doors() {
		want := "only through /state/"
		if strings.HasPrefix(d.path, "/state/") {
			want = "not this object's state"
		}
		if w := ask("run:acme/5f0c", d); w.Code != http.StatusConflict || !strings.HasPrefix(d.path, "/ui/") && !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s is %d %s, want 409 with %q", d.method, d.path, w.Code, w.Body, want)
		}
		if w := ask("okara-operator", d); strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s of somebody else is %d %s", d.method, d.path, w.Code, w.Body)
		}
	}
	if w := ask("run:acme/5f0c", door{method: "GET", path: "/v1/modules/net/vpc/aws/versions"}); w.Code != http.StatusNotFound {
		t.Errorf("a module that is not there is %d %s", w.Code, w.Body)
	}
	if w := ask("run:acme/5f0c", door{method: "GET", path: "/api/v2/organizations"}); strings.Contains(w.Body.String(), "shop") {
		t.Errorf("states are listed: %s", w.Body)
	}
}
