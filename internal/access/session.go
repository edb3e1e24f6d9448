// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

// Sessions identifies browsers by sealed cookies, of which nothing is stored. A copy outlives a
// logout, until it expires or [Policy].NotBefore revokes it.
type Sessions struct {
	Keyring *keyring.Ring // used for sessions only: its holder can pose as any user, but only on the pages
	// Portals opens portals' sessions, which count for templates and instances only, and by the proof
	// in them. Nil: none.
	Portals *keyring.Ring
	Portal  bool // this server is a portal: its sessions contain their proof

	// Tokens lets users log in with a static token too, for when the issuer is down.
	Tokens bool

	TTL   time.Duration // 0: 12 hours; one hour without TLS
	Path  string        // path below which a proxy serves okara; "": okara has a host of its own
	Plain bool          // browsers on this machine connect without TLS

	// ClientID and ClientSecret identify the pages to the login issuer if
	// [Login].Direct is set; "": users log in with a static token.
	ClientID, ClientSecret string

	// Keep names the claims and groups to keep besides those in rules; nil: none.
	Keep func() Kept
}

// Kept selects the claims and groups of an identity that a session keeps.
type Kept struct {
	Claims []string
	Groups []string // globs
}

const (
	defaultSession = 12 * time.Hour
	plainSession   = time.Hour

	sessionPurpose = "session"
	portalPurpose  = "session of a portal"
)

func (s *Sessions) validate() error {
	if s == nil {
		return nil
	}
	switch {
	case s.Keyring == nil:
		return errors.New("sessions: keys are required")
	case s.TTL < 0 || s.TTL > maxLogin:
		return errors.New("sessions: maximum is 90 days")
	case s.Portals != nil && s.Keyring.Shares(s.Portals):
		return errors.New("sessions: portals and full servers share a key, which lets a portal create sessions of both")
	}
	return nil
}

// Sessions returns the settings of browser sessions; nil: there are none.
func (g *Guard) Sessions() *Sessions { return g.o.Sessions }

func (s *Sessions) ttl() time.Duration {
	ttl := s.TTL
	ttl = cmp.Or(ttl, defaultSession)
	if s.Plain {
		ttl = min(ttl, plainSession)
	}
	return ttl
}

func (s *Sessions) purpose() string {
	if s.Portal {
		return portalPurpose
	}
	return sessionPurpose
}

// session is a cookie's content: the identity that an issuer stated, or a static token.
type session struct {
	identity
	Name   string `json:"n,omitempty"` // display name
	Token  string `json:"k,omitempty"` // id of a static token
	Hash   []byte `json:"h,omitempty"` // of that token: a later token with the same id is another one
	Proof  string `json:"p,omitempty"` // in a portal's session: the ID token, or the static token itself
	Issued int64  `json:"t"`
}

func errEnded() error {
	return &Refusal{Status: http.StatusUnauthorized, Text: "your session has ended, or was not started by this server: log in again"}
}

// session identifies the caller by a cookie; found: there is one. An invalid one is refused, not
// anonymous.
func (g *Guard) session(r *http.Request, p *activePolicy) (c Caller, found bool, err error) {
	s := g.o.Sessions
	// Cookies count for the pages and their API, not for tools.
	if s == nil || !strings.HasPrefix(r.URL.Path, "/ui/") && !strings.HasPrefix(r.URL.Path, "/api/v1/") {
		return Caller{}, false, nil
	}
	sealed, found := s.readSealed(r)
	if !found {
		return Caller{}, false, nil
	}
	if err := g.cross.Check(r); err != nil { // on every route
		return Caller{}, true, &Refusal{Status: http.StatusForbidden, Text: "cross-site request denied"}
	}
	var v session
	if s.Keyring.Open(s.purpose(), sealed, &v) == nil {
		c, err = g.callerOfSession(p, v)
	} else if s.Portals != nil && s.Portals.Open(portalPurpose, sealed, &v) == nil {
		c, err = g.callerOfProof(r.Context(), p, v)
	} else {
		err = errEnded()
	}
	return c, true, err
}

// callerOfSession returns the caller of a session that this server made, under the current rules.
func (g *Guard) callerOfSession(p *activePolicy, v session) (Caller, error) {
	until, ok := g.validUntil(p, v.Issuer, v.Subject, v.Issued)
	if !ok {
		return Caller{}, errEnded()
	}
	if v.Token != "" {
		t, ok := p.findToken(v.Token, v.Hash, g.now())
		if !ok {
			return Caller{}, errEnded()
		}
		return staticSession(t, until), nil
	}
	if l := g.o.Login; l == nil || v.Issuer != l.Issuer.URL {
		return Caller{}, errEnded()
	}
	v.identity.Issued = v.Issued
	c := p.identifiedCaller("session", v.identity)
	c.Label = v.Name
	c.Until = until
	return c, nil
}

// callerOfProof returns the caller of a portal's session, by the proof in it alone, for templates
// and instances only.
func (g *Guard) callerOfProof(ctx context.Context, p *activePolicy, v session) (Caller, error) {
	if strings.HasPrefix(v.Proof, statictoken.Prefix) {
		until, ok := g.validUntil(p, "", "", v.Issued)
		c, known := p.staticCaller(v.Proof, g.now())
		if !ok || !known {
			return Caller{}, errEnded()
		}
		c.Until = until
		return c.atPortal(), nil
	}
	by, ok := g.o.pagesClient()
	if !ok {
		return Caller{}, errEnded()
	}
	id, err := p.issuers.checkProof(ctx, g.o.Login.issuerFor(p, by), v.Proof)
	if errors.Is(err, errIssuerDown) {
		g.log.Error("session of a portal not checked", "issuer", g.o.Login.Issuer.URL, "reason", err)
		return Caller{}, &Refusal{Status: http.StatusServiceUnavailable, Text: errIssuerDown.Error()}
	}
	if err != nil {
		g.log.Warn("session of a portal refused", "reason", err)
		return Caller{}, errEnded()
	}
	until, ok := g.validUntil(p, id.Issuer, id.Subject, id.Issued)
	if !ok {
		return Caller{}, errEnded()
	}
	c := p.identifiedCaller("session", id)
	c.Until = until
	return c.atPortal(), nil
}

// validUntil reports until when a session is valid, and whether it is now. One from the future is
// not: NotBefore could not revoke it.
func (g *Guard) validUntil(p *activePolicy, issuer, subject string, issued int64) (until time.Time, ok bool) {
	now := g.now()
	at := time.Unix(issued, 0)
	until = at.Add(g.o.Sessions.ttl())
	return until, !at.After(now.Add(clockSkew)) && now.Before(until) && !p.isLoginVoid(issuer, subject, at)
}

// atPortal returns the caller with only the rights that count at a portal.
func (c Caller) atPortal() Caller {
	c.portal = true
	return c.onlyKinds(ofPortal)
}

func ofPortal(k rights.Kind) bool { return k == addr.KindTemplate || k == addr.KindInstance }

// keepClaims reduces an identity to what rules and [Sessions].Keep name: a cookie is small.
func (s *Sessions) keepClaims(id identity, rules []Rule) identity {
	var kept Kept
	if s.Keep != nil {
		kept = s.Keep()
	}
	for _, r := range rules {
		for name := range r.Claims {
			kept.Claims = append(kept.Claims, name)
		}
	}
	claims := map[string]any{}
	for name, v := range id.Claims {
		if _, ok := claimText(v); ok && slices.Contains(kept.Claims, name) {
			claims[name] = v
		}
	}
	id.Claims = claims
	id.Groups = slices.DeleteFunc(slices.Clone(id.Groups), func(name string) bool {
		named := slices.ContainsFunc(rules, func(r Rule) bool { return slices.Contains(r.Groups, name) })
		return !named && !slices.ContainsFunc(kept.Groups, func(glob string) bool { return addr.Match(glob, name) })
	})
	return id
}

func staticSession(t statictoken.Token, until time.Time) Caller {
	if !t.Expires.IsZero() && t.Expires.Before(until) {
		until = t.Expires
	}
	return Caller{Mode: "static", Subject: t.ID, Until: until, scopes: t.Scopes}
}
