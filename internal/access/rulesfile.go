// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed-141914ff/okara/internal/rights"
)

// Bounds of a file of rules. A ConfigMap of Kubernetes has at most 1 MiB.
const (
	maxRulesFile  = 1 << 20
	maxFileRules  = 20_000
	maxRuleParts  = 100 // groups, claims or rights of a rule
	maxRuleText   = 1 << 10
	maxRevocation = 10_000
)

// RulesFile holds rules that a program writes, such as an operator of Kubernetes.
type RulesFile struct {
	Rules     []Rule
	NotBefore []NotBefore
}

// NotBefore revokes what a subject of an issuer got before a time: tokens, logins, sessions.
type NotBefore struct {
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"`
	Time    time.Time `json:"time"`
}

// ReadRules reads a file of rules in JSON:
//
//	{"rules": [{"name": "net", "issuer": "https://…", "groups": ["net"],
//	            "claims": {"namespace": "team-*"}, "allow": ["publish:module:net/**"]}],
//	 "not_before": [{"issuer": "https://…", "subject": "alice", "time": "2027-01-31T00:00:00Z"}]}
//
// An error names the file and the index of the rule.
func ReadRules(file string) (RulesFile, error) {
	f, err := os.Open(file)
	if err != nil {
		return RulesFile{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRulesFile+1))
	if err != nil {
		return RulesFile{}, err
	}
	rules, err := ParseRules(b)
	if err != nil {
		return RulesFile{}, fmt.Errorf("%s: %w", file, err)
	}
	return rules, nil
}

type ruleDocument struct {
	Rules     []ruleText  `json:"rules"`
	NotBefore []NotBefore `json:"not_before,omitempty"`
}

type ruleText struct {
	Name   string            `json:"name"`
	Issuer string            `json:"issuer,omitempty"`
	Groups []string          `json:"groups,omitempty"`
	Claims map[string]string `json:"claims,omitempty"`
	Allow  []string          `json:"allow"`
}

// Unconditional returns the rules that apply to every accepted token.
func (p Policy) Unconditional() (names []string) {
	for _, r := range p.Rules {
		if r.Issuer == "" && len(r.Groups) == 0 && len(r.Claims) == 0 {
			names = append(names, r.Name)
		}
	}
	return names
}

// MarshalJSON writes the file that [ParseRules] reads.
func (f RulesFile) MarshalJSON() ([]byte, error) {
	doc := ruleDocument{Rules: []ruleText{}, NotBefore: f.NotBefore}
	for _, r := range f.Rules {
		text := ruleText{Name: r.Name, Issuer: r.Issuer, Groups: r.Groups, Claims: r.Claims, Allow: []string{}}
		for _, s := range r.Allow {
			text.Allow = append(text.Allow, s.String())
		}
		doc.Rules = append(doc.Rules, text)
	}
	return json.Marshal(doc)
}

// ParseRules parses the content of a rules file, see [ReadRules].
func ParseRules(b []byte) (out RulesFile, err error) {
	if len(b) > maxRulesFile {
		return out, fmt.Errorf("rules file is larger than %d bytes", maxRulesFile)
	}
	var doc ruleDocument
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return out, fmt.Errorf("the rules are not valid JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return out, errors.New("unexpected data after the rules")
	}
	if len(doc.Rules) > maxFileRules || len(doc.NotBefore) > maxRevocation {
		return out, fmt.Errorf("more than %d rules or %d entries of not_before", maxFileRules, maxRevocation)
	}
	for i, r := range doc.Rules {
		rule := Rule{Name: r.Name, Issuer: r.Issuer, Groups: r.Groups, Claims: r.Claims}
		for _, text := range r.Allow {
			scope, err := rights.ParseRuleScope(text)
			if err != nil {
				return out, fmt.Errorf("rules[%d] %q: %w", i, r.Name, err)
			}
			rule.Allow = append(rule.Allow, scope)
		}
		if err := rule.checkBounds(); err != nil {
			return out, fmt.Errorf("rules[%d] %q: %w", i, r.Name, err)
		}
		out.Rules = append(out.Rules, rule)
	}
	for i, n := range doc.NotBefore {
		if n.Issuer == "" || n.Subject == "" || n.Time.IsZero() {
			return out, fmt.Errorf("not_before[%d]: issuer, subject and time are required", i)
		}
	}
	out.NotBefore = doc.NotBefore
	return out, nil
}

// checkBounds checks that a rule has a name and a right, and that its size is bounded.
func (r Rule) checkBounds() error {
	switch {
	case r.Name == "":
		return errors.New("a rule requires a name, which the audit log records")
	case len(r.Allow) == 0:
		return errors.New("a rule without allow grants nothing")
	case len(r.Groups) > maxRuleParts || len(r.Claims) > maxRuleParts || len(r.Allow) > maxRuleParts:
		return fmt.Errorf("more than %d groups, claims or rights", maxRuleParts)
	}
	texts := append([]string{r.Name, r.Issuer}, r.Groups...)
	for name, glob := range r.Claims {
		texts = append(texts, name, glob)
	}
	for _, s := range r.Allow {
		texts = append(texts, s.Glob)
	}
	for _, text := range texts {
		if len(text) > maxRuleText {
			return fmt.Errorf("a value is longer than %d bytes", maxRuleText)
		}
	}
	return nil
}

// Add returns the policy with the rules and revocations of a file added.
func (p Policy) Add(f RulesFile) Policy {
	p.Rules = append(p.Rules[:len(p.Rules):len(p.Rules)], f.Rules...)
	p.void = void{}
	for _, n := range f.NotBefore {
		of := holder{n.Issuer, n.Subject}
		if n.Time.After(p.void[of]) {
			p.void[of] = n.Time
		}
	}
	return p
}

// holder is a subject of an issuer.
type holder struct{ issuer, subject string }

// void maps a holder to the time before which its tokens, logins and sessions are void.
type void map[holder]time.Time

func (v void) isVoid(issuer, subject string, issued time.Time) bool {
	return issued.Before(v[holder{issuer, subject}])
}
