// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/rights"
)

// Issuer is an OpenID Connect issuer of accepted tokens: for users, CI systems or service accounts.
type Issuer struct {
	URL         string   // exactly as in the tokens' iss
	Audiences   []string // one of them must be in aud
	GroupsClaim string   // empty: "groups"

	// KeysFile is a JWKS document, read again every 2 seconds at most: nothing is fetched, and URL may
	// be any string. "": keys are fetched.
	KeysFile  string
	Transport http.RoundTripper // for fetching the keys; nil: that of the [Guard]
}

// Rule gives rights to tokens that meet all its conditions. Rights of rules add up.
type Rule struct {
	Name   string // for the audit log
	Issuer string // empty: any configured one
	Groups []string
	Claims map[string]string // claim to glob over its value
	Allow  []rights.Scope    // their globs may name claims, see [rights.ParseRuleScope]
}

// fillRights fills in claims of an identity; false if it lacks one.
func (r Rule) fillRights(id identity) ([]rights.Scope, bool) {
	out := make([]rights.Scope, len(r.Allow))
	for i, scope := range r.Allow {
		var err error
		if out[i], err = scope.Fill(func(name string) (string, bool) {
			text, ok := id.Claims[name].(string)
			return text, ok
		}); err != nil {
			return nil, false
		}
	}
	return out, true
}

const (
	keysFresh    = 15 * time.Minute // how long the keys of an issuer are used without a check
	keysGrace    = 24 * time.Hour   // how long they are used if the issuer does not answer
	keysAgain    = time.Minute      // minimum time between fetches because of an unknown key
	clockSkew    = time.Minute
	keysFileRead = 2 * time.Second // how long keys from a file are used without reading it again
	maxKeys      = 1 << 20         // bytes of a JWKS document
	maxTokenSize = 16 << 10
	oidcTimeout  = 5 * time.Second
)

type issuerKeys struct {
	ids      []string
	set      *oidc.StaticKeySet
	endpoint endpoint
}

// endpoint has the URLs of an issuer that a login needs.
type endpoint struct{ authorize, token string }

// issuers checks tokens, with cached keys while an issuer is down.
type issuers struct {
	list   []Issuer
	client *http.Client
	now    func() time.Time
	keys   *cache.Cache[*issuerKeys]
}

func newIssuers(list []Issuer, transport http.RoundTripper, now func() time.Time) (*issuers, error) {
	if err := checkIssuers(list); err != nil {
		return nil, err
	}
	size := func(*issuerKeys) int { return 4096 }
	return &issuers{
		list: list, now: now, client: &http.Client{Transport: transport, Timeout: oidcTimeout},
		keys: cache.New("jwks", 1<<20, size, now, func(string, string) {}),
	}, nil
}

// withIssuers returns a checker for another list of issuers that shares the cached keys.
func (s *issuers) withIssuers(list []Issuer) (*issuers, error) {
	if err := checkIssuers(list); err != nil {
		return nil, err
	}
	other := *s
	other.list = list
	return &other, nil
}

func checkIssuers(list []Issuer) error {
	for _, i := range list {
		if i.URL == "" || len(i.Audiences) == 0 {
			return fmt.Errorf("issuer %q: a URL and at least one audience are required", i.URL)
		}
	}
	return nil
}

// errIssuerDown means that a token could be neither accepted nor refused.
var errIssuerDown = errors.New("no response from the issuer of the token")

// find returns the issuer that a token names; nothing else of it is read yet.
func (s *issuers) find(token string) (Issuer, bool) {
	part := strings.Split(token, ".")
	if len(part) != 3 || len(token) > maxTokenSize {
		return Issuer{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(part[1])
	if err != nil {
		return Issuer{}, false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return Issuer{}, false
	}
	i := slices.IndexFunc(s.list, func(i Issuer) bool { return i.URL == claims.Issuer })
	if i < 0 {
		return Issuer{}, false
	}
	return s.list[i], true
}

// checkToken verifies a token: signature, algorithm, issuer, audience and times.
func (s *issuers) checkToken(ctx context.Context, i Issuer, token string) (identity, error) {
	return s.verify(ctx, i, token, &oidc.Config{})
}

// checkProof is checkToken for an expired one too, a session's proof: the caller judges its age.
func (s *issuers) checkProof(ctx context.Context, i Issuer, token string) (identity, error) {
	if len(token) > maxTokenSize {
		return identity{}, errors.New("the token is too large")
	}
	return s.verify(ctx, i, token, &oidc.Config{SkipExpiryCheck: true})
}

func (s *issuers) verify(ctx context.Context, i Issuer, token string, config *oidc.Config) (identity, error) {
	parsed, err := jose.ParseSignedCompact(token, acceptedAlgorithms())
	if err != nil || len(parsed.Signatures) != 1 {
		return identity{}, errors.New("not a token signed with an accepted algorithm")
	}
	keys, err := s.keysFor(ctx, i, parsed.Signatures[0].Header.KeyID)
	if err != nil {
		return identity{}, fmt.Errorf("%w: %w", errIssuerDown, err)
	}
	names := make([]string, 0, len(acceptedAlgorithms()))
	for _, a := range acceptedAlgorithms() {
		names = append(names, string(a))
	}
	// The library allows no clock skew at the expiry of a token, so it gets a clock
	// that is behind by the skew.
	config.SkipClientIDCheck = true
	config.SupportedSigningAlgs = names
	config.Now = func() time.Time { return s.now().Add(-clockSkew) }
	verifier := oidc.NewVerifier(i.URL, keys.set, config)
	t, err := verifier.Verify(ctx, token)
	if err != nil {
		return identity{}, err
	}
	if !slices.ContainsFunc(t.Audience, func(a string) bool { return slices.Contains(i.Audiences, a) }) {
		return identity{}, fmt.Errorf("audience %v is not for this server", t.Audience)
	}
	id := identity{Issuer: i.URL, Subject: t.Subject, Nonce: t.Nonce, Issued: t.IssuedAt.Unix(), ends: t.Expiry.Add(clockSkew)}
	if err := t.Claims(&id.Claims); err != nil {
		return identity{}, err
	}
	if err := errors.Join(checkNames(parsed.UnsafePayloadWithoutVerification()), s.checkClaims(id.Claims)); err != nil {
		return identity{}, err
	}
	id.Groups = groupsOf(id.Claims, i.GroupsClaim)
	return id, nil
}

// checkNames refuses claims that readers differ about: a name twice (RFC 7519, section 4), or one
// that the library reads, in other letters, which it takes as well.
func checkNames(claims []byte) error {
	d := json.NewDecoder(bytes.NewReader(claims))
	if _, err := d.Token(); err != nil { // {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		var value json.RawMessage
		t, err := d.Token()
		if err := errors.Join(err, d.Decode(&value)); err != nil {
			return err
		}
		name := fmt.Sprint(t)
		if seen[name] || slices.ContainsFunc([]string{"iss", "sub", "aud", "exp", "nbf", "iat", "nonce", "at_hash"}, func(of string) bool { return of != name && strings.EqualFold(of, name) }) {
			return fmt.Errorf("the token has the claim %q twice, or in different case", name)
		}
		seen[name] = true
	}
	return nil
}

// checkClaims refuses a token without subject, from the future, or with a time that is no number
// (RFC 7519, section 2).
func (s *issuers) checkClaims(claims map[string]any) error {
	if subject, _ := claims["sub"].(string); subject == "" {
		return errors.New("the token has no subject")
	}
	for _, name := range []string{"exp", "nbf", "iat"} {
		value, given := claims[name]
		if at, number := value.(float64); given && !number {
			return fmt.Errorf("%s of the token is not a number", name)
		} else if name == "iat" && at > float64(s.now().Add(clockSkew).Unix()) {
			return errors.New("the token was issued in the future")
		}
	}
	return nil
}

// acceptedAlgorithms are those with public keys: no "none", no HMAC.
func acceptedAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.EdDSA,
	}
}

// keysFor returns an issuer's keys, fetched again, once a minute at most, for an unknown id.
func (s *issuers) keysFor(ctx context.Context, i Issuer, id string) (*issuerKeys, error) {
	if i.KeysFile != "" {
		return s.keys.Get(ctx, "file "+i.URL, cache.Policy{Fresh: keysFileRead, Stale: keysGrace}, func(context.Context, *issuerKeys, bool) (*issuerKeys, error) {
			return readKeysFile(i.KeysFile)
		})
	}
	keys, err := s.keys.Get(ctx, i.URL, cache.Policy{Fresh: keysFresh, Grace: keysGrace, Stale: cache.Forever}, s.fetch(i))
	if err != nil || id == "" || slices.Contains(keys.ids, id) {
		return keys, err
	}
	return s.keys.Get(ctx, i.URL, cache.Policy{Fresh: keysAgain, Stale: cache.Forever}, s.fetch(i))
}

func (s *issuers) fetch(i Issuer) cache.Loader[*issuerKeys] {
	return func(ctx context.Context, _ *issuerKeys, _ bool) (*issuerKeys, error) {
		client := s.client
		if i.Transport != nil {
			client = &http.Client{Transport: i.Transport, Timeout: oidcTimeout}
		}
		p, err := oidc.NewProvider(oidc.ClientContext(ctx, client), i.URL)
		if err != nil {
			return nil, fmt.Errorf("issuer %s: %w", i.URL, err)
		}
		var doc struct {
			Keys string `json:"jwks_uri"`
		}
		if err := p.Claims(&doc); err != nil {
			return nil, fmt.Errorf("issuer %s: %w", i.URL, err)
		}
		var set jose.JSONWebKeySet
		if err := readDocument(ctx, client, doc.Keys, &set); err != nil {
			return nil, fmt.Errorf("keys of issuer %s: %w", i.URL, err)
		}
		keys := keysOf(set)
		keys.endpoint = endpoint{p.Endpoint().AuthURL, p.Endpoint().TokenURL}
		return keys, nil
	}
}

// keysOf returns the public keys of a set that are not for encryption.
func keysOf(set jose.JSONWebKeySet) *issuerKeys {
	keys := &issuerKeys{set: &oidc.StaticKeySet{}}
	for _, k := range set.Keys {
		if k.IsPublic() && k.Use != "enc" {
			keys.ids = append(keys.ids, k.KeyID)
			keys.set.PublicKeys = append(keys.set.PublicKeys, k.Key)
		}
	}
	return keys
}

// readKeysFile reads the file [Issuer].KeysFile.
func readKeysFile(file string) (*issuerKeys, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeys+1))
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return keys, nil
}

// parseKeys reads a JWKS document with at least one public key.
func parseKeys(b []byte) (*issuerKeys, error) {
	if len(b) > maxKeys {
		return nil, fmt.Errorf("key file is larger than %d bytes", maxKeys)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	keys := keysOf(set)
	if len(keys.ids) == 0 {
		return nil, errors.New("no public signing key")
	}
	return keys, nil
}

func readDocument(ctx context.Context, client *http.Client, url string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxKeys)).Decode(v)
}

// identity is the identity that a token proves.
type identity struct {
	Issuer  string         `json:"iss"`
	Subject string         `json:"sub"`
	Groups  []string       `json:"groups,omitempty"`
	Claims  map[string]any `json:"claims,omitempty"`
	Nonce   string         `json:"-"`
	Issued  int64          `json:"-"` // Unix time at which the issuer stated all this; far in the past if the token has no time
	ends    time.Time      // of the token
}

func (id identity) displayName() string {
	for _, name := range []string{"name", "preferred_username", "email"} {
		if text, _ := id.Claims[name].(string); text != "" {
			return text
		}
	}
	return id.Subject
}

func (id identity) textClaims() map[string]string {
	texts := map[string]string{}
	for name, v := range id.Claims {
		if text, ok := v.(string); ok {
			texts[name] = text
		} else if name == "email_verified" && v == true {
			texts[name] = "true"
		}
	}
	return texts
}

func groupsOf(claims map[string]any, name string) []string {
	name = cmp.Or(name, "groups")
	var groups []string
	switch v := claims[name].(type) {
	case string: // some issuers send a single group as a string
		groups = []string{v}
	case []any:
		for _, g := range v {
			if text, ok := g.(string); ok {
				groups = append(groups, text)
			}
		}
	}
	return groups
}

// scopes returns the rights that the rules give, each with its rule.
func (id identity) scopes(rules []Rule) (scopes []rights.Scope, names []string) {
	for _, rule := range rules {
		if !rule.matchesIdentity(id) {
			continue
		}
		allow, ok := rule.fillRights(id)
		if !ok {
			continue
		}
		for _, scope := range allow {
			scopes = append(scopes, scope)
			names = append(names, rule.Name)
		}
	}
	return scopes, names
}

// matchesIdentity reports whether an identity meets every condition; of groups one is enough.
func (r Rule) matchesIdentity(id identity) bool {
	if r.Issuer != "" && r.Issuer != id.Issuer {
		return false
	}
	if len(r.Groups) > 0 && !slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(id.Groups, g) }) {
		return false
	}
	for name, glob := range r.Claims {
		if value, ok := claimText(id.Claims[name]); !ok || !addr.Match(glob, value) {
			return false
		}
	}
	return true
}

func claimText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// origin returns the repository, revision and ref in a CI system's token, or nil.
func (id identity) origin() map[string]string {
	text := func(name string) string { v, _ := claimText(id.Claims[name]); return v }
	page := func(of, job string) string {
		if job == "" {
			return ""
		}
		return of + job
	}
	ref := strings.TrimPrefix(strings.TrimPrefix(text("ref"), "refs/tags/"), "refs/heads/")
	switch {
	case id.Issuer == "https://token.actions.githubusercontent.com" && text("repository") != "":
		return map[string]string{"source": "https://github.com/" + text("repository"), "revision": text("sha"), "ref": ref, "run": page("https://github.com/"+text("repository")+"/actions/runs/", text("run_id"))}
	case text("project_path") != "" && text("sha") != "": // GitLab
		return map[string]string{"source": id.Issuer + "/" + text("project_path"), "revision": text("sha"), "ref": ref, "run": page(id.Issuer+"/"+text("project_path")+"/-/jobs/", text("job_id"))}
	}
	return nil
}
