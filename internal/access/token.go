// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/statictoken"
)

// static looks a static token up.
func (l *rules) static(token string, now time.Time) (Caller, bool) {
	id, hash, err := statictoken.Hash(token)
	if err != nil {
		return Caller{}, false
	}
	t, ok := l.token(id, hash[:], now)
	return Caller{Mode: "static", Subject: t.ID, scopes: t.Scopes}, ok
}

// token finds a static token by its hash.
func (l *rules) token(id string, hash []byte, now time.Time) (statictoken.Token, bool) {
	for _, t := range l.Tokens {
		if t.ID == id && subtle.ConstantTimeCompare(t.Hash[:], hash) == 1 {
			return t, t.Expires.IsZero() || now.Before(t.Expires)
		}
	}
	return statictoken.Token{}, false
}

// named is the id of the static token that a refused request claims to have; "" if
// there is none of that id. Nothing else of what was sent is ever shown.
func (l *rules) named(r *http.Request) string {
	token, _ := bearer(r)
	id, _, err := statictoken.Hash(token)
	known := err == nil && slices.ContainsFunc(l.Tokens, func(t statictoken.Token) bool { return t.ID == id })
	if !known {
		return ""
	}
	return id
}

// bearer returns the token of a request. States and the registry itself take
// it as the password of Basic too, which is what the http backend and Docker
// clients can send.
func bearer(r *http.Request) (string, bool) {
	h := r.Header.Get("Authorization")
	if h == "" {
		return "", false
	}
	if basicRoute(r) {
		if _, password, ok := r.BasicAuth(); ok {
			return password, true
		}
	}
	scheme, token, _ := strings.Cut(h, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(token), true
}

func basicRoute(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v2/") || strings.HasPrefix(r.URL.Path, "/state/")
}

// ofTools reports whether the tools, or okara in their place, send their token for
// the host to the route.
func ofTools(r *http.Request) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return slices.Contains([]string{"v1", "origin", "mirror", "archives", "api"}, first)
}

// Challenge is the WWW-Authenticate header of a 401.
func Challenge(r *http.Request) string {
	if basicRoute(r) {
		return `Basic realm="okara"`
	}
	return `Bearer realm="okara"`
}
