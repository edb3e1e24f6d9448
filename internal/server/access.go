// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/trust"
)

// Token is a static token; the label is its id.
type Token struct {
	ID      string    `hcl:"id,label"`
	SHA256  string    `hcl:"sha256"`           // of the whole token
	Scopes  []string  `hcl:"scopes"`           // its rights
	Expires string    `hcl:"expires,optional"` // when it ends
	Range   hcl.Range `hcl:",def_range"`
}

// Issuer is one whose JWTs are accepted; the label is the claim "iss".
type Issuer struct {
	URL         string    `hcl:"url,label"`
	Audiences   []string  `hcl:"audiences"`             // one of which a token must have
	GroupsClaim string    `hcl:"groups_claim,optional"` // where the groups are
	KeysFile    string    `hcl:"jwks_file,optional"`    // with its keys: nothing is fetched then
	CAFile      string    `hcl:"ca_file,optional"`      // PEM to trust, besides the system's, where they are fetched
	Range       hcl.Range `hcl:",def_range"`
}

// policy is the issuer as package access knows it.
func (i Issuer) policy() (access.Issuer, error) {
	out := access.Issuer{URL: i.URL, Audiences: i.Audiences, GroupsClaim: i.GroupsClaim, KeysFile: i.KeysFile}
	switch {
	case len(i.Audiences) == 0:
		return out, syntax.WrongAt(i.Range, errors.New("an issuer needs at least one audience"))
	case i.KeysFile != "" && i.CAFile != "":
		return out, syntax.WrongAt(i.Range, errors.New("with jwks_file nothing is fetched: leave ca_file out"))
	case i.KeysFile != "":
		if err := access.CheckKeysFile(i.KeysFile); err != nil {
			return out, syntax.WrongAt(i.Range, fmt.Errorf("jwks_file: %w", err))
		}
	case i.CAFile != "":
		transport, err := httpserve.Transport(httpserve.TransportOptions{CAFile: i.CAFile})
		if err != nil {
			return out, syntax.WrongAt(i.Range, fmt.Errorf("ca_file: %w", err))
		}
		out.Transport = transport
	}
	return out, nil
}

// Rule gives rights to tokens of issuers; all that match add up.
type Rule struct {
	Name   string            `hcl:"name,label"`
	Issuer string            `hcl:"issuer,optional"` // must hold, as all of these three
	Groups []string          `hcl:"groups,optional"` // one of which
	Claims map[string]string `hcl:"claims,optional"` // all of which
	Allow  []string          `hcl:"allow"`           // the rights
	Range  hcl.Range         `hcl:",def_range"`
}

// Require is a policy for a kind of artifact.
type Require struct {
	Kind    string    `hcl:"kind,label"`            // module, provider or mirror
	Checks  []string  `hcl:"checks,optional"`       // openpgp, cosign, scan
	OpenPGP []string  `hcl:"openpgp_keys,optional"` // files of keys
	Cosign  []string  `hcl:"cosign_keys,optional"`  // files of keys
	Block   string    `hcl:"block,optional"`        // level of findings that refuses a version
	Range   hcl.Range `hcl:",def_range"`
}

// Login says how people log in.
type Login struct {
	Mode        string            `hcl:"mode,optional"`               // direct: the tools log in at the issuer itself
	Issuer      string            `hcl:"issuer"`                      // that says who somebody is
	ClientID    string            `hcl:"client_id"`                   // of this server there
	SecretFile  string            `hcl:"client_secret_file,optional"` // of this server there
	Scopes      []string          `hcl:"scopes,optional"`             // asked for there
	GroupsClaim string            `hcl:"groups_claim,optional"`       // where the groups are
	TokenTTL    syntax.Duration   `hcl:"token_ttl,optional"`          // how long a token is good
	NotBefore   string            `hcl:"not_before,optional"`         // tokens issued before are void
	NotBeforeOf map[string]string `hcl:"not_before_of,optional"`      // the same by subject
	Range       hcl.Range         `hcl:",def_range"`
}

// access says who may do what.
func (s *Settings) access() (access.Policy, error) {
	var policy access.Policy
	var err error
	if s.TokenFile != "" {
		if policy.Tokens, err = access.ReadTokens(s.TokenFile); err != nil {
			return policy, &syntax.SettingError{Err: err}
		}
		for _, t := range policy.Tokens {
			if err = s.checkReserved(hcl.Range{Filename: s.TokenFile}, t.Scopes); err != nil {
				return policy, err
			}
		}
	}
	switch {
	case s.AnonymousWrite:
		policy.Anonymous = access.AnonymousAll()
	case s.AnonymousRead:
		policy.Anonymous = access.AnonymousRead()
	case s.Anonymous != nil:
		if policy.Anonymous, err = s.scopes(s.AnonymousRange, s.Anonymous); err != nil {
			return policy, err
		}
	}
	for _, t := range s.Tokens {
		b, err := hex.DecodeString(t.SHA256)
		if err != nil || len(b) != 32 {
			return policy, syntax.WrongAt(t.Range, errors.New("sha256 is not 64 hexadecimal digits; it is the hash of the whole token"))
		}
		token := access.Token{ID: t.ID, Hash: [32]byte(b)}
		if token.Scopes, err = s.scopes(t.Range, t.Scopes); err != nil {
			return policy, err
		}
		if token.Expires, err = instant(t.Range, "expires", t.Expires); err != nil {
			return policy, err
		}
		policy.Tokens = append(policy.Tokens, token)
	}
	for _, i := range s.Issuers {
		issuer, err := i.policy()
		if err != nil {
			return policy, err
		}
		policy.Issuers = append(policy.Issuers, issuer)
	}
	for _, r := range s.Rules {
		if err := checkRuleIssuer(s, r); err != nil {
			return policy, err
		}
		allow, err := s.ruleScopes(r.Range, r.Allow)
		if err != nil {
			return policy, err
		}
		policy.Rules = append(policy.Rules, access.Rule{Name: r.Name, Issuer: r.Issuer, Groups: r.Groups, Claims: r.Claims, Allow: allow})
	}
	if s.Login != nil {
		if policy.NotBefore, err = instant(s.Login.Range, "not_before", s.Login.NotBefore); err != nil {
			return policy, err
		}
		policy.NotBeforeOf = map[string]time.Time{}
		for subject, at := range s.Login.NotBeforeOf {
			if policy.NotBeforeOf[subject], err = instant(s.Login.Range, "not_before_of "+subject, at); err != nil {
				return policy, err
			}
		}
	}
	if err := s.checkOpen(&policy); err != nil {
		return policy, err
	}
	return policy, s.checkAnonymous(&policy)
}

// checkRuleIssuer refuses a rule that no token can fulfil.
func checkRuleIssuer(s *Settings, r Rule) error {
	known := r.Issuer == "" || s.Login != nil && s.Login.Issuer == r.Issuer ||
		slices.ContainsFunc(s.Issuers, func(i Issuer) bool { return i.URL == r.Issuer })
	if known {
		return nil
	}
	return syntax.WrongAt(r.Range, fmt.Errorf("rule %q is about tokens of %s, which are not accepted\nhint: add a block issuer %q with its audiences, or correct the name", r.Name, r.Issuer, r.Issuer))
}

// silent reports whether nothing says who may do what.
func (s *Settings) silent() bool {
	return !s.AnonymousRead && !s.AnonymousWrite && s.Anonymous == nil && s.TokenFile == "" && len(s.Tokens) == 0 && len(s.Rules) == 0 && s.RulesFile == "" && !s.Pass
}

// checkOpen gives everybody all rights on a loopback listener, where nothing
// else is said, and refuses to do so elsewhere, and where modules run on this
// machine.
func (s *Settings) checkOpen(policy *access.Policy) error {
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return &syntax.SettingError{Err: fmt.Errorf("--listen %q: %w", s.Listen, err)}
	}
	if !s.silent() || s.Claim.Alone { // who leads decides about those that a portal hands on
		return nil
	}
	if !netaddr.IsLoopback(host) {
		return &syntax.SettingError{Err: fmt.Errorf("%s is reachable from other machines, and nothing says who may use it\n"+
			"hint: give --token-file FILE, or --anonymous-read for a public server, or listen on 127.0.0.1", s.Listen)}
	}
	if at := s.Claim.Runs; at != nil {
		return syntax.WrongAt(*at, errors.New("everybody could publish modules, which run here, since nothing says who may use this server\n"+
			"hint: give --token-file FILE, or say with anonymous = [] what needs no token"))
	}
	policy.Anonymous, policy.AnyToken = access.AnonymousAll(), true
	return nil
}

// require reads what versions must fulfil to be served, by kind.
func (s *Settings) require() (map[string]trust.Policy, error) {
	all := map[string]trust.Policy{}
	for _, r := range s.Require {
		if _, ok := all[r.Kind]; ok {
			return nil, syntax.WrongAt(r.Range, fmt.Errorf("a second block require %q", r.Kind))
		}
		o, err := trust.PolicyFiles{OpenPGP: r.OpenPGP, Cosign: r.Cosign, Require: r.Checks, Block: r.Block}.Read()
		if o == nil {
			o = &trust.Policy{}
		}
		if err == nil {
			err = catalog.ValidateRequire(r.Kind, *o)
		}
		if err != nil {
			return nil, syntax.WrongAt(r.Range, err)
		}
		all[r.Kind] = *o
	}
	return all, nil
}

func (s *Settings) login() (*access.Login, error) {
	in := s.Login
	if in == nil {
		return nil, nil
	}
	out := &access.Login{
		Issuer: access.Issuer{URL: in.Issuer, GroupsClaim: in.GroupsClaim}, ClientID: in.ClientID, Scopes: in.Scopes, PublicURL: s.PublicURL,
	}
	switch in.Mode {
	case "direct":
		return out, s.directLogin(out)
	case "", "broker":
	default:
		return nil, syntax.WrongAt(in.Range, fmt.Errorf("the login mode %q is not broker or direct", in.Mode))
	}
	if s.PublicURL == "" {
		return nil, syntax.WrongAt(in.Range, errors.New("login needs public_url, which the issuer sends browsers back to"))
	}
	if in.SecretFile != "" {
		b, err := os.ReadFile(in.SecretFile)
		if err != nil {
			return nil, syntax.WrongAt(in.Range, err)
		}
		out.ClientSecret = strings.TrimSpace(string(b))
	}
	if err := syntax.CheckDuration(in.Range, "token_ttl", in.TokenTTL); err != nil {
		return nil, err
	}
	out.TTL = in.TokenTTL.Value()
	return out, nil
}

// directLogin leaves the login to the issuer, whose tokens must then be accepted.
func (s *Settings) directLogin(out *access.Login) error {
	in := s.Login
	if in.SecretFile != "" || in.TokenTTL != "" || (in.NotBefore != "" || len(in.NotBeforeOf) > 0) && s.UI.ClientID == "" || in.GroupsClaim != "" {
		return syntax.WrongAt(in.Range, errors.New("a direct login has no client_secret_file, token_ttl or groups_claim, and not_before for sessions (ui.client_id) only: the tools get their tokens from the issuer"))
	}
	if !slices.ContainsFunc(s.Issuers, func(i Issuer) bool { return i.URL == in.Issuer }) {
		return syntax.WrongAt(in.Range, fmt.Errorf("a direct login needs a block issuer %q, or its tokens are refused", in.Issuer))
	}
	out.Direct = true
	return nil
}
