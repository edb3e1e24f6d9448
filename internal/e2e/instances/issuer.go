// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"time"
)

// person adds a user with groups to the issuer.
func (w *world) person(name string, groups ...string) string {
	if len(groups) > 0 {
		w.issuer.groups[name] = groups
	}
	return name
}

// issuer is an OpenID Connect issuer, whose tokens are the users' logins.
type issuer struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	groups map[string][]string
}

func newIssuer() *issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		key = nil // never fails
	}
	i := &issuer{key: key, groups: map[string][]string{}}
	mux := http.NewServeMux()
	answer := func(path string, doc func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(doc()) // an error means that the client is gone
		})
	}
	answer("/.well-known/openid-configuration", func() any {
		return map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token"}
	})
	answer("/keys", func() any {
		point, err := key.PublicKey.Bytes()
		if err != nil {
			return nil
		}
		text := base64.RawURLEncoding.EncodeToString
		return map[string]any{"keys": []any{map[string]string{
			"kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256", "use": "sig", "x": text(point[1:33]), "y": text(point[33:]),
		}}}
	})
	i.Server = httptest.NewServer(mux)
	return i
}

// token returns a JWT for a user.
func (i *issuer) token(name string) string {
	now := time.Now().Unix()
	part := func(v any) string {
		b, _ := json.Marshal(v) // strings and numbers always encode
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := part(map[string]string{"alg": "ES256", "kid": "k", "typ": "JWT"}) + "." + part(map[string]any{
		"iss": i.URL, "sub": "id-" + name, "aud": "okara", "iat": now, "exp": now + 3600, "name": name, "groups": i.groups[name],
	})
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		return ""
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}
