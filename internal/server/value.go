// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/text"
)

// Duration is a length of time as it is written: "90s", "4h". It implements
// pflag.Value; what is not set by [Duration.Set] is checked by [Settings.Read].
type Duration string

// Set takes what [time.ParseDuration] does.
func (d *Duration) Set(value string) error {
	if _, err := time.ParseDuration(value); err != nil {
		return err
	}
	*d = Duration(value)
	return nil
}

// Type is the word for it in the help of a command.
func (d *Duration) Type() string { return "duration" }

func (d *Duration) String() string { return string(*d) }

func (d Duration) value() time.Duration {
	v, _ := time.ParseDuration(string(d)) // checked when it was set
	return v
}

func checkDuration(at hcl.Range, name string, d Duration) error {
	if v, err := time.ParseDuration(string(d)); d != "" && (err != nil || v <= 0) {
		return settingError(at, fmt.Errorf("%s %q is not a duration such as \"4h\" or \"30s\"", name, string(d)))
	}
	return nil
}

// Size is a number of bytes as it is written: "20GiB", "500MB". It implements
// pflag.Value; what is not set by [Size.Set] is checked by [Settings.Read].
type Size string

// Set takes a number and a unit.
func (s *Size) Set(words string) error {
	if _, err := text.ParseSize(words); err != nil {
		return err
	}
	*s = Size(words)
	return nil
}

// Type is the word for it in the help of a command.
func (s *Size) Type() string { return "size" }

func (s *Size) String() string { return string(*s) }

func (s Size) value() int64 {
	n, _ := text.ParseSize(string(s)) // checked when it was set; "" is 0
	return n
}

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
			return nil, settingError(at, err)
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
			return nil, settingError(at, fmt.Errorf("%q is not a network such as 10.0.0.0/8", value))
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
		return t, settingError(at, fmt.Errorf("%s %q is not a time such as 2027-01-31T00:00:00Z", name, value))
	}
	return t, nil
}
