// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// Issuer is an OpenID Connect issuer in the test process.
type Issuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey

	// Says changes the claims of the next logins; nil: Anna, who is in no group.
	Says func(claims map[string]any)

	mu    sync.Mutex // guards begun
	begun []begun
}

// NewIssuer starts an issuer.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	i := &Issuer{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/a", "token_endpoint": i.URL + "/t"})
	})
	mux.HandleFunc("/a", i.authorize)
	mux.HandleFunc("/t", func(w http.ResponseWriter, r *http.Request) { i.sendToken(t, w, r) })
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// Token returns a token of a user who is in groups.
func (i *Issuer) Token(t testing.TB, subject string, groups ...string) string {
	t.Helper()
	now := time.Now()
	return i.Sign(t, map[string]any{
		"iss": i.URL, "aud": "okara", "sub": subject, "name": "Name of " + subject, "groups": groups,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	})
}

// Sign returns a signed token with the claims.
func (i *Issuer) Sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}}, nil))(t)
	return must.Get(jwt.Signed(signer).Claims(claims).Serialize())(t)
}

// Rule returns a rule that gives rights to the members of a group.
func Rule(t testing.TB, group string, scopes ...string) access.Rule {
	t.Helper()
	r := access.Rule{Name: group, Groups: []string{group}}
	for _, s := range scopes {
		scope := must.Get(rights.ParseScope(s))(t)
		r.Allow = append(r.Allow, scope)
	}
	return r
}
