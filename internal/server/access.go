// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/trust"
)

// Require is a policy for a kind of artifact.
type Require struct {
	Kind    string    `hcl:"kind,label"`                        // module, provider or mirror
	Checks  []string  `hcl:"checks,optional"`                   // openpgp, cosign, scan
	OpenPGP []string  `hcl:"openpgp_keys,optional" path:"file"` // files of keys
	Cosign  []string  `hcl:"cosign_keys,optional" path:"file"`  // files of keys
	Names   []string  `hcl:"certificate_identities,optional"`   // who may sign, with * for any characters
	Issuer  string    `hcl:"certificate_issuer,optional"`       // who vouches for them
	Root    string    `hcl:"trusted_root,optional" path:"file"` // file of the authorities and logs that count
	Block   string    `hcl:"block,optional"`                    // minimum level of findings that refuses a version
	Range   hcl.Range `hcl:",def_range"`
}

// Login sets how users log in.
type Login struct {
	Mode        string            `hcl:"mode,optional"`                           // direct: the tools log in at the issuer itself
	Issuer      string            `hcl:"issuer"`                                  // URL of the identity provider
	ClientID    string            `hcl:"client_id"`                               // of this server at the issuer
	SecretFile  string            `hcl:"client_secret_file,optional" path:"file"` // of this client
	Scopes      []string          `hcl:"scopes,optional"`                         // requested from the issuer
	GroupsClaim string            `hcl:"groups_claim,optional"`                   // name of the claim with the groups
	TokenTTL    syntax.Duration   `hcl:"token_ttl,optional"`                      // lifetime of a token
	NotBefore   string            `hcl:"not_before,optional"`                     // tokens issued before this time are void
	NotBeforeOf map[string]string `hcl:"not_before_of,optional"`                  // the same by subject
	Range       hcl.Range         `hcl:",def_range"`
}

// accessPolicy returns the policy that decides about requests.
func (s *Settings) accessPolicy() (access.Policy, error) {
	policy, err := s.policy()
	if err != nil {
		return policy, err
	}
	for _, r := range s.Access.Rules {
		if err := checkRuleIssuer(s, r.Range, r.Name, r.Issuer); err != nil {
			return policy, err
		}
	}
	if s.Login != nil {
		if policy.NotBefore, err = syntax.Instant(s.Login.Range, "not_before", s.Login.NotBefore); err != nil {
			return policy, err
		}
		policy.NotBeforeOf = map[string]time.Time{}
		for subject, at := range s.Login.NotBeforeOf {
			if policy.NotBeforeOf[subject], err = syntax.Instant(s.Login.Range, "not_before_of "+subject, at); err != nil {
				return policy, err
			}
		}
	}
	if err := s.checkOpen(&policy); err != nil {
		return policy, err
	}
	return policy, s.Cloud.checkAnonymous(&policy)
}

// policy combines the settings file, the token file and the flags.
func (s *Settings) policy() (access.Policy, error) {
	var tokens []statictoken.Token
	var err error
	if s.TokenFile != "" {
		if tokens, err = statictoken.Read(s.TokenFile); err != nil {
			return access.Policy{}, &syntax.SettingError{Err: err}
		}
		for _, t := range tokens {
			if err = s.Cloud.checkReserved(hcl.Range{Filename: s.TokenFile}, t.Scopes); err != nil {
				return access.Policy{}, err
			}
		}
	}
	block := s.Access
	if s.AnonymousRead || s.AnonymousWrite {
		block.Anonymous = nil
	}
	policy, err := block.Policy(s.Cloud.checkReserved)
	policy.Tokens = append(tokens, policy.Tokens...)
	switch {
	case s.AnonymousWrite:
		policy.Anonymous = rights.AnonymousAll()
	case s.AnonymousRead:
		policy.Anonymous = rights.AnonymousRead()
	}
	return policy, err
}

// checkRuleIssuer refuses a rule whose issuer is not accepted: no token can match it.
func checkRuleIssuer(s *Settings, at hcl.Range, name, issuer string) error {
	if issuer == "" || s.Login != nil && s.Login.Issuer == issuer || s.acceptsIssuer(issuer) {
		return nil
	}
	return syntax.WrongAt(at, fmt.Errorf("rule %q is for tokens of %s, which are not accepted\nhint: add an issuer %q block with its audiences, or correct the name", name, issuer, issuer))
}

// acceptsIssuer reports whether there is an issuer block with this URL.
func (s *Settings) acceptsIssuer(issuer string) bool {
	for _, i := range s.Access.Issuers {
		if i.URL == issuer {
			return true
		}
	}
	return false
}

// isSilent reports whether no setting grants access to anyone.
func (s *Settings) isSilent() bool {
	hasAnonymous := s.AnonymousRead || s.AnonymousWrite || s.Access.Anonymous != nil
	hasTokens := s.TokenFile != "" || len(s.Access.Tokens) > 0
	hasRules := s.RulesFile != "" || len(s.Access.Rules) > 0
	return !hasAnonymous && !hasTokens && !hasRules && !s.Pass
}

// checkOpen grants all rights to every caller on a loopback listener if no setting grants
// access. It refuses to start on other addresses, and where modules run on this machine.
func (s *Settings) checkOpen(policy *access.Policy) error {
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return &syntax.SettingError{Err: fmt.Errorf("--listen %q: must be HOST:PORT, such as 127.0.0.1:8080", s.Listen)}
	}
	if !s.isSilent() || s.Claim.Alone { // a portal needs none: the leader decides about requests that it forwards
		return nil
	}
	if !netaddr.IsLoopback(host) {
		return &syntax.SettingError{Err: fmt.Errorf("%s is reachable from other machines, and no setting grants access\n"+
			"hint: set --token-file FILE, or --anonymous-read for a public server, or listen on 127.0.0.1", s.Listen)}
	}
	if at := s.Claim.Runs; at != nil {
		return syntax.WrongAt(*at, errors.New("no setting restricts access: every caller could publish modules, which run here\n"+
			"hint: set --token-file FILE, or anonymous = []"))
	}
	policy.Anonymous = rights.AnonymousAll()
	policy.AnyToken = true
	return nil
}

// requiredPolicies returns the policy that versions must fulfil to be served, by kind.
func (o *Origins) requiredPolicies() (map[string]trust.Policy, error) {
	all := map[string]trust.Policy{}
	for _, r := range o.Require {
		if _, ok := all[r.Kind]; ok {
			return nil, syntax.WrongAt(r.Range, fmt.Errorf("duplicate require block %q", r.Kind))
		}
		policy, err := trust.PolicyFiles{OpenPGP: r.OpenPGP, Cosign: r.Cosign, Root: r.Root, Names: r.Names, Issuer: r.Issuer, Require: r.Checks, Block: r.Block}.Read()
		if policy == nil {
			policy = &trust.Policy{}
		}
		if err == nil {
			err = catalog.ValidateRequire(r.Kind, *policy)
		}
		if err != nil {
			return nil, syntax.WrongAt(r.Range, err)
		}
		all[r.Kind] = *policy
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
		out.Direct = true
		return out, in.checkDirect(s)
	case "", "broker":
	default:
		return nil, syntax.WrongAt(in.Range, fmt.Errorf("invalid login mode %q: must be broker or direct", in.Mode))
	}
	if s.PublicURL == "" {
		return nil, syntax.WrongAt(in.Range, errors.New("login needs public_url, to which the issuer redirects browsers"))
	}
	if in.SecretFile != "" {
		b, err := files.ReadLimited(in.SecretFile, files.MaxSecret)
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

// checkDirect validates a login that is left to the issuer, whose tokens must be accepted.
func (in *Login) checkDirect(s *Settings) error {
	givesTokens := in.SecretFile != "" || in.TokenTTL != "" || in.GroupsClaim != ""
	endsSessions := in.NotBefore != "" || len(in.NotBeforeOf) > 0
	if givesTokens || endsSessions && s.UI.ClientID == "" {
		return syntax.WrongAt(in.Range, errors.New("a direct login must not set client_secret_file, token_ttl or groups_claim, and not_before only for sessions (ui.client_id): the tools get their tokens from the issuer"))
	}
	if !s.acceptsIssuer(in.Issuer) {
		return syntax.WrongAt(in.Range, fmt.Errorf("a direct login requires an issuer block %q, or its tokens would be refused", in.Issuer))
	}
	return nil
}
