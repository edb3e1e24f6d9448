// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer guards a registry by Basic, or by tokens (JWTs) issued at /token for what was asked and
// allowed.
type Issuer struct {
	Users  map[string]string                          // name to password; a refresh token is both the name and the password of a user
	Allow  func(user, repository, action string) bool // nil: known users have all rights, others none
	Basic  bool                                       // no tokens
	TTL    time.Duration                              // of a token; 0: five minutes
	Strict bool                                       // no token at all if a part of the request is not allowed (GHCR)
	Opaque bool                                       // tokens without a visible expiry
	Realm  string                                     // of the challenge; empty: this server's /token

	mu     sync.Mutex // guards the fields below
	scopes []string
	opaque map[string]claims
	gone   bool
}

// Scopes returns the requested token scopes in order, one string per token.
func (i *Issuer) Scopes() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.scopes)
}

// Revoke invalidates all tokens issued so far, as when they expire early.
func (i *Issuer) Revoke() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.gone = true
	i.opaque = nil
}

type claims struct {
	Access  []access `json:"access"`
	Issued  float64  `json:"iat"`
	Expires float64  `json:"exp"`
	User    string   `json:"sub"`
	Serial  int      `json:"jti"`
}

type access struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

const issuerKey = "a key for tests only, of 32 bytes"

func (i *Issuer) protect(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			i.serveToken(w, r)
			return
		}
		p := parsePlace(r.URL.Path)
		actions := []string{"pull"}
		switch r.Method {
		case http.MethodDelete:
			actions = []string{"delete"}
		case http.MethodPut, http.MethodPost, http.MethodPatch:
			actions = []string{"pull", "push"}
		}
		from := mountFrom(r)
		if i.isAuthorized(r, p.name, actions) && (from == "" || i.isAuthorized(r, from, []string{"pull"})) {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", i.challenge(r, p.name, actions))
		sendRefusal(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	})
}

func (i *Issuer) challenge(r *http.Request, name string, actions []string) string {
	if i.Basic {
		return `Basic realm="registry"`
	}
	realm := i.Realm
	if realm == "" {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		realm = scheme + "://" + r.Host + "/token"
	}
	c := fmt.Sprintf(`Bearer realm=%q,service="test"`, realm)
	if name != "" {
		scope := "repository:" + name + ":" + strings.Join(actions, ",")
		if from := mountFrom(r); from != "" {
			scope += " repository:" + from + ":pull"
		}
		c += fmt.Sprintf(`,scope=%q`, scope)
	}
	if raw, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if _, valid := i.validClaims(raw); valid {
			return c + `,error="insufficient_scope"`
		}
		return c + `,error="invalid_token"`
	}
	return c
}

func (i *Issuer) isAuthorized(r *http.Request, name string, actions []string) bool {
	if i.Basic {
		user, password, ok := r.BasicAuth()
		return i.isAllowedTo(user, password, ok, name, actions)
	}
	raw, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return false
	}
	c, ok := i.validClaims(raw)
	if !ok {
		return false
	}
	if name == "" { // the root of the API accepts any token
		return true
	}
	for _, a := range actions {
		if !slices.ContainsFunc(c.Access, func(x access) bool { return x.Name == name && slices.Contains(x.Actions, a) }) {
			return false
		}
	}
	return true
}

func (i *Issuer) isAllowedTo(user, password string, ok bool, name string, actions []string) bool {
	if ok && i.Users[user] != password {
		return false
	}
	if !ok {
		user = ""
	}
	return !slices.ContainsFunc(actions, func(a string) bool { return !i.mayDo(user, name, a) })
}

func (i *Issuer) mayDo(user, name, action string) bool {
	if i.Allow != nil {
		return i.Allow(user, name, action)
	}
	_, known := i.Users[user]
	return known
}

// serveToken handles the token specification's GET, and the POST of its OAuth2 variant.
func (i *Issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	user, password, ok := r.BasicAuth()
	scopes := r.URL.Query()["scope"]
	if r.Method == http.MethodPost {
		user = r.PostFormValue("refresh_token")
		password = user
		ok = true
		scopes = strings.Fields(r.PostFormValue("scope"))
	}
	if ok && (i.Users[user] == "" || i.Users[user] != password) {
		sendRefusal(w, http.StatusUnauthorized, "UNAUTHORIZED", "wrong user name or password")
		return
	}
	if i.Strict && slices.ContainsFunc(scopes, func(s string) bool { return !i.grantsScope(user, s) }) {
		sendRefusal(w, http.StatusForbidden, "DENIED", "requested access to the resource is denied")
		return
	}
	value := i.issue(user, scopes)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": value, "access_token": value})
}

// grantsScope reports whether all actions of a scope are allowed.
func (i *Issuer) grantsScope(user, scope string) bool {
	a, ok := parseScope(scope)
	return ok && !slices.ContainsFunc(a.Actions, func(action string) bool { return !i.mayDo(user, a.Name, action) })
}

// parseScope reads "repository:name:action,action".
func parseScope(s string) (access, bool) {
	kind, rest, ok := strings.Cut(s, ":")
	end := strings.LastIndexByte(rest, ':')
	if !ok || end < 0 {
		return access{}, false
	}
	return access{Type: kind, Name: rest[:end], Actions: strings.Split(rest[end+1:], ",")}, true
}

func (i *Issuer) issue(user string, scopes []string) string {
	ttl := i.TTL
	ttl = cmp.Or(ttl, 5*time.Minute)
	now := float64(time.Now().UnixMilli()) / 1000
	c := claims{Issued: now, Expires: now + ttl.Seconds(), User: user}
	for _, s := range scopes {
		a, ok := parseScope(s)
		if !ok {
			continue
		}
		a.Actions = slices.DeleteFunc(a.Actions, func(action string) bool { return !i.mayDo(user, a.Name, action) })
		c.Access = append(c.Access, a)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.scopes = append(i.scopes, strings.Join(scopes, " "))
	c.Serial = len(i.scopes)
	i.gone = false
	if i.Opaque {
		if i.opaque == nil {
			i.opaque = map[string]claims{}
		}
		value := fmt.Sprintf("opaque-token-%d", c.Serial)
		i.opaque[value] = c
		return value
	}
	return signToken(c)
}

func (i *Issuer) validClaims(raw string) (claims, bool) {
	c, ok := i.readToken(raw)
	return c, ok && time.Now().Before(time.UnixMilli(int64(c.Expires*1000)))
}

func (i *Issuer) readToken(raw string) (claims, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.Opaque {
		c, ok := i.opaque[raw]
		return c, ok
	}
	if i.gone {
		return claims{}, false
	}
	var c claims
	token, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.HS256})
	if err != nil || token.Claims([]byte(issuerKey), &c) != nil {
		return claims{}, false
	}
	return c, true
}

func signToken(c claims) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(issuerKey)}, nil)
	if err != nil {
		return "" // never: the key is a constant
	}
	raw, _ := jwt.Signed(s).Claims(c).Serialize()
	return raw
}
