// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// Access says who may do what. The zero value allows nothing to anybody.
type Access struct {
	Anonymous []Scope // rights of a request without a token
	Tokens    []Token
	Issuers   []Issuer // whose tokens are accepted
	Rules     []Rule   // what they may do
}

// validate refuses a login whose tokens nobody would accept.
func (a Access) validate(l *Login) error {
	if l == nil || !l.Direct || slices.ContainsFunc(a.Issuers, func(i Issuer) bool { return i.URL == l.Issuer.URL }) {
		return nil
	}
	return fmt.Errorf("login: the tools would send tokens of issuer %q, which is not among those that are accepted", l.Issuer.URL)
}

// Token is a static token. The configuration holds its hash, not the token.
type Token struct {
	ID      string
	Hash    [sha256.Size]byte // SHA-256 of the whole token, "oks_<id>_<secret>"
	Scopes  []Scope
	Expires time.Time // zero: never
}

// tokenPrefix marks static tokens; the shape of a token selects the one way in
// which it is checked.
const tokenPrefix = "oks_"

// Scope is one right, written "action:kind:glob": an action (read, publish,
// admin; write for states), a kind of thing (module, provider, mirror, state,
// or * for the first three) and a glob over addresses, in which * stands for
// part of a segment and ** for any number of segments.
type Scope struct {
	Action, Kind, Glob string
}

// ParseScope parses "publish:module:acme/**".
func ParseScope(s string) (Scope, error) {
	part := strings.SplitN(s, ":", 3)
	if len(part) != 3 || part[2] == "" {
		return Scope{}, fmt.Errorf("scope %q: want ACTION:KIND:GLOB, such as read:module:acme/**", s)
	}
	scope := Scope{part[0], part[1], part[2]}
	switch scope.Kind {
	case "module", "provider", "mirror", "*":
		if scope.Action == "read" || scope.Action == "publish" || scope.Action == "admin" {
			return scope, nil
		}
		return Scope{}, fmt.Errorf("scope %q: the action must be read, publish or admin", s)
	case "state":
		if scope.Action == "read" || scope.Action == "write" {
			return scope, nil
		}
		return Scope{}, fmt.Errorf("scope %q: the action for states must be read or write", s)
	}
	return Scope{}, fmt.Errorf("scope %q: the kind must be module, provider, mirror, state or *", s)
}

// MarshalText returns the written form.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Scope) String() string { return s.Action + ":" + s.Kind + ":" + s.Glob }

// everything is the address of what only the glob ** covers: the server itself,
// and whatever has no address of its own.
const everything = "**"

// allows reports whether the scope covers an action. Who may publish may read,
// who may write a state may read it, and admin covers all of a kind. For what
// is of no kind, kind is "*".
func (s Scope) allows(action, kind, address string) bool {
	if s.Kind != kind && (s.Kind != "*" || !slices.Contains(artifactKinds(), kind)) {
		return false
	}
	if s.Action != action && s.Action != "admin" && action != "read" {
		return false
	}
	if address == everything {
		return s.Glob == everything
	}
	return globMatch(s.Glob, address)
}

// artifactKinds are the kinds that * stands for.
func artifactKinds() []string { return []string{addr.KindModule, addr.KindProvider, addr.KindMirror} }

// AnonymousAll are the rights of everybody on a loopback listener.
func AnonymousAll() []Scope {
	return []Scope{{"admin", "*", "**"}, {"write", "state", "**"}}
}

// AnonymousRead are the rights to fetch every module and provider.
func AnonymousRead() []Scope {
	return []Scope{{"read", "module", "**"}, {"read", "provider", "**"}, {"read", "mirror", "**"}}
}

// HashToken returns the identifier and the hash of a static token.
func HashToken(token string) (id string, hash [sha256.Size]byte, err error) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	id, secret, found := strings.Cut(rest, "_")
	if !ok || !found || id == "" || len(secret) < 20 {
		return "", hash, errors.New("a static token has the form oks_<id>_<secret> with a secret of at least 20 characters")
	}
	return id, sha256.Sum256([]byte(token)), nil
}

// caller is who asks.
type caller struct {
	mode    string // "anonymous", "static", "login", "oidc"
	subject string
	issuer  string
	scopes  []Scope
	rules   []string          // names of the rules that give the scopes, one to one; nil: it is no rule
	rule    string            // what allowed this request
	origin  map[string]string // "source", "revision" and "ref" that the token of a CI system proves
}

func (c caller) may(action, kind, address string) (rule string, ok bool) {
	for i, s := range c.scopes {
		if !s.allows(action, kind, address) {
			continue
		}
		if c.rules != nil {
			return c.rules[i] + ": " + s.String(), true
		}
		return s.String(), true
	}
	return "", false
}

// grant is a positive decision about one request.
type grant struct {
	caller caller
	public bool // anonymous may do it as well, so that shared caches may keep the answer
}

func (g grant) cacheControl() string {
	if g.public {
		return publicCache
	}
	return privateCache
}

// allow decides whether the request may do something with an address. The
// decision precedes every lookup, so a refusal does not tell whether the thing
// exists.
func (s *server) allow(r *http.Request, action, kind, address string) (grant, error) {
	c, err := s.known(r, action, kind, address)
	if err != nil {
		return grant{}, err
	}
	rule, ok := c.may(action, kind, address)
	c.rule = rule
	s.decided(r, c, action, kind, address, rule)
	if ok {
		anonymous := caller{scopes: s.o.Access.Anonymous}
		_, public := anonymous.may(action, kind, address)
		return grant{caller: c, public: public}, nil
	}
	if c.mode == "anonymous" {
		return grant{}, &httpError{status: http.StatusUnauthorized, text: "a token is needed: " + action + " " + kind}
	}
	return grant{}, &httpError{status: http.StatusForbidden, text: fmt.Sprintf("this token may not %s %s %s", action, kind, address)}
}

// allowServer decides about what concerns the whole server.
func (s *server) allowServer(r *http.Request) error {
	_, err := s.allow(r, "admin", "*", everything)
	return err
}

// caller tells who asks from the Authorization header. The shape of a token
// selects one way to check it; a token that fails there is refused. It is never
// tried in another way, nor taken for anonymous.
func (s *server) caller(r *http.Request) (caller, error) {
	if s.onBehalf != nil {
		return *s.onBehalf, nil
	}
	token, ok := bearer(r)
	if !ok {
		return caller{mode: "anonymous", scopes: s.o.Access.Anonymous}, nil
	}
	refused := &httpError{status: http.StatusUnauthorized, text: "the token is not valid here, or has expired"}
	if strings.HasPrefix(token, tokenPrefix) {
		if c, ok := s.static(token); ok {
			return c, nil
		}
		return caller{}, refused
	}
	if strings.HasPrefix(token, loginPrefix) {
		if id, ok := s.loggedIn(token); ok {
			return s.identified("login", id), nil
		}
		return caller{}, refused
	}
	i, ok := s.issuers.find(token)
	if !ok {
		return caller{}, refused
	}
	id, err := s.issuers.check(r.Context(), i, token)
	if errors.Is(err, errIssuerDown) {
		s.logFor(r).Error("token not checked", "issuer", i.URL, "reason", err)
		return caller{}, &httpError{status: http.StatusServiceUnavailable, text: errIssuerDown.Error()}
	}
	if err != nil {
		s.logFor(r).Warn("token refused", "issuer", i.URL, "reason", err)
		return caller{}, refused
	}
	return s.identified("oidc", id), nil
}

func (s *server) identified(mode string, id identity) caller {
	c := caller{mode: mode, subject: id.Subject, issuer: id.Issuer, origin: id.origin()}
	c.scopes, c.rules = id.scopes(s.o.Access.Rules)
	return c
}

// static looks a static token up.
func (s *server) static(token string) (caller, bool) {
	id, hash, err := HashToken(token)
	if err != nil {
		return caller{}, false
	}
	for _, t := range s.o.Access.Tokens {
		if t.ID != id || subtle.ConstantTimeCompare(t.Hash[:], hash[:]) != 1 {
			continue
		}
		if !t.Expires.IsZero() && !s.now().Before(t.Expires) {
			return caller{}, false
		}
		return caller{mode: "static", subject: id, scopes: t.Scopes}, true
	}
	return caller{}, false
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

// challenge is the WWW-Authenticate header of a 401.
func challenge(r *http.Request) string {
	if basicRoute(r) {
		return `Basic realm="okara"`
	}
	return `Bearer realm="okara"`
}

// missing turns "not found" into the answer that makes clients try their next
// source. Every other error stays what it is.
func missing(err error, format string, args ...any) error {
	if errors.Is(err, oci.ErrNotFound) {
		return notFound("%s: not found", fmt.Sprintf(format, args...))
	}
	return err
}
