// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
)

// GuardOptions is everything a [Guard] needs. Keyring is required.
type Options struct {
	Policy  Policy
	Login   *Login        // `tofu login`; nil: none
	Keyring *keyring.Ring // seals logins
	// Sessions are those of browsers, on the pages and the API of people; nil: none.
	Sessions *Sessions
	// PassThrough says on which requests a token of no other shape is the
	// caller's own credential for the registry; nil: on none.
	PassThrough func(*http.Request) bool
	Names       []string       // hosts or URLs of this server, the only ones besides loopback where everybody may write
	Proxies     []netip.Prefix // whose X-Forwarded-For is believed

	// RunOver reports whether a run is known to have ended, so that its token is
	// worth nothing any more; nil: only the time in the token says so.
	RunOver func(run string) bool

	Audit     *slog.Logger                // one record per decision and change; nil: none
	Decided   func(mode, decision string) // hears of each decision; nil: nobody does
	Logger    *slog.Logger                // what an answer does not tell; nil: none
	Transport http.RoundTripper           // to issuers of tokens; nil: http.DefaultTransport
	Now       func() time.Time            // nil: time.Now
}

// Policy says who may do what. The zero value allows nothing to anybody.
type Policy struct {
	Anonymous []rights.Scope // rights of a request without a token
	Tokens    []statictoken.Token
	Issuers   []Issuer // whose tokens are accepted
	Rules     []Rule   // what they may do
	// AnyToken takes any token of the tools for none: nothing says who may do what
	// here, and without one they do not even ask for workspaces.
	AnyToken bool

	NotBefore time.Time // logins and sessions of before are void
	// NotBeforeOf is the same for a subject of the issuer of logins alone.
	NotBeforeOf map[string]time.Time

	void void // what a file of rules ends, see [Policy.Add]
}

// ended reports whether a login or session of a subject is void that was made at a time.
func (p Policy) ended(issuer, subject string, issued time.Time) bool {
	return issued.Before(p.NotBefore) || issued.Before(p.NotBeforeOf[subject]) || p.void.ended(issuer, subject, issued)
}

// validate refuses a login whose tokens nobody would accept.
func (p Policy) validate(l *Login) error {
	if l == nil || !l.Direct || slices.ContainsFunc(p.Issuers, func(i Issuer) bool { return i.URL == l.Issuer.URL }) {
		return nil
	}
	return fmt.Errorf("login: the tools would send tokens of issuer %q, which is not among those that are accepted", l.Issuer.URL)
}

// Guard decides who may do what. It is safe for concurrent use.
type Guard struct {
	o     Options
	log   *slog.Logger
	now   func() time.Time
	rules atomic.Pointer[rules]
	spent spent // codes of logins
	cross *http.CrossOriginProtection
}

// rules are all that [Guard.Replace] replaces. Each decision takes them once.
type rules struct {
	Policy
	issuers  *issuers
	names    []string // by which the server may be called; nil: any
	replaced bool     // requests under way were screened by the rules before these
}

// NewGuard returns a guard, or an error that names the option at fault. It makes
// no request.
func New(o Options) (*Guard, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(o.Login.validate(), o.Sessions.validate(), o.Policy.validate(o.Login)); err != nil {
		return nil, err
	}
	issuers, err := newIssuers(o.Policy.Issuers, o.Transport, o.Now)
	if err != nil {
		return nil, err
	}
	g := &Guard{o: o, log: o.Logger, now: o.Now, cross: http.NewCrossOriginProtection()}
	g.rules.Store(&rules{Policy: o.Policy, issuers: issuers, names: ownNames(o.Policy, o.Names)})
	return g, nil
}

// Replace takes another policy from now on, for each decision either all of it or
// nothing. An error changes nothing.
func (g *Guard) Replace(p Policy) error {
	if err := p.validate(g.o.Login); err != nil {
		return err
	}
	issuers, err := g.rules.Load().issuers.of(p.Issuers)
	if err != nil {
		return err
	}
	g.rules.Store(&rules{Policy: p, issuers: issuers, names: ownNames(p, g.o.Names), replaced: true})
	return nil
}

// Caller is who sent a request.
type Caller struct {
	Mode       string // "anonymous", "static", "login", "oidc", "session", "run", "pass-through"; "github" for a webhook; "refused"
	Subject    string
	Issuer     string
	Label      string            // what a person calls himself, for display only: no right hangs on it
	Claims     map[string]string // those of the token that are text, as they came
	Origin     map[string]string // "source", "revision" and "ref" that the token of a CI system proves
	Credential *oci.Credential   // the caller's own, for the registry; nil: none
	Until      time.Time         // when the session ends; zero: it is none

	groups []string  // as the issuer has them
	asked  time.Time // when the issuer was asked for them; zero: it is not known

	scopes []rights.Scope
	rules  []string // names of the rules that give the scopes, one to one; nil: it is no rule
	portal bool     // it comes from a portal, which is believed for templates and instances only
}

func (c Caller) may(right rights.Right) (rule string, ok bool) {
	for i, s := range c.scopes {
		if !s.Allows(right) {
			continue
		}
		if c.rules != nil {
			return c.rules[i] + ": " + s.String(), true
		}
		return s.String(), true
	}
	return "", false
}

// RightsKey names the set of rights of a caller: callers of one name may do the same.
// It is for tables in memory, and shown to nobody.
func (c Caller) RightsKey() string {
	var b strings.Builder
	for _, s := range c.scopes {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}

// Grant is a positive decision about one request.
type Grant struct {
	Caller
	Public bool // anonymous may do it as well, so that shared caches may keep the answer

	guard *Guard
	r     *http.Request
	right rights.Right
	rule  string
}

// May reports whether the caller has another right. It makes no record.
func (g Grant) May(right rights.Right) bool {
	_, ok := g.may(right)
	return ok
}

// MayRead is [Grant.May] for something of a kind.
func (g Grant) MayRead(kind, address string) bool {
	return g.May(rights.Right{Action: rights.Read, Kind: rights.Kind(kind), Address: address})
}

// defaultGroupAge is how long an issuer's word on who is in a group counts for
// ownership.
const defaultGroupAge = 24 * time.Hour

// Groups are the groups of the caller's issuer that he may act for as an owner.
// If the issuer said so longer than age ago (0: 24 hours), which a login may
// outlive, the error is a [Refusal] that asks to log in again. Who is in no group
// has none, whenever that was said.
func (g Grant) Groups(age time.Duration) ([]string, error) {
	if age == 0 {
		age = defaultGroupAge
	}
	if len(g.groups) > 0 && g.guard.now().Sub(g.asked) > age {
		return nil, &Refusal{Status: http.StatusUnauthorized, Text: "your groups were asked for too long ago to act for them: log in again"}
	}
	return g.groups, nil
}

// Former are the groups of the caller as his issuer named them last, however long
// ago: they tell what he misses until he logs in again, and give no right.
func (g Grant) Former() []string { return g.groups }

// Allow decides whether the request may do something, and records that. The
// decision precedes every lookup, so a refusal does not tell whether the thing
// exists. An error is a [Refusal].
func (g *Guard) Allow(r *http.Request, right rights.Right) (Grant, error) {
	return g.allow(r, g.rules.Load(), right)
}

// AllowAll decides about several rights by the same rules, as [Guard.Allow] does
// about one, up to the first that is refused. The grant is that of the last one.
func (g *Guard) AllowAll(r *http.Request, needed []rights.Right) (grant Grant, err error) {
	now := g.rules.Load()
	for _, right := range needed {
		if grant, err = g.allow(r, now, right); err != nil {
			return grant, err
		}
	}
	return grant, nil
}

func (g *Guard) allow(r *http.Request, now *rules, right rights.Right) (Grant, error) {
	c, err := g.known(r, now, right)
	if err != nil {
		return Grant{}, err
	}
	rule, ok := c.may(right)
	if right.Action == rights.List {
		rule = "what may be read"
		ok = true
	}
	stray := right.Kind == addr.KindState && c.strays(r)
	if c.portal && !ofPortal(right.Kind) || stray {
		rule = ""
		ok = false
	}
	g.Record(r, Record{Caller: c, Right: right, Rule: rule})
	if ok {
		_, public := Caller{scopes: now.Anonymous}.may(right)
		return Grant{Caller: c, Public: public && c.Credential == nil, guard: g, r: r, right: right, rule: rule}, nil
	}
	if stray {
		return Grant{}, &Refusal{Status: http.StatusConflict, Text: "a run reaches its own state alone, and by /state/ only", Right: right}
	}
	if c.portal && !ofPortal(right.Kind) {
		return Grant{}, &Refusal{Status: http.StatusForbidden, Text: "you have logged in at a portal, and may use templates and instances only"}
	}
	if c.Mode == "anonymous" {
		return Grant{}, &Refusal{Status: http.StatusUnauthorized, Text: "a token is needed: " + string(right.Action) + " " + string(right.Kind)}
	}
	return Grant{}, &Refusal{Status: http.StatusForbidden, Text: fmt.Sprintf("this token may not %s %s %s", right.Action, right.Kind, right.Address), Right: right}
}

// AllowLogin is for clients that ask whether their token is good: any valid one
// is, and none is needed where anonymous has any right. Who has a session and no
// right is refused as one who may not, so that nobody sends him to log in again.
// Only refusals are recorded.
func (g *Guard) AllowLogin(r *http.Request) error {
	right := rights.Right{Action: rights.LogIn, Kind: rights.AnyKind, Address: ""}
	c, err := g.known(r, g.rules.Load(), right)
	if err != nil {
		return err
	}
	if len(c.scopes) == 0 {
		g.Record(r, Record{Caller: c, Right: right})
		if !c.Until.IsZero() { // to log in once more would change nothing
			return &Refusal{Status: http.StatusForbidden, Text: "you are logged in, and no rule of this server gives you a right"}
		}
		return &Refusal{Status: http.StatusUnauthorized, Text: "a token is needed"}
	}
	return nil
}

// known identifies the caller, as caller does, and records a refusal.
func (g *Guard) known(r *http.Request, now *rules, right rights.Right) (Caller, error) {
	c, err := g.caller(r, now)
	if err != nil {
		g.Record(r, Record{Caller: Caller{Mode: "refused", Subject: now.named(r)}, Right: right})
	}
	if c.strays(r) {
		c = c.only(func(k rights.Kind) bool { return k != addr.KindState })
	}
	return c, err
}

// caller identifies the caller from the Authorization header, else from the cookie of a
// session. The shape of a token selects one way to check it; a token that fails
// there is refused. It is never tried in another way, nor taken for anonymous.
func (g *Guard) caller(r *http.Request, now *rules) (Caller, error) {
	if now.replaced {
		if err := g.screenName(r, now); err != nil {
			return Caller{}, err
		}
	}
	token, ok := bearer(r)
	if !ok {
		if c, found, err := g.session(r, now); found {
			return c, err
		}
		return Caller{Mode: "anonymous", scopes: now.Anonymous}, nil
	}
	if now.AnyToken && token != "" && ofTools(r) {
		return Caller{Mode: "anonymous", scopes: now.Anonymous}, nil
	}
	if c, ok, err := g.credential(r, now, token); err != nil || ok {
		return behind(c), err
	}
	refused := &Refusal{Status: http.StatusUnauthorized, Text: "the token is not valid here, or has expired"}
	if strings.HasPrefix(token, statictoken.Prefix) {
		if c, ok := now.static(token, g.now()); ok {
			return c, nil
		}
		return Caller{}, refused
	}
	if strings.HasPrefix(token, loginPrefix) {
		if id, ok := g.loggedIn(token, now); ok {
			return now.identified("login", id), nil
		}
		return Caller{}, refused
	}
	if strings.HasPrefix(token, runPrefix) {
		if c, ok := g.run(r, token); ok {
			return c, nil
		}
		return Caller{}, refused
	}
	i, ok := now.issuers.find(token)
	if !ok {
		return Caller{}, refused
	}
	id, err := now.issuers.check(r.Context(), i, token)
	if errors.Is(err, errIssuerDown) {
		g.logFor(r).Error("token not checked", "issuer", i.URL, "reason", err)
		return Caller{}, &Refusal{Status: http.StatusServiceUnavailable, Text: errIssuerDown.Error()}
	}
	if err != nil {
		g.logFor(r).Warn("token refused", "issuer", i.URL, "reason", err)
		return Caller{}, refused
	}
	if now.void.ended(id.Issuer, id.Subject, time.Unix(id.Issued, 0)) {
		g.logFor(r).Warn("token refused", "issuer", i.URL, "reason", "the rules file ended what this subject got before")
		return Caller{}, refused
	}
	return now.identified("oidc", id), nil
}

func (l *rules) identified(mode string, id identity) Caller {
	c := Caller{
		Mode: mode, Subject: id.Subject, Issuer: id.Issuer, Label: id.label(), Claims: id.texts(), Origin: id.origin(),
		groups: id.Groups, asked: time.Unix(id.Issued, 0),
	}
	c.scopes, c.rules = id.scopes(l.Rules)
	return c
}

// logFor returns the log for what belongs to a request.
func (g *Guard) logFor(r *http.Request) *slog.Logger {
	return g.log.With("request_id", r.Header.Get(httpserve.RequestID))
}
