// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

// Proof is what a signed address keeps of the token for which it was made.
type Proof struct {
	Mode    string `json:"a"`
	Issuer  string `json:"b,omitempty"`
	Subject string `json:"c"`
	Issued  int64  `json:"o,omitempty"` // Unix time at which the issuer made the token
	Hash    string `json:"h,omitempty"` // of a static token, the first digits
}

// Proof returns what an address keeps of a token, and when that ends; zero: never, or unknown.
func (c Caller) Proof() (p Proof, ends time.Time) {
	p = Proof{Mode: c.Mode, Issuer: c.Issuer, Subject: c.Subject, Hash: c.hash}
	if !c.asked.IsZero() {
		p.Issued = c.asked.Unix()
	}
	return p, c.ends
}

// Caller returns the caller that had the token.
func (p Proof) Caller() Caller { return Caller{Mode: p.Mode, Issuer: p.Issuer, Subject: p.Subject} }

// CheckProof refuses a proof whose token was revoked, or replaced, or lost a right that it had.
// Of the token of an issuer, whose claims are not in the proof, it does not know the rights.
func (g *Guard) CheckProof(p Proof, right rights.Right) error {
	policy := g.policy.Load()
	issued := time.Unix(p.Issued, 0)
	good := true
	switch p.Mode {
	case "anonymous":
		_, good = Caller{scopes: policy.Anonymous}.ruleFor(right)
	case "static":
		i := slices.IndexFunc(policy.Tokens, func(t statictoken.Token) bool {
			return t.ID == p.Subject && (p.Hash == "" || p.Hash == shortHash(t))
		})
		good = i >= 0
		if good {
			t := policy.Tokens[i]
			_, good = Caller{scopes: t.Scopes}.ruleFor(right)
			good = good && (t.Expires.IsZero() || g.now().Before(t.Expires))
		}
	case "oidc":
		good = slices.ContainsFunc(policy.Issuers, func(i Issuer) bool { return i.URL == p.Issuer }) && !policy.void.isVoid(p.Issuer, p.Subject, issued)
	case "login", "session":
		good = !policy.isLoginVoid(p.Issuer, p.Subject, issued)
	case modeRun:
		good = g.o.RunOver == nil || !g.o.RunOver(p.Subject)
	default:
		return &Refusal{Status: http.StatusForbidden, Text: fmt.Sprintf("this address was created for a token of the kind %q, which this server does not know", p.Mode)}
	}
	if good {
		return nil
	}
	return &Refusal{Status: http.StatusForbidden, Text: "the token that this address was created for is no longer valid, or no longer has the right"}
}

// Proven returns a grant for this right alone, for a request by a signed address instead of a
// token, if [Guard.CheckProof] accepts it, and records that. The rule names the kind of address.
func (g *Guard) Proven(r *http.Request, p Proof, right rights.Right, rule string) (Grant, error) {
	c := p.Caller()
	if err := g.CheckProof(p, right); err != nil {
		g.Record(r, Record{Caller: c, Right: right})
		return Grant{}, err
	}
	g.Record(r, Record{Caller: c, Right: right, Rule: rule})
	return Grant{Caller: c, guard: g, r: r, right: right, rule: rule, proof: &p}.watch(), nil
}
