// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/text"
)

const (
	browserPurpose = "login of a browser"
	loginCookie    = "login"
	maxName        = 128 // bytes of a display name
)

// Way is how users log in to the pages.
type Way int

const (
	NoWay    Way = iota
	ByToken      // with a static token
	ByIssuer     // at the login issuer
)

// BrowserLogins begins and ends browser sessions, see [Sessions].
type BrowserLogins struct {
	guard  *Guard
	dialog dialog
}

// BrowserLogins returns the logins at the pages.
func (g *Guard) BrowserLogins() BrowserLogins { return BrowserLogins{g, newDialog(g)} }

// Way returns how users log in under the current policy.
func (g BrowserLogins) Way() Way {
	if g.guard.o.Sessions == nil {
		return NoWay
	}
	if _, ok := g.guard.o.pagesClient(); ok {
		return ByIssuer
	}
	if g.guard.o.Login != nil && g.guard.o.Login.Direct || len(g.guard.policy.Load().Tokens) > 0 {
		return ByToken
	}
	return NoWay
}

// TakeTokens reports whether users may log in with a static token.
func (g BrowserLogins) TakeTokens() bool {
	switch g.Way() {
	case ByToken:
		return true
	case ByIssuer:
		return g.guard.o.Sessions.Tokens && len(g.guard.policy.Load().Tokens) > 0
	}
	return false
}

// Issuer returns the URL of the login issuer, for logins [ByIssuer].
func (g BrowserLogins) Issuer() string { return g.guard.o.Login.Issuer.URL }

// On reports whether this server supports `tofu login`.
func (g ToolLogins) On() bool {
	return g.guard.o.Login != nil && (g.guard.o.Sessions == nil || !g.guard.o.Sessions.Portal)
}

// pagesClient returns the OAuth client of the pages at the login issuer; false: none.
func (o Options) pagesClient() (client, bool) {
	l := o.Login
	s := o.Sessions
	switch {
	case l == nil || s == nil:
		return client{}, false
	case !l.Direct:
		return client{l.ClientID, l.ClientSecret}, true
	}
	return client{s.ClientID, s.ClientSecret}, s.ClientID != ""
}

func (l *Login) issuerFor(p *activePolicy, by client) Issuer {
	i := l.Issuer
	if l.Direct {
		for _, known := range p.Issuers {
			if known.URL == i.URL {
				i.GroupsClaim = known.GroupsClaim
			}
		}
	}
	i.Audiences = []string{by.id}
	return i
}

// browserState is the sealed state parameter of a login; the issuer sends it back.
type browserState struct {
	Return   string `json:"r"`
	Verifier string `json:"v"`
	Nonce    string `json:"n"`
	Expires  int64  `json:"e"`
}

// Begin begins a login, and returns the issuer's URL to go to. The cookie binds it to this browser,
// which cannot complete a login that another began.
func (g BrowserLogins) Begin(r *http.Request, back string) (to string, cookie *http.Cookie, err error) {
	by, ok := g.guard.o.pagesClient()
	if !ok {
		return "", nil, badLogin(errors.New("no login issuer for browsers"))
	}
	st := browserState{Return: back, Verifier: rand.Text() + rand.Text(), Nonce: rand.Text(), Expires: g.guard.now().Add(stateTTL).Unix()}
	sealed, err := g.guard.o.Sessions.Keyring.Seal(browserPurpose, st)
	if err != nil {
		return "", nil, err
	}
	to, err = g.dialog.redirectURL(r.Context(), by, sealed, st.Nonce, st.Verifier)
	if err != nil {
		return "", nil, err
	}
	return to, g.guard.o.Sessions.Cookie(r, loginCookie, stateHash(sealed), stateTTL), nil
}

func stateHash(state string) string {
	sum := sha256.Sum256([]byte(state))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Owns reports whether a callback belongs to a login at the pages.
func (g BrowserLogins) Owns(r *http.Request) bool {
	s := g.guard.o.Sessions
	var st browserState
	return s != nil && s.Keyring.Open(browserPurpose, r.URL.Query().Get("state"), &st) == nil
}

// LoggedIn is a new session.
type LoggedIn struct {
	Caller
	Back    string         // the argument of [BrowserLogins.Begin]
	Cookies []*http.Cookie // sets those of the session, deletes those of the login
}

// Callback completes a login at the issuer.
func (g BrowserLogins) Callback(r *http.Request) (LoggedIn, error) {
	q := r.URL.Query()
	s := g.guard.o.Sessions
	by, ok := g.guard.o.pagesClient()
	if !ok {
		return LoggedIn{}, badLogin(errors.New("no login issuer for browsers"))
	}
	var st browserState
	sealed := q.Get("state")
	if err := s.Keyring.Open(browserPurpose, sealed, &st); err != nil || g.guard.now().Unix() >= st.Expires {
		return LoggedIn{}, badBrowserLogin("login was not started here, or timed out")
	}
	mine := r.CookiesNamed(s.name(r, loginCookie))
	if len(mine) != 1 || subtle.ConstantTimeCompare([]byte(mine[0].Value), []byte(stateHash(sealed))) != 1 {
		return LoggedIn{}, badBrowserLogin("login was not started in this browser, or was replaced by a later one")
	}
	id, token, err := g.identityOfAnswer(r, q, by, st)
	if err != nil {
		g.recordLogin(r, Caller{Mode: "session"}, "")
		if no, ok := errors.AsType[*Refusal](err); ok {
			no.Login = true
		}
		return LoggedIn{}, err
	}
	now := g.guard.policy.Load()
	v := session{identity: s.keepClaims(id, now.Rules), Name: text.Clip(id.displayName(), maxName), Issued: g.guard.now().Unix()}
	if s.Portal {
		v.Proof = token
	}
	c, err := g.guard.callerOfSession(now, v)
	if err != nil {
		return LoggedIn{}, err
	}
	in, err := g.openSession(r, c, v)
	in.Back = st.Return
	in.Cookies = append(in.Cookies, s.Cookie(r, loginCookie, "", -1))
	return in, err
}

func badBrowserLogin(text string) error {
	return &Refusal{Status: http.StatusBadRequest, Text: text, Login: true}
}

// identityOfAnswer returns the identity, and the ID token, from the issuer's answer to a login.
func (g BrowserLogins) identityOfAnswer(r *http.Request, q url.Values, by client, st browserState) (identity, string, error) {
	if iss := q.Get("iss"); iss != "" && iss != g.guard.o.Login.Issuer.URL { // RFC 9207, section 2.4
		return identity{}, "", badBrowserLogin("this response is from a different issuer than logins use")
	}
	if q.Get("error") != "" {
		return identity{}, "", &Refusal{Status: http.StatusForbidden, Text: "login denied by the issuer"}
	}
	return g.dialog.exchangeCode(r.Context(), by, q.Get("code"), st.Verifier, st.Nonce)
}

// ByToken begins a session with a static token.
func (g BrowserLogins) ByToken(r *http.Request, token string) (LoggedIn, error) {
	now := g.guard.policy.Load()
	s := g.guard.o.Sessions
	if !g.TakeTokens() {
		return LoggedIn{}, &Refusal{Status: http.StatusNotFound, Text: "login with a token is not enabled here"}
	}
	c, ok := now.staticCaller(token, g.guard.now())
	if !ok {
		g.recordLogin(r, Caller{Mode: "refused"}, "")
		return LoggedIn{}, &Refusal{Status: http.StatusUnauthorized, Text: "the token is not valid here, or has expired"}
	}
	id, hash, err := statictoken.Hash(token)
	if err != nil {
		return LoggedIn{}, err
	}
	v := session{Token: id, Hash: hash[:], Issued: g.guard.now().Unix()}
	if s.Portal {
		v.Proof = token
	}
	return g.openSession(r, c, v)
}

// openSession seals a session and records the login.
func (g BrowserLogins) openSession(r *http.Request, c Caller, v session) (LoggedIn, error) {
	s := g.guard.o.Sessions
	c.Until = time.Unix(v.Issued, 0).Add(s.ttl())
	sealed, err := s.Keyring.Seal(s.purpose(), v)
	if err != nil {
		return LoggedIn{}, err
	}
	cookies, err := s.cookies(r, sealed, s.ttl())
	if err != nil {
		g.recordLogin(r, c, "")
		return LoggedIn{}, err
	}
	g.recordLogin(r, c, "login")
	return LoggedIn{Caller: c, Cookies: cookies}, nil
}

// End records a logout, and returns what deletes the session in the browser; a copy stays valid.
func (g BrowserLogins) End(r *http.Request) []*http.Cookie {
	if g.guard.o.Sessions == nil {
		return nil
	}
	if c, found, err := g.guard.session(r, g.guard.policy.Load()); found && err == nil {
		g.recordLogin(r, c, "logout")
	}
	return g.guard.o.Sessions.Forget(r)
}

// recordLogin writes a login or logout to the audit log; "" stands for a refused login.
func (g BrowserLogins) recordLogin(r *http.Request, c Caller, what rights.Action) {
	right := rights.Right{Action: rights.LogIn, Kind: rights.AnyKind}
	if what == "" {
		g.guard.Record(r, Record{Caller: c, Right: right})
		return
	}
	grant := Grant{Caller: c, guard: g.guard, r: r, right: right, rule: "session"}
	grant.Record("", Change{Action: what, Status: http.StatusSeeOther})
}

// RuleRight is a scope and the rule that gives it.
type RuleRight struct {
	Scope rights.Scope
	Rule  string // "": the token itself gives it, or it is a right of anonymous callers
}

// Rights returns all scopes of the caller with their rules.
func (c Caller) Rights() []RuleRight {
	all := make([]RuleRight, len(c.scopes))
	for i, s := range c.scopes {
		all[i].Scope = s
		if c.rules != nil {
			all[i].Rule = c.rules[i]
		}
	}
	return all
}

// KnownGroups returns the groups for rules, and when they were stated (zero: unknown). For
// ownership see [Grant.Groups].
func (c Caller) KnownGroups() ([]string, time.Time) { return c.groups, c.asked }

// CallerOf identifies the caller and records nothing. Pages show the caller with it.
func (g *Guard) CallerOf(r *http.Request) (Caller, error) {
	return g.identifyCaller(r, g.policy.Load())
}
