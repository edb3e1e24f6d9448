// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
)

// staticCaller returns the caller with a static token; false: it is unknown or has expired.
func (p *activePolicy) staticCaller(token string, now time.Time) (Caller, bool) {
	id, hash, err := statictoken.Hash(token)
	if err != nil {
		return Caller{}, false
	}
	t, ok := p.findToken(id, hash[:], now)
	return Caller{Mode: "static", Subject: t.ID, scopes: t.Scopes, ends: t.Expires, hash: shortHash(t)}, ok
}

// shortHash tells a static token from a later one with the same id.
func shortHash(t statictoken.Token) string { return hex.EncodeToString(t.Hash[:8]) }

// findToken finds a static token by its id and hash; false: it is unknown or has expired.
func (p *activePolicy) findToken(id string, hash []byte, now time.Time) (statictoken.Token, bool) {
	for _, t := range p.Tokens {
		if t.ID == id && subtle.ConstantTimeCompare(t.Hash[:], hash) == 1 {
			return t, t.Expires.IsZero() || now.Before(t.Expires)
		}
	}
	return statictoken.Token{}, false
}

// refusedTokenID returns the id of a refused static token that is configured, or "".
func (p *activePolicy) refusedTokenID(r *http.Request) string {
	token, _ := bearerToken(r)
	id, _, err := statictoken.Hash(token)
	known := err == nil && slices.ContainsFunc(p.Tokens, func(t statictoken.Token) bool { return t.ID == id })
	if !known {
		return ""
	}
	return id
}

// bearerToken returns a request's token, which for states and registry may be the Basic password.
func bearerToken(r *http.Request) (string, bool) {
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

// ofTools reports whether the tools send their token for this host to the route.
func ofTools(r *http.Request) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return slices.Contains([]string{"v1", "origin", "mirror", "archives", "api"}, first)
}

// Challenge returns the WWW-Authenticate header of a 401.
func Challenge(r *http.Request) string {
	if basicRoute(r) {
		return `Basic realm="okara"`
	}
	return `Bearer realm="okara"`
}

// credential returns the caller's own credential for the registry, on routes that accept one.
func (g *Guard) credential(r *http.Request, p *activePolicy, token string) (oci.Credential, bool, error) {
	if g.o.PassThrough == nil || !g.o.PassThrough(r) || token == "" || ownToken(token) {
		return oci.Credential{}, false, nil
	}
	if _, ours := p.issuers.find(token); ours {
		return oci.Credential{}, false, nil
	}
	c, err := parseCredential(token)
	return c, err == nil, err
}

// ownToken reports whether a token has the form of a token that this server issues.
func ownToken(token string) bool {
	return strings.HasPrefix(token, statictoken.Prefix) || strings.HasPrefix(token, loginPrefix) || strings.HasPrefix(token, runPrefix)
}

// callerBehind returns the caller with a registry credential, about which the registry decides.
func callerBehind(c oci.Credential) Caller {
	id := sha256.Sum256([]byte(strings.Join([]string{c.Username, c.Password, c.IdentityToken, c.RegistryToken}, "\x00")))
	return Caller{Mode: "pass-through", Subject: hex.EncodeToString(id[:4]), Credential: &c, scopes: []rights.Scope{{Action: rights.Admin, Kind: rights.AnyKind, Glob: rights.Everything}}}
}

// parseCredential parses the forms that `okara auth token` prints.
func parseCredential(token string) (oci.Credential, error) {
	refused := &Refusal{Status: http.StatusUnauthorized, Text: "the token is not a registry credential"}
	decode := func(s string) (string, bool) {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
		return string(b), err == nil && len(b) > 0
	}
	if rest, ok := strings.CutPrefix(token, "basic."); ok {
		text, good := decode(rest)
		user, password, colon := strings.Cut(text, ":")
		if !good || !colon {
			return oci.Credential{}, refused
		}
		return oci.Credential{Username: user, Password: password}, nil
	}
	if rest, ok := strings.CutPrefix(token, "identity."); ok {
		text, good := decode(rest)
		if !good {
			return oci.Credential{}, refused
		}
		return oci.Credential{IdentityToken: text}, nil
	}
	return oci.Credential{RegistryToken: token}, nil
}
