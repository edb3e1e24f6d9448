// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/seed-141914ff/okara/internal/cache"
)

// Login configures `tofu login`. The tools keep the token they get for ever and cannot
// renew it, so the server issues its own token after the issuer has identified the
// user. Nothing is stored: state, code and token are sealed.
//
// With Direct the tools log in at the issuer and send its access token, which must be a
// JWT for an audience of [Policy.Issuers]. ClientID is then a public client with the
// tools' redirect URIs, and TTL has no effect. ClientSecret must be empty.
type Login struct {
	Direct       bool
	Issuer       Issuer // Audiences is not used: the ID token is for ClientID
	ClientID     string
	ClientSecret string   // empty: a public client
	Scopes       []string // requested besides openid; with Direct, the only ones requested
	PublicURL    string   // of this server; PublicURL + "/login/callback" is registered at the issuer

	TTL time.Duration // of a token; 0: 7 days; at most 90
}

// Parameters that the tools are told, and bounds of logins.
const (
	loginClient   = "okara-cli"
	loginPort     = 10000 // the first of the ports a tool listens on for the answer
	loginLastPort = 10010
	loginPrefix   = "okl_"

	stateTTL      = 10 * time.Minute
	codeTTL       = time.Minute
	defaultLogin  = 7 * 24 * time.Hour
	maxLogin      = 90 * 24 * time.Hour
	maxLoginToken = 16 << 10
)

func (l *Login) validate() error {
	switch {
	case l == nil:
		return nil
	case l.Issuer.URL == "" || l.ClientID == "":
		return errors.New("login: issuer and client ID are required")
	case l.TTL > maxLogin:
		return fmt.Errorf("login: token lifetime %v exceeds 90 days", l.TTL)
	case l.Direct && l.ClientSecret != "":
		return errors.New("login: a direct login cannot use a client secret")
	case l.Direct:
		return nil
	}
	if u, err := url.Parse(l.PublicURL); err != nil || u.Host == "" {
		return errors.New("login: the public URL of this server is required")
	}
	return nil
}

// loginState is the sealed state parameter of a tool's login; the issuer sends it back.
type loginState struct {
	Redirect  string `json:"r"`
	Challenge string `json:"c"`
	State     string `json:"s"` // of the tool
	Verifier  string `json:"v"`
	Nonce     string `json:"n"`
	Expires   int64  `json:"e"`
}

// Authorize begins a login: it redirects the browser to the issuer.
func (g ToolLogins) Authorize(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if err := checkRedirect(q.Get("redirect_uri")); err != nil {
		return badLogin(err)
	}
	if q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 {
		return badLogin(errors.New("a login requires response_type=code and an S256 code_challenge"))
	}
	st := loginState{
		Redirect: q.Get("redirect_uri"), Challenge: q.Get("code_challenge"), State: q.Get("state"),
		Verifier: rand.Text() + rand.Text(), Nonce: rand.Text(), Expires: g.guard.now().Add(stateTTL).Unix(),
	}
	sealed, err := g.guard.o.Keyring.Seal("login state", st)
	if err != nil {
		return err
	}
	to, err := g.dialog.redirectURL(r.Context(), client{id: g.guard.o.Login.ClientID}, sealed, st.Nonce, st.Verifier)
	if err != nil {
		return err
	}
	sendBrowser(w, to)
	return nil
}

// ToolLogins lets tools log in, see [Login].
type ToolLogins struct {
	guard  *Guard
	dialog dialog
}

// ToolLogins returns the logins of tools; [ToolLogins.On] reports whether they are enabled.
func (g *Guard) ToolLogins() ToolLogins { return ToolLogins{g, newDialog(g)} }

// dialog is the exchange between this server and the login issuer.
type dialog struct {
	login  *Login
	policy *atomic.Pointer[activePolicy]
	log    *slog.Logger
}

func newDialog(g *Guard) dialog { return dialog{g.o.Login, &g.policy, g.log} }

// client identifies this server to the login issuer.
type client struct{ id, secret string }

// redirectURL returns the URL at the issuer where the user logs in with a browser.
func (d dialog) redirectURL(ctx context.Context, by client, state, nonce, verifier string) (string, error) {
	c, err := d.oauthConfig(ctx, by)
	if err != nil {
		return "", err
	}
	return c.AuthCodeURL(state, oauth2.SetAuthURLParam("nonce", nonce), oauth2.S256ChallengeOption(verifier)), nil
}

func (d dialog) oauthConfig(ctx context.Context, by client) (*oauth2.Config, error) {
	at, err := d.issuerEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	scopes := slices.DeleteFunc(slices.Clone(d.login.Scopes), func(s string) bool { return s == oidc.ScopeOpenID })
	return &oauth2.Config{
		ClientID: by.id, ClientSecret: by.secret, RedirectURL: strings.TrimSuffix(d.login.PublicURL, "/") + "/login/callback", Scopes: append([]string{oidc.ScopeOpenID}, scopes...),
		Endpoint: oauth2.Endpoint{AuthURL: at.authorize, TokenURL: at.token, AuthStyle: oauth2.AuthStyleInParams},
	}, nil
}

// checkRedirect accepts only the addresses on which the tools listen: the code goes nowhere else.
func checkRedirect(redirect string) error {
	u, err := url.Parse(redirect)
	if err != nil {
		return errors.New("redirect_uri is not a URL")
	}
	port, err := strconv.Atoi(u.Port())
	portOfTool := err == nil && port >= loginPort && port <= loginLastPort
	thisMachine := u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1"
	loginPage := u.Scheme == "http" && thisMachine && u.Path == "/login"
	hasMore := strings.Contains(redirect, "#") || u.RawQuery != "" || u.User != nil
	if !portOfTool || !loginPage || hasMore {
		return fmt.Errorf("redirect_uri is not http://localhost:PORT/login with a port from %d to %d", loginPort, loginLastPort)
	}
	return nil
}

// Service returns the login section of the tools' discovery document: this server at base, or the
// issuer. A [Login] must be configured.
func (g ToolLogins) Service(ctx context.Context, base string) (map[string]any, error) {
	doc := map[string]any{
		"client": loginClient, "grant_types": []string{"authz_code"}, "ports": []int{loginPort, loginLastPort},
		"authz": base + "/login/authorize", "token": base + "/login/token",
	}
	l := g.guard.o.Login
	if !l.Direct {
		return doc, nil
	}
	ctx, cancel := context.WithTimeout(ctx, cache.Patience)
	defer cancel()
	at, err := g.dialog.issuerEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	doc["client"] = l.ClientID
	doc["authz"] = at.authorize
	doc["token"] = at.token
	if len(l.Scopes) > 0 {
		doc["scopes"] = l.Scopes
	}
	return doc, nil
}

func (d dialog) issuerEndpoint(ctx context.Context) (endpoint, error) {
	keys, err := d.policy.Load().issuers.keysFor(ctx, d.login.Issuer, "")
	if err != nil {
		d.log.Error("login issuer unreachable", "issuer", d.login.Issuer.URL, "reason", err)
		return endpoint{}, &Refusal{Status: http.StatusServiceUnavailable, Text: errIssuerDown.Error()}
	}
	return keys.endpoint, nil
}

// loginCode is the sealed content of the code that the tool exchanges for a token.
type loginCode struct {
	identity
	ID        string `json:"i"`
	Redirect  string `json:"r"`
	Challenge string `json:"c"`
	Expires   int64  `json:"e"`
}

// Callback redirects the browser that the issuer sent back to the tool, with a code.
func (g ToolLogins) Callback(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var st loginState
	if err := g.guard.o.Keyring.Open("login state", q.Get("state"), &st); err != nil || g.guard.now().Unix() >= st.Expires {
		return badLogin(errors.New("login was not started here, or timed out; log in again"))
	}
	if iss := q.Get("iss"); iss != "" && iss != g.guard.o.Login.Issuer.URL { // RFC 9207, section 2.4
		return badLogin(errors.New("this response is from a different issuer than logins use; log in again"))
	}
	to, err := url.Parse(st.Redirect)
	if err != nil {
		return err
	}
	answer := url.Values{"state": {st.State}}
	if e := q.Get("error"); e != "" {
		answer.Set("error", "access_denied")
	} else {
		id, _, err := g.dialog.exchangeCode(r.Context(), client{g.guard.o.Login.ClientID, g.guard.o.Login.ClientSecret}, q.Get("code"), st.Verifier, st.Nonce)
		if err != nil {
			return err
		}
		code, err := g.guard.o.Keyring.Seal("login code", loginCode{id.slimClaims(), rand.Text(), st.Redirect, st.Challenge, g.guard.now().Add(codeTTL).Unix()})
		if err != nil {
			return err
		}
		answer.Set("code", code)
	}
	to.RawQuery = answer.Encode()
	sendBrowser(w, to.String())
	return nil
}

// exchangeCode exchanges the issuer's code for an ID token and verifies it.
func (d dialog) exchangeCode(ctx context.Context, by client, code, verifier, nonce string) (identity, string, error) {
	c, err := d.oauthConfig(ctx, by)
	if err != nil {
		return identity{}, "", err
	}
	token, err := d.idToken(ctx, c, code, verifier)
	var id identity
	if err == nil {
		now := d.policy.Load()
		id, err = now.issuers.checkToken(ctx, d.login.issuerFor(now, by), token)
	}
	if err == nil && subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1 {
		err = errors.New("the nonce belongs to another login")
	}
	if err != nil {
		d.log.Warn("login refused", "issuer", d.login.Issuer.URL, "reason", err)
		return identity{}, "", &Refusal{Status: http.StatusForbidden, Text: "the issuer did not confirm the login"}
	}
	return id, token, nil
}

func (d dialog) idToken(ctx context.Context, c *oauth2.Config, code, verifier string) (string, error) {
	client := *d.policy.Load().issuers.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the form has secrets in it
	got, err := c.Exchange(context.WithValue(ctx, oauth2.HTTPClient, &client), code, oauth2.VerifierOption(verifier))
	if no, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return "", fmt.Errorf("token endpoint: %s", no.Response.Status) // its body may have secrets in it
	}
	if err != nil {
		return "", err
	}
	token, _ := got.Extra("id_token").(string)
	if token == "" {
		return "", errors.New("token endpoint: no id_token")
	}
	return token, nil
}

// slimClaims keeps only the claims that rules can use.
func (id identity) slimClaims() identity {
	claims := map[string]any{}
	for name, v := range id.Claims {
		standard := slices.Contains([]string{"iss", "aud", "sub", "nonce", "at_hash", "c_hash", "sid", "picture"}, name)
		if _, ok := claimText(v); ok && !standard {
			claims[name] = v
		}
	}
	id.Claims = claims
	return id
}

// loginToken is the sealed content of a token.
type loginToken struct {
	identity
	Issued int64 `json:"t"`
}

// Exchange gives the tool its token for a code and the verifier, which only the tool knows.
func (g ToolLogins) Exchange(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginToken)
	if err := r.ParseForm(); err != nil {
		return badLogin(errors.New("invalid form"))
	}
	var code loginCode
	err := g.guard.o.Keyring.Open("login code", r.PostForm.Get("code"), &code)
	verified := subtle.ConstantTimeCompare([]byte(oauth2.S256ChallengeFromVerifier(r.PostForm.Get("code_verifier"))), []byte(code.Challenge)) == 1
	if err != nil || g.guard.now().Unix() >= code.Expires || !verified || r.PostForm.Get("redirect_uri") != code.Redirect {
		return sendDocument(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
	}
	switch first, hasRoom := g.guard.spent.rememberCode(code.ID, g.guard.now(), time.Unix(code.Expires, 0)); {
	case !hasRoom:
		return &Refusal{Status: http.StatusServiceUnavailable, Text: "too many logins, try again later"}
	case !first:
		g.guard.logFor(r).Warn("login refused", "subject", code.Subject, "reason", "code already used")
		return sendDocument(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
	}
	sealed, err := g.guard.o.Keyring.Seal("login token", loginToken{code.identity, g.guard.now().Unix()})
	if err != nil {
		return err
	}
	if len(sealed) > maxLoginToken {
		return &Refusal{Status: http.StatusForbidden, Text: "too many groups or claims from the issuer for a token"}
	}
	return sendDocument(w, http.StatusOK, map[string]any{"access_token": loginPrefix + sealed, "token_type": "Bearer"})
}

// maxSpent bounds the remembered codes, and so the logins per minute.
const maxSpent = 4096

// spent holds the codes that this process exchanged, until they expire. Those exchanged at other
// replicas are not known here, and need the verifier as well.
type spent struct {
	mu    sync.Mutex // guards until
	until map[string]time.Time
}

// rememberCode reports whether a code was new. Without hasRoom it must not be accepted.
func (s *spent) rememberCode(id string, now, until time.Time) (first, hasRoom bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.until, func(_ string, t time.Time) bool { return !now.Before(t) })
	if _, ok := s.until[id]; ok {
		return false, true
	}
	if len(s.until) >= maxSpent {
		return false, false
	}
	s.until[id] = until
	return true, true
}

// loggedIn reads a token of an earlier login. One from the future is not valid yet: NotBefore could
// not revoke it.
func (g *Guard) loggedIn(token string, p *activePolicy) (identity, bool) {
	l := g.o.Login
	var t loginToken
	if l == nil || l.Direct || g.o.Keyring.Open("login token", strings.TrimPrefix(token, loginPrefix), &t) != nil {
		return identity{}, false
	}
	ttl := cmp.Or(l.TTL, defaultLogin)
	now := g.now()
	issued := time.Unix(t.Issued, 0)
	good := t.Issuer == l.Issuer.URL && !issued.After(now.Add(clockSkew)) && now.Before(issued.Add(ttl)) && !p.isLoginVoid(t.Issuer, t.Subject, issued)
	t.identity.Issued = t.Issued
	t.ends = issued.Add(ttl)
	return t.identity, good
}

func sendBrowser(w http.ResponseWriter, to string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", to)
	w.WriteHeader(http.StatusFound)
}

func badLogin(err error) error { return &Refusal{Status: http.StatusBadRequest, Text: err.Error()} }

// sendDocument sends a JSON document that must not be cached.
func sendDocument(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client is gone
	return nil
}
