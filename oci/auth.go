// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// session authenticates the requests for one repository. Credentials and tokens of repositories
// never mix: a credential source may answer per repository, and registries such as GHCR refuse
// joined scopes. Only a mount asks to read a second repository, with the credential of this one.
type session struct {
	host, name string
	o          Options
	secrets    secrets
	tokens     *tokenCache
	follow     *auth.Client // follows redirects of GET and HEAD
	stay       *auth.Client // hands every redirect to the caller

	renewing sync.Mutex // held while a credential is replaced

	mu         sync.Mutex // guards the fields below
	last       Credential // the credential in use
	generation int        // number of replaced credentials
	narrow     bool       // ask for no more actions than needed
	noMounts   bool       // a mount was refused
}

// String returns the host and repository of the session; a login has none.
func (s *session) String() string {
	if s.name == "" {
		return s.host
	}
	return s.host + "/" + s.name
}

func newSession(c *Client, name string) *session {
	s := &session{host: c.host, name: name, o: c.o}
	s.tokens = &tokenCache{secrets: &s.secrets, schemes: map[string]auth.Scheme{}, tokens: map[string]token{}, now: time.Now}
	s.tokens.alone = s.userAlone
	header := http.Header{}
	if c.o.UserAgent != "" {
		header.Set("User-Agent", c.o.UserAgent)
	}
	client := func(redirect func(*http.Request, []*http.Request) error) *auth.Client {
		return &auth.Client{
			Client: &http.Client{Transport: c.transport, CheckRedirect: redirect},
			Header: header, Cache: s.tokens, ClientID: "okara",
			Credential: s.credential,
		}
	}
	s.follow = client(followReads)
	s.stay = client(func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse })
	return s
}

// credential is the library's CredentialFunc; host is another one after a redirect of an upload.
func (s *session) credential(ctx context.Context, host string) (auth.Credential, error) {
	if host != apiHost(s.host) {
		return auth.EmptyCredential, nil
	}
	_, generation := s.inUse()
	c, err := s.findCredential(ctx)
	if err != nil {
		return auth.EmptyCredential, err
	}
	s.mu.Lock()
	if s.generation == generation { // else c may be the credential that was refused meanwhile
		s.last = c
	}
	s.mu.Unlock()
	out := auth.Credential{
		Username: c.Username, Password: c.Password,
		RefreshToken: c.IdentityToken, AccessToken: c.RegistryToken,
	}
	if c.RegistryToken != "" && c.Password == "" && c.IdentityToken == "" {
		out.Username = tokenUser
		out.Password = c.RegistryToken
	}
	return out, nil
}

// userAlone returns the Basic token of a user without password, which the library would not send.
func (s *session) userAlone() (token string, ok bool) {
	c, _ := s.inUse()
	return base64.StdEncoding.EncodeToString([]byte(c.Username + ":")), c == Credential{Username: c.Username} && c.Username != ""
}

// tokenUser is the user name beside a token in the password field, which registries ignore.
const tokenUser = "token"

func (s *session) findCredential(ctx context.Context) (Credential, error) {
	if s.o.Credential == nil {
		return Credential{}, nil
	}
	c, err := s.o.Credential(ctx, s.host, s.name)
	if err != nil {
		return Credential{}, &credentialError{fmt.Errorf("find credentials for %s: %w", s, err)}
	}
	s.secrets.addCredential(c)
	return c, nil
}

func (s *session) isAnonymous() bool {
	c, _ := s.inUse()
	return c == Credential{}
}

func (s *session) inUse() (Credential, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.generation
}

// narrowActions drops Options.Actions for this repository, if not done yet: some token servers
// grant all or nothing, and a reader may have asked for too much.
func (s *session) narrowActions() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.narrow || len(s.o.Actions) == 0 {
		return false
	}
	s.narrow = true
	return true
}

func (s *session) extraActions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.narrow {
		return nil
	}
	return slices.Clone(s.o.Actions)
}

// renewCredential replaces the credential that was refused with err, and the tokens, and reports
// whether another one is in use now. generation was in use for the request: of parallel refused
// requests one replaces it for all. tried holds the credentials refused for this request.
func (s *session) renewCredential(ctx context.Context, generation int, tried map[Credential]bool, err error) bool {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	refused, now := s.inUse()
	if now != generation {
		return true
	}
	if refused == (Credential{}) {
		return false
	}
	if s.o.Rejected != nil {
		s.o.Rejected(s.host, s.name, refused, errors.Is(err, ErrUnauthenticated))
	}
	tried[refused] = true
	c, err := s.findCredential(ctx)
	if err != nil || tried[c] || c == (Credential{}) {
		return false // the registry's refusal is more useful than a helper's error
	}
	s.tokens.dropTokens()
	s.mu.Lock()
	s.last = c
	s.generation++
	s.mu.Unlock()
	return true
}

// isSenderKnown reports whether the registry knows the sender of a request that it answered with
// 401, as Harbor does for a missing right or project: the token server issued a token with a
// subject, or else the root of the API accepts the credential.
func (s *session) isSenderKnown(resp *http.Response) bool {
	u := resp.Request.URL
	authorization := resp.Request.Header.Get("Authorization")
	invalid := strings.Contains(resp.Header.Get("WWW-Authenticate"), "invalid_token")
	if authorization == "" || invalid || u.Host != apiHost(s.host) {
		return false
	}
	used, _ := s.inUse()
	value, bearer := strings.CutPrefix(authorization, "Bearer ")
	if subject, ok := tokenSubject(value); bearer && ok && used.RegistryToken == "" {
		return subject != ""
	}
	return s.opensRoot(resp.Request.Context(), u, authorization)
}

// opensRoot reports whether the root of the API at u accepts the Authorization header.
func (s *session) opensRoot(ctx context.Context, u *url.URL, authorization string) bool {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	root := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/v2/"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, root.String(), nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", authorization)
	resp, err := s.stay.Client.Do(req)
	if err != nil {
		return false
	}
	discardBody(resp)
	return resp.StatusCode == http.StatusOK
}

func tokenSubject(value string) (subject string, ok bool) {
	var claims struct {
		Subject string `json:"sub"`
	}
	ok = readClaims(value, &claims)
	return claims.Subject, ok
}

// readClaims decodes the claims of a token that is a JWT, whose signature the registry checks.
func readClaims(value string, claims any) bool {
	parts := strings.Split(value, ".")
	if len(parts) != 3 {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(raw, claims) == nil
}

// maxRedirects is the limit of browsers and net/http.
const maxRedirects = 10

// followReads follows redirects of reads only: a redirected write would be answered by a host that
// was not asked. auth.Client removes the Authorization header when the origin changes.
func followReads(req *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet && first.Method != http.MethodHead {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	if first.URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("redirect from https to %s://%s refused", req.URL.Scheme, req.URL.Host)
	}
	return nil
}

// tokenCache keeps tokens per registry host and action set. Unlike the library's it renews them
// before they expire and uses a wider token for a narrow request, lest a registry whose challenge
// differs from the requested scope refuse each first request.
type tokenCache struct {
	secrets *secrets
	flight  singleflight.Group
	now     func() time.Time
	alone   func() (token string, ok bool) // of a user without a password

	mu      sync.Mutex // guards the fields below
	schemes map[string]auth.Scheme
	tokens  map[string]token // by tokenKey
	epoch   int              // raised by drop, so that a token whose fetch began before is not kept
}

type token struct {
	value string
	renew time.Time // zero: unknown, used until it is refused
}

func tokenKey(registry string, scheme auth.Scheme, scopes string) string {
	return registry + " " + scheme.String() + " " + scopes
}

func (c *tokenCache) GetScheme(_ context.Context, registry string) (auth.Scheme, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.schemes[registry]; ok {
		return s, nil
	}
	return auth.SchemeUnknown, errdef.ErrNotFound
}

func (c *tokenCache) GetToken(ctx context.Context, registry string, scheme auth.Scheme, scopes string) (string, error) {
	value, err := c.findToken(registry, scheme, scopes)
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		x.tried = value
	}
	return value, err
}

func (c *tokenCache) findToken(registry string, scheme auth.Scheme, scopes string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.tokens[tokenKey(registry, scheme, scopes)]; ok {
		if c.isFresh(t) {
			return t.value, nil
		}
		return "", errdef.ErrNotFound
	}
	prefix := tokenKey(registry, scheme, "")
	for key, t := range c.tokens {
		if wider, ok := strings.CutPrefix(key, prefix); ok && c.isFresh(t) && coversScopes(wider, scopes) {
			return t.value, nil
		}
	}
	return "", errdef.ErrNotFound
}

func (c *tokenCache) isFresh(t token) bool { return t.renew.IsZero() || c.now().Before(t.renew) }

func (c *tokenCache) Set(ctx context.Context, registry string, scheme auth.Scheme, scopes string, fetch func(context.Context) (string, error)) (string, error) {
	key := tokenKey(registry, scheme, scopes)
	if value, ok := c.newerToken(ctx, key); ok {
		return value, nil
	}
	c.mu.Lock()
	epoch := c.epoch
	c.mu.Unlock()
	for {
		v, err, shared := c.flight.Do(strconv.Itoa(epoch)+" "+key, func() (any, error) {
			value, err := fetch(ctx)
			if token, ok := c.alone(); err != nil && ok && scheme == auth.SchemeBasic {
				return token, nil
			}
			return value, err
		})
		if err != nil {
			if shared && ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
				continue // the caller that fetched for this one gave up, this one did not
			}
			return "", err
		}
		value := v.(string)
		c.secrets.add(value)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.epoch != epoch {
			return value, nil // of a replaced credential; if it is refused, the next attempt fetches a new one
		}
		if c.schemes[registry] != scheme {
			clear(c.tokens)
		}
		c.schemes[registry] = scheme
		c.tokens[key] = token{value: value, renew: renewAt(value, c.now())}
		return value, nil
	}
}

func (c *tokenCache) dropTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.schemes)
	clear(c.tokens)
	c.epoch++
}

// newerToken returns a token that came after the request: one of many refused ones fetches it.
func (c *tokenCache) newerToken(ctx context.Context, key string) (string, bool) {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.tokens[key]
	return t.value, ok && c.isFresh(t) && t.value != x.tried
}

// coversScopes reports whether a token with the scopes have is sufficient for want, both in the
// library's form: sorted "repository:name:action,action" separated by spaces.
func coversScopes(have, want string) bool {
	actions := map[string][]string{}
	for s := range strings.FieldsSeq(have) {
		if i := strings.LastIndexByte(s, ':'); i > 0 {
			actions[s[:i]] = strings.Split(s[i+1:], ",")
		}
	}
	for s := range strings.FieldsSeq(want) {
		i := strings.LastIndexByte(s, ':')
		if i <= 0 {
			return false
		}
		for a := range strings.SplitSeq(s[i+1:], ",") {
			if !slices.Contains(actions[s[:i]], a) {
				return false
			}
		}
	}
	return true
}

// renewAt returns when to renew a JWT, from its own times, so a wrong local clock does no harm.
func renewAt(value string, now time.Time) time.Time {
	var claims struct {
		Expires float64 `json:"exp"`
		Issued  float64 `json:"iat"`
		Begins  float64 `json:"nbf"`
	}
	if !readClaims(value, &claims) {
		return time.Time{}
	}
	start := max(claims.Issued, claims.Begins)
	life := time.Duration((claims.Expires - start) * float64(time.Second))
	if start == 0 || life <= 0 || life > 24*time.Hour {
		return time.Time{}
	}
	return now.Add(life - min(life/5, 30*time.Second))
}
