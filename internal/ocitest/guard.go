// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"

	"github.com/seed-141914ff/okara/internal/must"
)

// Guard is distribution with authentication: Basic from an htpasswd file, or tokens of an issuer
// that, unlike [Issuer], only signs.
type Guard struct {
	Host string

	t    testing.TB
	file string // the htpasswd file, or "" with tokens
	key  *ecdsa.PrivateKey

	mu     sync.Mutex // guards the fields below
	users  map[string]string
	claims map[string]map[string]any
	stale  map[string]string // tokens that Expire has outdated, to their expired replacement
	asked  []string
}

const guardService = "guarded registry"

// NewHTPasswd starts a registry that requires Basic authentication.
func NewHTPasswd(t testing.TB, users map[string]string) *Guard {
	t.Helper()
	g := &Guard{t: t, file: filepath.Join(t.TempDir(), "htpasswd")}
	g.SetUsers(users)
	g.startRegistry(configuration.Auth{"htpasswd": {"realm": guardService, "path": g.file}})
	return g
}

// NewTokens starts a registry and the issuer of its tokens, for these users and anything.
func NewTokens(t testing.TB, users map[string]string) *Guard {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	g := &Guard{t: t, users: users, key: key, claims: map[string]map[string]any{}, stale: map[string]string{}}
	set := must.Get(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "test", Algorithm: "ES256", Use: "sig"}}}))(t)
	file := filepath.Join(t.TempDir(), "jwks.json")
	must.Succeed(t, os.WriteFile(file, set, 0o600))
	realm := "http://" + serveHandler(t, http.HandlerFunc(g.issue)) + "/token"
	g.startRegistry(configuration.Auth{"token": {"realm": realm, "service": guardService, "issuer": "test", "jwks": file}})
	return g
}

func (g *Guard) startRegistry(a configuration.Auth) {
	logrus.SetOutput(io.Discard)
	app := handlers.NewApp(context.Background(), &configuration.Configuration{
		Auth:    a,
		Storage: configuration.Storage{"inmemory": {}, "delete": {"enabled": true}, "maintenance": {"uploadpurging": map[any]any{"enabled": false}}},
	})
	g.Host = serveHandler(g.t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if raw, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
			g.mu.Lock()
			if old, ok := g.stale[raw]; ok {
				r.Header.Set("Authorization", "Bearer "+old)
			}
			g.mu.Unlock()
		}
		app.ServeHTTP(w, r)
	}))
}

// SetUsers replaces all users, as when passwords are rotated. Issued tokens stay valid.
func (g *Guard) SetUsers(users map[string]string) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users = users
	if g.file == "" {
		return
	}
	var lines strings.Builder
	for user, password := range users {
		hash := must.Get(bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost))(g.t)
		fmt.Fprintf(&lines, "%s:%s\n", user, hash)
	}
	must.Succeed(g.t, os.WriteFile(g.file, []byte(lines.String()), 0o600))
}

// Expire makes every token issued so far an expired one.
func (g *Guard) Expire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for raw, claims := range g.claims {
		claims["exp"] = time.Now().Add(-time.Hour).Unix()
		g.stale[raw] = g.sign(claims)
		delete(g.claims, raw)
	}
}

// Scopes returns the requested token scopes in order, one string per token.
func (g *Guard) Scopes() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked)
}

func (g *Guard) sign(claims map[string]any) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: g.key, KeyID: "test"}}, nil)
	if err != nil {
		g.t.Error(err)
		return ""
	}
	raw, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		g.t.Error(err)
	}
	return raw
}

// issue handles the GET request of the distribution token specification.
func (g *Guard) issue(w http.ResponseWriter, r *http.Request) {
	user, password, ok := r.BasicAuth()
	g.mu.Lock()
	defer g.mu.Unlock()
	if want, known := g.users[user]; !ok || !known || want != password {
		sendRefusal(w, http.StatusUnauthorized, "UNAUTHORIZED", "the issuer does not know this user name and password")
		return
	}
	scopes := r.URL.Query()["scope"]
	access := []map[string]any{}
	for _, s := range scopes {
		part := strings.Split(s, ":")
		if len(part) != 3 {
			continue
		}
		access = append(access, map[string]any{"type": part[0], "name": part[1], "actions": strings.Split(part[2], ",")})
	}
	g.asked = append(g.asked, strings.Join(scopes, " "))
	now := time.Now()
	claims := map[string]any{
		"iss": "test", "aud": []string{guardService}, "sub": user, "access": access, "jti": fmt.Sprint(len(g.asked)),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	raw := g.sign(claims)
	g.claims[raw] = claims
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": raw, "expires_in": 300})
}
