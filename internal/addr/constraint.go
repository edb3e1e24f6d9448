// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"strings"

	"github.com/apparentlymart/go-versions/versions"
)

// Constraint is a set of versions, as in a module block. The zero value allows every release.
type Constraint struct {
	text string
	set  *versions.Set
}

// ParseConstraint parses "~> 1.0, != 1.0.3". An empty text allows every release.
func ParseConstraint(s string) (Constraint, error) {
	if strings.TrimSpace(s) == "" {
		return Constraint{}, nil
	}
	set, err := versions.MeetingConstraintsStringRuby(s)
	if err != nil {
		why := err.Error()
		if strings.HasSuffix(why, `after ""`) || strings.HasPrefix(why, "missing comma") { // no part of it was understood
			why = "must be a version or constraint such as 1.2.3 or ~> 1.2"
		}
		return Constraint{}, syntaxError("version constraint", s, "%s", why)
	}
	return Constraint{text: s, set: &set}, nil
}

// Allows reports whether v is selected: a pre-release, or edition, only by its exact name.
func (c Constraint) Allows(v Version) bool {
	if c.set == nil {
		return !v.Prerelease()
	}
	parsed, err := versions.ParseVersion(v.s)
	return err == nil && c.set.Has(parsed)
}

// String returns the text the constraint was parsed from.
func (c Constraint) String() string { return c.text }
