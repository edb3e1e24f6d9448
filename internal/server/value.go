// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// scopes reads rights.
func (s *Settings) scopes(at hcl.Range, list []string) ([]access.Scope, error) {
	return s.parseScopes(at, list, access.ParseScope)
}

// ruleScopes reads the rights of a rule.
func (s *Settings) ruleScopes(at hcl.Range, list []string) ([]access.Scope, error) {
	return s.parseScopes(at, list, access.ParseRuleScope)
}

func (s *Settings) parseScopes(at hcl.Range, list []string, parse func(string) (access.Scope, error)) ([]access.Scope, error) {
	out := make([]access.Scope, 0, len(list))
	for _, value := range list {
		scope, err := parse(value)
		if err != nil {
			return nil, syntax.WrongAt(at, err)
		}
		out = append(out, scope)
	}
	return out, s.checkReserved(at, out)
}

func prefixes(at hcl.Range, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, value := range list {
		p, err := netip.ParsePrefix(value)
		if err != nil {
			return nil, syntax.WrongAt(at, fmt.Errorf("%q is not a network such as 10.0.0.0/8", value))
		}
		out = append(out, p)
	}
	return out, nil
}

func instant(at hcl.Range, name, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return t, syntax.WrongAt(at, fmt.Errorf("%s %q is not a time such as 2027-01-31T00:00:00Z", name, value))
	}
	return t, nil
}
