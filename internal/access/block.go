// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// Block holds the access settings of a configuration file.
type Block struct {
	Anonymous      []string      `hcl:"anonymous,optional"` // rights of requests without a token
	AnonymousRange hcl.Range     `hcl:"anonymous,attr_value_range"`
	Tokens         []tokenBlock  `hcl:"token,block"`
	Issuers        []issuerBlock `hcl:"issuer,block"`
	Rules          []ruleBlock   `hcl:"rule,block"`
}

// tokenBlock is a static token; the label is its id.
type tokenBlock struct {
	ID      string    `hcl:"id,label"`
	SHA256  string    `hcl:"sha256"`           // of the whole token
	Scopes  []string  `hcl:"scopes"`           // its rights
	Expires string    `hcl:"expires,optional"` // when it ends
	Range   hcl.Range `hcl:",def_range"`
}

// issuerBlock is an issuer whose JWTs are accepted; the label is the claim "iss".
type issuerBlock struct {
	URL         string    `hcl:"url,label"`
	Audiences   []string  `hcl:"audiences"`                      // a token must have one of them
	GroupsClaim string    `hcl:"groups_claim,optional"`          // the claim with the groups
	KeysFile    string    `hcl:"jwks_file,optional" path:"file"` // file with its keys; nothing is fetched then
	CAFile      string    `hcl:"ca_file,optional" path:"file"`   // PEM certificates to trust besides the system's when keys are fetched
	Range       hcl.Range `hcl:",def_range"`
}

// ruleBlock gives rights to tokens of issuers. The rights of all matching rules add up.
type ruleBlock struct {
	Name   string            `hcl:"name,label"`
	Issuer string            `hcl:"issuer,optional"` // this and the next two conditions must all hold
	Groups []string          `hcl:"groups,optional"` // the token has one of them
	Claims map[string]string `hcl:"claims,optional"` // the token has all of them
	Allow  []string          `hcl:"allow"`           // the rights
	Range  hcl.Range         `hcl:",def_range"`
}

// Policy converts the block. The function check may refuse the rights of one line; nil
// accepts all. Errors are those of a [syntax.SettingError].
func (b *Block) Policy(check func(at hcl.Range, scopes []rights.Scope) error) (p Policy, err error) {
	if check == nil {
		check = func(hcl.Range, []rights.Scope) error { return nil }
	}
	scopes := func(at hcl.Range, list []string, parse func(string) (rights.Scope, error)) ([]rights.Scope, error) {
		all := make([]rights.Scope, 0, len(list))
		for _, words := range list {
			scope, err := parse(words)
			if err != nil {
				return nil, syntax.WrongAt(at, err)
			}
			all = append(all, scope)
		}
		return all, check(at, all)
	}
	if b.Anonymous != nil {
		if p.Anonymous, err = scopes(b.AnonymousRange, b.Anonymous, rights.ParseScope); err != nil {
			return p, err
		}
	}
	for _, t := range b.Tokens {
		token, err := t.newToken()
		if err != nil {
			return p, err
		}
		if token.Scopes, err = scopes(t.Range, t.Scopes, rights.ParseScope); err != nil {
			return p, err
		}
		p.Tokens = append(p.Tokens, token)
	}
	for _, i := range b.Issuers {
		issuer, err := i.issuer()
		if err != nil {
			return p, err
		}
		p.Issuers = append(p.Issuers, issuer)
	}
	for _, r := range b.Rules {
		allow, err := scopes(r.Range, r.Allow, rights.ParseRuleScope)
		if err != nil {
			return p, err
		}
		p.Rules = append(p.Rules, Rule{Name: r.Name, Issuer: r.Issuer, Groups: r.Groups, Claims: r.Claims, Allow: allow})
	}
	return p, nil
}

// newToken returns the token without its rights.
func (t tokenBlock) newToken() (statictoken.Token, error) {
	hash, err := hex.DecodeString(strings.TrimPrefix(t.SHA256, "sha256:")) // as printed
	if err != nil || len(hash) != 32 {
		return statictoken.Token{}, syntax.WrongAt(t.Range, errors.New("sha256 is not 64 hexadecimal digits; it is the hash of the whole token"))
	}
	expires, err := syntax.Instant(t.Range, "expires", t.Expires)
	return statictoken.Token{ID: t.ID, Hash: [32]byte(hash), Expires: expires}, err
}

func (i issuerBlock) issuer() (Issuer, error) {
	out := Issuer{URL: i.URL, Audiences: i.Audiences, GroupsClaim: i.GroupsClaim, KeysFile: i.KeysFile}
	switch {
	case len(i.Audiences) == 0:
		return out, syntax.WrongAt(i.Range, errors.New("an issuer needs at least one audience"))
	case i.KeysFile != "" && i.CAFile != "":
		return out, syntax.WrongAt(i.Range, errors.New("with jwks_file nothing is fetched: omit ca_file"))
	case i.KeysFile != "":
		if _, err := readKeysFile(i.KeysFile); err != nil {
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
