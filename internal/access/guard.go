// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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

// Options configure a [Guard]. Keyring is required.
type Options struct {
	Policy  Policy
	Login   *Login        // `tofu login`; nil: none
	Keyring *keyring.Ring // seals logins
	// Sessions are browser sessions for the pages and their API; nil: none.
	Sessions *Sessions
	// PassThrough reports where an unknown token is a credential for the registry; nil: nowhere.
	PassThrough func(*http.Request) bool
	Names       []string       // hosts or URLs of this server; where anonymous may write, only they and loopback are accepted
	Proxies     []netip.Prefix // whose X-Forwarded-For is believed

	// RunOver reports whether a run is known to have ended, which makes its token
	// invalid; nil: a token is valid until it expires.
	RunOver func(run string) bool

	Audit     *slog.Logger                // one record per decision and change; nil: none
	Decided   func(mode, decision string) // called for each decision; may be nil
	Logger    *slog.Logger                // details that answers omit; nil: none
	Transport http.RoundTripper           // to issuers of tokens; nil: http.DefaultTransport
	Now       func() time.Time            // nil: time.Now
}

// Policy assigns rights to callers. The zero value allows nothing.
type Policy struct {
	Anonymous []rights.Scope // rights of a request without a token
	Tokens    []statictoken.Token
	Issuers   []Issuer // whose tokens are accepted
	Rules     []Rule   // what those tokens may do
	// AnyToken ignores any token: there are no rules, but without one tools do not ask for workspaces.
	AnyToken bool

	NotBefore time.Time // logins and sessions made before are void
	// NotBeforeOf is the same for single subjects of the login issuer.
	NotBeforeOf map[string]time.Time

	void void // revocations of a rules file, see [Policy.Add]
}

// isLoginVoid reports whether a login or session that a subject got at a time is void.
func (p Policy) isLoginVoid(issuer, subject string, issued time.Time) bool {
	return issued.Before(p.NotBefore) || issued.Before(p.NotBeforeOf[subject]) || p.void.isVoid(issuer, subject, issued)
}

// validate refuses a direct login whose issuer is not an accepted one.
func (p Policy) validate(l *Login) error {
	if l == nil || !l.Direct || slices.ContainsFunc(p.Issuers, func(i Issuer) bool { return i.URL == l.Issuer.URL }) {
		return nil
	}
	return fmt.Errorf("login: the tools would send tokens of issuer %q, which is not among those that are accepted", l.Issuer.URL)
}

// Guard decides whether requests are allowed. It is safe for concurrent use.
type Guard struct {
	o      Options
	log    *slog.Logger
	now    func() time.Time
	policy atomic.Pointer[activePolicy]
	spent  spent // codes of logins
	cross  *http.CrossOriginProtection

	failures failures // of changes
}

// activePolicy holds everything that [Guard.Replace] replaces. Each decision loads it once.
type activePolicy struct {
	Policy
	issuers  *issuers
	names    []string // accepted host names; nil: any
	public   Caller   // without a token
	replaced bool     // requests in progress may have been screened under the previous rules
}

// New returns a guard, or an error that names the invalid option. It makes no request.
func New(o Options) (*Guard, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if err := errors.Join(o.Login.validate(), o.Sessions.validate(), o.Policy.validate(o.Login)); err != nil {
		return nil, err
	}
	issuers, err := newIssuers(o.Policy.Issuers, o.Transport, o.Now)
	if err != nil {
		return nil, err
	}
	g := &Guard{o: o, log: o.Logger, now: o.Now, cross: http.NewCrossOriginProtection(), spent: spent{until: map[string]time.Time{}}, failures: failures{all: map[[4]string]bool{}}}
	g.policy.Store(&activePolicy{Policy: o.Policy, issuers: issuers, names: ownNames(o.Policy, o.Names), public: anonymousCaller(o.Policy)})
	return g, nil
}

// Replace replaces the policy. A decision uses the old or the new one. An error changes nothing.
func (g *Guard) Replace(p Policy) error {
	if err := p.validate(g.o.Login); err != nil {
		return err
	}
	issuers, err := g.policy.Load().issuers.withIssuers(p.Issuers)
	if err != nil {
		return err
	}
	g.policy.Store(&activePolicy{Policy: p, issuers: issuers, names: ownNames(p, g.o.Names), public: anonymousCaller(p), replaced: true})
	return nil
}

// anonymousCaller returns the sender of a request without a token.
func anonymousCaller(p Policy) Caller {
	c := Caller{Mode: "anonymous", scopes: p.Anonymous}
	for _, s := range p.Anonymous {
		c.texts = append(c.texts, s.String())
	}
	return c
}

// Caller is the sender of a request.
type Caller struct {
	Mode       string // "anonymous", "static", "login", "oidc", "session", "run", "pass-through"; "github" for a webhook; "refused"
	Subject    string
	Issuer     string
	Label      string            // the user's display name; it grants no right
	Claims     map[string]string // the claims of the token whose values are text, unchanged, and email_verified
	Origin     map[string]string // "source", "revision", "ref" and "run", the page of the job, that the token of a CI system states
	Credential *oci.Credential   // the caller's own, for the registry; nil: none
	Until      time.Time         // when the session ends; zero: not a session

	groups []string  // as the issuer stated them
	asked  time.Time // when the issuer stated them; zero: unknown
	ends   time.Time // of its token; zero: never, or unknown
	hash   string    // of a static token, the first digits

	scopes []rights.Scope
	rules  []string // names of the rules that give the scopes, one to one; nil: not given by rules
	texts  []string // of the scopes, one to one; nil: written at each decision
	portal bool     // a session of a portal, which counts for templates and instances only
}

// Identity tells callers apart, whatever their tokens; "" for a registry's credential.
func (c Caller) Identity() string {
	mode := c.Mode
	switch {
	case c.Mode == "pass-through":
		return ""
	case c.Issuer != "": // whichever way that user came
		mode = ""
	}
	sum := sha256.Sum256([]byte(mode + "\x00" + c.Issuer + "\x00" + c.Subject))
	return hex.EncodeToString(sum[:])
}

// Name returns the name of a person or service; "" for nobody in particular, and for a run.
func (c Caller) Name() string {
	if c.Mode == modeRun {
		return ""
	}
	return clipText(c.Subject)
}

func (c Caller) ruleFor(right rights.Right) (rule string, ok bool) {
	for i, s := range c.scopes {
		if !s.Allows(right) {
			continue
		}
		switch {
		case c.rules != nil:
			return c.rules[i] + ": " + s.String(), true
		case c.texts != nil:
			return c.texts[i], true
		}
		return s.String(), true
	}
	return "", false
}

// RightsKey returns a key: callers with the same one have the same rights. It must not be shown.
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
	Public bool // anonymous callers have the right as well, so shared caches may keep the answer

	guard *Guard
	r     *http.Request
	right rights.Right
	rule  string
	proof *Proof // of the signed address; nil: none
}

// May reports whether the caller has another right. It records nothing.
func (g Grant) May(right rights.Right) bool {
	_, ok := g.ruleFor(right)
	return ok
}

// MayRead reports whether the caller may read an object of a kind, as [Grant.May] does.
func (g Grant) MayRead(kind, address string) bool {
	return g.May(rights.Right{Action: rights.Read, Kind: rights.Kind(kind), Address: address})
}

// defaultGroupAge is how long groups count for ownership after the issuer stated them.
const defaultGroupAge = 24 * time.Hour

// Groups returns the caller's groups, as an owner. If stated longer than age ago (0: 24 hours), the
// error is a [Refusal] that asks for another login. Without groups it is none, whatever the age.
func (g Grant) Groups(age time.Duration) ([]string, error) {
	age = cmp.Or(age, defaultGroupAge)
	if len(g.groups) > 0 && g.guard.now().Sub(g.asked) > age {
		return nil, &Refusal{Status: http.StatusUnauthorized, Text: "your groups from the issuer are out of date: log in again"}
	}
	return g.groups, nil
}

// Former returns the groups as last stated, however long ago. They grant no right.
func (g Grant) Former() []string { return g.groups }

// Allow decides whether the caller has a right, and records it, before every lookup: a refusal
// reveals nothing. An error is a [Refusal].
func (g *Guard) Allow(r *http.Request, right rights.Right) (Grant, error) {
	return g.allowRight(r, g.policy.Load(), right)
}

// AllowAll decides about several rights by the same policy, each as [Guard.Allow] does,
// and stops at the first that is refused. The grant is that of the last right.
func (g *Guard) AllowAll(r *http.Request, needed []rights.Right) (grant Grant, err error) {
	p := g.policy.Load()
	for _, right := range needed {
		if grant, err = g.allowRight(r, p, right); err != nil {
			return grant, err
		}
	}
	return grant, nil
}

func (g *Guard) allowRight(r *http.Request, p *activePolicy, right rights.Right) (Grant, error) {
	c, err := g.knownCaller(r, p, right)
	if err != nil {
		return Grant{}, err
	}
	rule, ok := c.ruleFor(right)
	public := ok && c.Mode == "anonymous"
	if right.Action == rights.List {
		rule = "what may be read"
		ok = true
	}
	stray := right.Kind == addr.KindState && c.isStray(r)
	if c.portal && !ofPortal(right.Kind) || stray {
		rule = ""
		ok = false
	}
	g.Record(r, Record{Caller: c, Right: right, Rule: rule, Detail: registryTarget(r)})
	if ok {
		public = public || slices.ContainsFunc(p.Anonymous, func(s rights.Scope) bool { return s.Allows(right) })
		return Grant{Caller: c, Public: public && c.Credential == nil, guard: g, r: r, right: right, rule: rule}.watch(), nil
	}
	if stray {
		return Grant{}, &Refusal{Status: http.StatusConflict, Text: "a run can use only its own state, and only through /state/", Right: right}
	}
	if c.portal && !ofPortal(right.Kind) {
		return Grant{}, &Refusal{Status: http.StatusForbidden, Text: "a portal session can use only templates and instances"}
	}
	if c.Mode == "anonymous" {
		return Grant{}, &Refusal{Status: http.StatusUnauthorized, Text: "token required: " + string(right.Action) + " " + string(right.Kind)}
	}
	return Grant{}, &Refusal{Status: http.StatusForbidden, Text: mayNot(right), Right: right}
}

// mayNot says which right is needed.
func mayNot(right rights.Right) string {
	if right == rights.Server() {
		return "this token may not administer the server: " + rights.Lacks + right.String() + " (a state requires write:state:NAME, and is at state/NAME)"
	}
	return "this token may not " + strings.Replace(right.String(), ":", " ", 2) + ": " + rights.Lacks + right.String()
}

// AllowLogin tells whether a token is valid. None is needed where anonymous has rights. A session
// without any right gets 403, since another login would not help. Only refusals are recorded.
func (g *Guard) AllowLogin(r *http.Request) error {
	right := rights.Right{Action: rights.LogIn, Kind: rights.AnyKind, Address: ""}
	c, err := g.knownCaller(r, g.policy.Load(), right)
	if err != nil {
		return err
	}
	if len(c.scopes) == 0 {
		g.Record(r, Record{Caller: c, Right: right})
		if !c.Until.IsZero() { // another login would change nothing
			return &Refusal{Status: http.StatusForbidden, Text: "you are logged in, but no rule of this server grants you any right"}
		}
		return &Refusal{Status: http.StatusUnauthorized, Text: "token required"}
	}
	return nil
}

// knownCaller identifies the caller, as identifyCaller does, and records a refusal. On routes other
// than those of states a run loses its rights to states.
func (g *Guard) knownCaller(r *http.Request, p *activePolicy, right rights.Right) (Caller, error) {
	c, err := g.identifyCaller(r, p)
	if err != nil {
		g.Record(r, Record{Caller: Caller{Mode: "refused", Subject: p.refusedTokenID(r)}, Right: right})
	}
	if c.isStray(r) {
		c = c.onlyKinds(func(k rights.Kind) bool { return k != addr.KindState })
	}
	return c, err
}

// identifyCaller identifies the caller by the Authorization header, else by the cookie. A token's
// form selects the one way to check it; one that fails is refused, never anonymous.
func (g *Guard) identifyCaller(r *http.Request, p *activePolicy) (Caller, error) {
	if p.replaced {
		if err := g.screenName(r, p); err != nil {
			return Caller{}, err
		}
	}
	token, ok := bearerToken(r)
	if !ok {
		if c, found, err := g.session(r, p); found {
			return c, err
		}
		return p.public, nil
	}
	if p.AnyToken && token != "" && ofTools(r) {
		return p.public, nil
	}
	if c, ok, err := g.credential(r, p, token); err != nil || ok {
		return callerBehind(c), err
	}
	refused := &Refusal{Status: http.StatusUnauthorized, Text: "the token is not valid here, or has expired"}
	if strings.HasPrefix(token, statictoken.Prefix) {
		if c, ok := p.staticCaller(token, g.now()); ok {
			return c, nil
		}
		return Caller{}, refused
	}
	if strings.HasPrefix(token, loginPrefix) {
		if id, ok := g.loggedIn(token, p); ok {
			return p.identifiedCaller("login", id), nil
		}
		return Caller{}, refused
	}
	if strings.HasPrefix(token, runPrefix) {
		if c, ok := g.runCaller(r, token); ok {
			return c, nil
		}
		return Caller{}, refused
	}
	i, ok := p.issuers.find(token)
	if !ok {
		return Caller{}, refused
	}
	id, err := p.issuers.checkToken(r.Context(), i, token)
	if errors.Is(err, errIssuerDown) {
		g.logFor(r).Error("token not checked", "issuer", i.URL, "reason", err)
		return Caller{}, &Refusal{Status: http.StatusServiceUnavailable, Text: errIssuerDown.Error()}
	}
	if err != nil {
		g.logFor(r).Warn("token refused", "issuer", i.URL, "reason", err)
		return Caller{}, refused
	}
	if p.void.isVoid(id.Issuer, id.Subject, time.Unix(id.Issued, 0)) {
		g.logFor(r).Warn("token refused", "issuer", i.URL, "reason", "the rules file revoked earlier tokens of this subject")
		return Caller{}, refused
	}
	return p.identifiedCaller("oidc", id), nil
}

func (p *activePolicy) identifiedCaller(mode string, id identity) Caller {
	c := Caller{
		Mode: mode, Subject: id.Subject, Issuer: id.Issuer, Label: id.displayName(), Claims: id.textClaims(), Origin: id.origin(),
		groups: id.Groups, asked: time.Unix(id.Issued, 0), ends: id.ends,
	}
	c.scopes, c.rules = id.scopes(p.Rules)
	return c
}

func (g *Guard) logFor(r *http.Request) *slog.Logger {
	return g.log.With("request_id", r.Header.Get(httpserve.RequestID))
}
