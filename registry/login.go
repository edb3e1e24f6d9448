// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Login lets people get a token with `tofu login`. The tools keep that token
// for ever and cannot renew it, so the server issues its own, after the issuer
// has said who somebody is. It keeps nothing: state, code and token are sealed.
//
// With Direct the tools log in at the issuer and send its access token, which
// has to be a JWT for an audience of [Access.Issuers]; ClientID is then a public
// client with the tools' redirects. ClientSecret, PublicURL, TTL and NotBefore
// mean nothing there.
type Login struct {
	Direct       bool
	Issuer       Issuer // Audiences is not used: the ID token is for ClientID
	ClientID     string
	ClientSecret string   // empty: a public client
	Scopes       []string // asked for besides openid; with Direct, all that are asked for
	PublicURL    string   // of this server; PublicURL + "/login/callback" is registered at the issuer

	TTL       time.Duration // of a token; 0: 7 days; at most 90
	NotBefore time.Time     // tokens issued before are void
}

// What the tools are told, and what they then do.
const (
	loginClient   = "okara-cli"
	loginPort     = 10000 // the first of the ports a tool listens on for the answer
	loginLastPort = 10010
	loginPrefix   = "okl_"

	stateTTL       = 10 * time.Minute
	codeTTL        = time.Minute
	defaultLogin   = 7 * day
	maxLogin       = 90 * day
	maxLoginToken  = 16 << 10
	maxLoginAnswer = 1 << 20
)

func (l *Login) validate() error {
	switch {
	case l == nil:
		return nil
	case l.Issuer.URL == "" || l.ClientID == "":
		return errors.New("login: the issuer and the client id are needed")
	case l.TTL > maxLogin:
		return fmt.Errorf("login: tokens of %v; at most 90 days", l.TTL)
	case l.Direct && l.ClientSecret != "":
		return errors.New("login: the tools, which log in at the issuer, keep no client secret")
	case l.Direct:
		return nil
	}
	u, err := url.Parse(l.PublicURL)
	if err != nil || u.Host == "" {
		return errors.New("login: the public URL of this server is needed")
	}
	return nil
}

// loginState travels through the issuer and back.
type loginState struct {
	Redirect  string `json:"r"`
	Challenge string `json:"c"`
	State     string `json:"s"` // of the tool
	Verifier  string `json:"v"`
	Nonce     string `json:"n"`
	Expires   int64  `json:"e"`
}

// loginAuthorize begins a login: the browser goes on to the issuer.
func (s *server) loginAuthorize(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if err := checkRedirect(q.Get("redirect_uri")); err != nil {
		return badRequest(err)
	}
	if q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 {
		return badRequest(errors.New("a login needs response_type=code and a code_challenge by S256"))
	}
	at, err := s.loginEndpoint(r.Context())
	if err != nil {
		return err
	}
	st := loginState{
		Redirect: q.Get("redirect_uri"), Challenge: q.Get("code_challenge"), State: q.Get("state"),
		Verifier: rand.Text() + rand.Text(), Nonce: rand.Text(), Expires: s.now().Add(stateTTL).Unix(),
	}
	sealed, err := s.keys.Seal("login state", st)
	if err != nil {
		return err
	}
	to, err := url.Parse(at.authorize)
	if err != nil {
		return err
	}
	ask := to.Query()
	ask.Set("response_type", "code")
	ask.Set("client_id", s.o.Login.ClientID)
	ask.Set("redirect_uri", s.callbackURL())
	ask.Set("scope", strings.Join(append([]string{"openid"}, s.o.Login.Scopes...), " "))
	ask.Set("state", sealed)
	ask.Set("nonce", st.Nonce)
	ask.Set("code_challenge", challengeOf(st.Verifier))
	ask.Set("code_challenge_method", "S256")
	to.RawQuery = ask.Encode()
	sendBrowser(w, to)
	return nil
}

func (s *server) callbackURL() string {
	return strings.TrimSuffix(s.o.Login.PublicURL, "/") + "/login/callback"
}

// checkRedirect allows what the tools listen on, and nothing else: the code
// would go anywhere.
func checkRedirect(redirect string) error {
	u, err := url.Parse(redirect)
	if err != nil {
		return errors.New("redirect_uri is not an URL")
	}
	port, err := strconv.Atoi(u.Port())
	host := u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1"
	if err != nil || u.Scheme != "http" || !host || u.Path != "/login" || strings.Contains(redirect, "#") || u.RawQuery != "" || u.User != nil || port < loginPort || port > loginLastPort {
		return fmt.Errorf("redirect_uri is not http://localhost:PORT/login with a port from %d to %d", loginPort, loginLastPort)
	}
	return nil
}

// challengeOf is the S256 challenge of a PKCE verifier (RFC 7636).
func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (s *server) loginEndpoint(ctx context.Context) (endpoint, error) {
	keys, err := s.issuers.keysFor(ctx, s.o.Login.Issuer, "")
	if err != nil {
		s.log.Error("issuer of logins not reached", "issuer", s.o.Login.Issuer.URL, "reason", err)
		return endpoint{}, &httpError{status: http.StatusServiceUnavailable, text: errIssuerDown.Error()}
	}
	return keys.endpoint, nil
}

// loginCode is what a code says, which the tool exchanges for a token.
type loginCode struct {
	identity
	ID        string `json:"i"`
	Redirect  string `json:"r"`
	Challenge string `json:"c"`
	Expires   int64  `json:"e"`
}

// loginCallback is where the issuer sends the browser back to. It goes on to
// the tool with a code.
func (s *server) loginCallback(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var st loginState
	if err := s.keys.Open("login state", q.Get("state"), &st); err != nil || s.now().Unix() >= st.Expires {
		return badRequest(errors.New("this login was not begun here, or took too long; log in again"))
	}
	if iss := q.Get("iss"); iss != "" && iss != s.o.Login.Issuer.URL { // RFC 9207, section 2.4
		return badRequest(errors.New("this answer is from another issuer than that of logins; log in again"))
	}
	to, err := url.Parse(st.Redirect)
	if err != nil {
		return err
	}
	answer := url.Values{"state": {st.State}}
	if e := q.Get("error"); e != "" {
		answer.Set("error", "access_denied")
	} else {
		id, err := s.identify(r.Context(), q.Get("code"), st)
		if err != nil {
			return err
		}
		code, err := s.keys.Seal("login code", loginCode{id, rand.Text(), st.Redirect, st.Challenge, s.now().Add(codeTTL).Unix()})
		if err != nil {
			return err
		}
		answer.Set("code", code)
	}
	to.RawQuery = answer.Encode()
	sendBrowser(w, to)
	return nil
}

// identify exchanges the issuer's code for an ID token and checks that.
func (s *server) identify(ctx context.Context, code string, st loginState) (identity, error) {
	at, err := s.loginEndpoint(ctx)
	if err != nil {
		return identity{}, err
	}
	l := s.o.Login
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {s.callbackURL()},
		"client_id": {l.ClientID}, "code_verifier": {st.Verifier},
	}
	if l.ClientSecret != "" {
		form.Set("client_secret", l.ClientSecret)
	}
	refused := &httpError{status: http.StatusForbidden, text: "the issuer did not confirm the login"}
	token, err := s.idToken(ctx, at.token, form)
	if err != nil {
		s.log.Warn("login refused", "issuer", l.Issuer.URL, "reason", err)
		return identity{}, refused
	}
	issuer := l.Issuer
	issuer.Audiences = []string{l.ClientID}
	id, err := s.issuers.check(ctx, issuer, token)
	if err != nil {
		s.log.Warn("login refused", "issuer", l.Issuer.URL, "reason", err)
		return identity{}, refused
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(st.Nonce)) != 1 {
		s.log.Warn("login refused", "issuer", l.Issuer.URL, "reason", "the nonce is of another login")
		return identity{}, refused
	}
	return id.slim(), nil
}

func (s *server) idToken(ctx context.Context, endpoint string, form url.Values) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	client := *s.issuers.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the form has secrets in it
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("token endpoint: %s", resp.Status)
	}
	var doc struct {
		IDToken string `json:"id_token"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, maxLoginAnswer)).Decode(&doc)
	if err == nil && doc.IDToken == "" {
		err = errors.New("token endpoint: no id_token")
	}
	return doc.IDToken, err
}

// slim keeps the claims that rules can ask for.
func (id identity) slim() identity {
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

// loginToken is what a token says.
type loginToken struct {
	identity
	Issued int64 `json:"t"`
}

// loginExchange gives the tool its token for a code and the verifier that only
// the tool knows.
func (s *server) loginExchange(w http.ResponseWriter, r *http.Request) error {
	if err := s.openBody(r, nil); err != nil { // the code in it is the right
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginToken)
	if err := r.ParseForm(); err != nil {
		return badRequest(errors.New("the form cannot be read"))
	}
	var code loginCode
	err := s.keys.Open("login code", r.PostForm.Get("code"), &code)
	verified := subtle.ConstantTimeCompare([]byte(challengeOf(r.PostForm.Get("code_verifier"))), []byte(code.Challenge)) == 1
	if err != nil || s.now().Unix() >= code.Expires || !verified || r.PostForm.Get("redirect_uri") != code.Redirect {
		return writeDocument(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
	}
	switch first, room := s.spent.first(code.ID, s.now(), time.Unix(code.Expires, 0)); {
	case !room:
		return &httpError{status: http.StatusServiceUnavailable, text: "too many logins at this moment"}
	case !first:
		s.logFor(r).Warn("login refused", "subject", code.Subject, "reason", "the code was used before")
		return writeDocument(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
	}
	sealed, err := s.keys.Seal("login token", loginToken{code.identity, s.now().Unix()})
	if err != nil {
		return err
	}
	if len(sealed) > maxLoginToken {
		return &httpError{status: http.StatusForbidden, text: "the issuer sends too many groups or claims for a token"}
	}
	return writeDocument(w, http.StatusOK, map[string]any{"access_token": loginPrefix + sealed, "token_type": "Bearer"})
}

// mostSpent bounds the codes that are remembered, and so the logins per minute.
const mostSpent = 4096

// spent are the codes that this process has exchanged, until they expire. What
// another replica has exchanged it does not know; there as here a code is worth
// nothing without the verifier, which only the tool has.
type spent struct {
	mu    sync.Mutex // guards until
	until map[string]time.Time
}

// first remembers a code and reports whether it was new. Without room nothing
// is remembered, and the code must not be taken.
func (s *spent) first(id string, now, until time.Time) (first, room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.until, func(_ string, t time.Time) bool { return !now.Before(t) })
	if _, ok := s.until[id]; ok {
		return false, true
	}
	if len(s.until) >= mostSpent {
		return false, false
	}
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	s.until[id] = until
	return true, true
}

// loggedIn reads a token of an earlier login at the issuer of logins. One that
// was issued by a clock that ran ahead is not good until its time has come:
// NotBefore could not revoke it.
func (s *server) loggedIn(token string) (identity, bool) {
	l := s.o.Login
	var t loginToken
	if l == nil || l.Direct || s.keys.Open("login token", strings.TrimPrefix(token, loginPrefix), &t) != nil {
		return identity{}, false
	}
	ttl := l.TTL
	if ttl == 0 {
		ttl = defaultLogin
	}
	now, issued := s.now(), time.Unix(t.Issued, 0)
	good := t.Issuer == l.Issuer.URL && !issued.After(now.Add(clockSkew)) && now.Before(issued.Add(ttl)) && !issued.Before(l.NotBefore)
	return t.identity, good
}

func sendBrowser(w http.ResponseWriter, to *url.URL) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", to.String())
	w.WriteHeader(http.StatusFound)
}

func badRequest(err error) error {
	return &httpError{status: http.StatusBadRequest, text: err.Error()}
}
