// SPDX-License-Identifier: Apache-2.0

package access

import (
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

// Sessions lets browsers stay logged in: the pages and the API of people know their
// callers by cookies. Nothing is stored: what a cookie says is sealed. Who logs out
// takes his cookies back; a copy of them is good until its end, or [Policy].NotBefore.
type Sessions struct {
	Keyring *keyring.Ring // of its own: who has it can be anybody on the pages, and nobody elsewhere
	// Portals open the sessions of portals: each is believed for templates and
	// instances only, and only for the proof inside. Nil: there are no portals.
	Portals *keyring.Ring
	Portal  bool // this is a portal: its sessions hold their proof

	TTL   time.Duration // 0: 12 hours; one hour without TLS
	Path  string        // below which a proxy serves okara; "": it has the host for itself
	Plain bool          // browsers of this machine come without TLS

	// ClientID and ClientSecret are of the pages at the issuer of logins, where
	// [Login].Direct leaves the tools to it; "": people log in with a static token.
	ClientID, ClientSecret string

	// Keep names what of an identity is asked for beside the rules; nil: nothing is.
	Keep func() Kept
}

// Kept is what a session keeps of what an issuer says about somebody.
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
		return errors.New("sessions: keys are needed")
	case s.TTL < 0 || s.TTL > maxLogin:
		return errors.New("sessions: at most 90 days")
	case s.Portals != nil && s.Keyring.Shares(s.Portals):
		return errors.New("sessions: portals and full servers have a key in common, so that a portal could make sessions of both")
	}
	return nil
}

// Sessions are what browsers are logged in by; nil: they are not.
func (g *Guard) Sessions() *Sessions { return g.o.Sessions }

func (s *Sessions) ttl() time.Duration {
	ttl := s.TTL
	if ttl == 0 {
		ttl = defaultSession
	}
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

// session is what a cookie says: who the issuer said somebody is, or which static
// token he has.
type session struct {
	identity
	Name   string `json:"n,omitempty"` // what he calls himself
	Token  string `json:"k,omitempty"` // id of a static token
	Hash   []byte `json:"h,omitempty"` // of that token: another one of its name is not his
	Proof  string `json:"p,omitempty"` // of a portal: the ID token, or the static token itself
	Issued int64  `json:"t"`
}

// cookieRoute reports whether cookies count: where people are, never where tools are.
func cookieRoute(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/ui/") || strings.HasPrefix(r.URL.Path, "/api/v1/")
}

func errEnded() error {
	return &Refusal{Status: http.StatusUnauthorized, Text: "your session has ended, or is not of this server: log in again"}
}

// session identifies the caller by the cookie of a request without a token; found is false
// where there is none. One that fails is refused, and nobody becomes anonymous by it.
func (g *Guard) session(r *http.Request, now *rules) (c Caller, found bool, err error) {
	s := g.o.Sessions
	if s == nil || !cookieRoute(r) {
		return Caller{}, false, nil
	}
	sealed, found := s.read(r)
	if !found {
		return Caller{}, false, nil
	}
	if err := g.cross.Check(r); err != nil { // whatever route this is
		return Caller{}, true, &Refusal{Status: http.StatusForbidden, Text: "a web page of another site may not do this"}
	}
	var v session
	if s.Keyring.Open(s.purpose(), sealed, &v) == nil {
		c, err = g.opened(now, v)
	} else if s.Portals != nil && s.Portals.Open(portalPurpose, sealed, &v) == nil {
		c, err = g.proven(r.Context(), now, v)
	} else {
		err = errEnded()
	}
	return c, true, err
}

// opened is the caller of a session that this server made, by the rules of now.
func (g *Guard) opened(now *rules, v session) (Caller, error) {
	until, ok := g.lasts(now, v.Issuer, v.Subject, v.Issued)
	if !ok {
		return Caller{}, errEnded()
	}
	if v.Token != "" {
		t, ok := now.token(v.Token, v.Hash, g.now())
		if !ok {
			return Caller{}, errEnded()
		}
		return static(t, until), nil
	}
	if l := g.o.Login; l == nil || v.Issuer != l.Issuer.URL {
		return Caller{}, errEnded()
	}
	v.identity.Issued = v.Issued
	c := now.identified("session", v.identity)
	c.Label = v.Name
	c.Until = until
	return c, nil
}

// proven is the caller of a portal's session. The portal is not believed: the proof
// says who it is and since when. It is good for templates and instances, whatever
// rights its holder has beside.
func (g *Guard) proven(ctx context.Context, now *rules, v session) (Caller, error) {
	if strings.HasPrefix(v.Proof, statictoken.Prefix) {
		until, ok := g.lasts(now, "", "", v.Issued)
		c, known := now.static(v.Proof, g.now())
		if !ok || !known {
			return Caller{}, errEnded()
		}
		c.Until = until
		return c.atPortal(), nil
	}
	by, ok := g.client()
	if !ok {
		return Caller{}, errEnded()
	}
	id, err := now.issuers.proof(ctx, g.issuer(now, by), v.Proof)
	if errors.Is(err, errIssuerDown) {
		g.log.Error("session of a portal not checked", "issuer", g.o.Login.Issuer.URL, "reason", err)
		return Caller{}, &Refusal{Status: http.StatusServiceUnavailable, Text: errIssuerDown.Error()}
	}
	if err != nil {
		g.log.Warn("session of a portal refused", "reason", err)
		return Caller{}, errEnded()
	}
	until, ok := g.lasts(now, id.Issuer, id.Subject, id.Issued)
	if !ok {
		return Caller{}, errEnded()
	}
	c := now.identified("session", id)
	c.Until = until
	return c.atPortal(), nil
}

// lasts reports until when a session of a subject is good that was made at a time. One of a clock
// that ran ahead is not good before its time: NotBefore could not end it.
func (g *Guard) lasts(by *rules, issuer, subject string, issued int64) (until time.Time, ok bool) {
	now := g.now()
	at := time.Unix(issued, 0)
	until = at.Add(g.o.Sessions.ttl())
	return until, !at.After(now.Add(clockSkew)) && now.Before(until) && !by.ended(issuer, subject, at)
}

// atPortal leaves a caller the rights that a portal is for.
func (c Caller) atPortal() Caller {
	c.portal = true
	return c.only(ofPortal)
}

// ofPortal reports whether portals are for things of a kind.
func ofPortal(k rights.Kind) bool { return k == addr.KindTemplate || k == addr.KindInstance }

// keep leaves of an identity what the rules and [Sessions].Keep ask for: an issuer may
// say more of somebody than a cookie holds.
func (s *Sessions) keep(id identity, rules []Rule) identity {
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

// static is who has a static token, in a session until a time.
func static(t statictoken.Token, until time.Time) Caller {
	if !t.Expires.IsZero() && t.Expires.Before(until) {
		until = t.Expires
	}
	return Caller{Mode: "static", Subject: t.ID, Until: until, scopes: t.Scopes}
}
