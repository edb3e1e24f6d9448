// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/apparentlymart/go-versions/versions"
	"github.com/apparentlymart/go-versions/versions/constraints"
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

// Normal returns the constraint in the only form that the tools read in a lock file: each part once,
// with a full version, by version and then by operator (getproviders.VersionConstraintsString).
func (c Constraint) Normal() string {
	type part struct {
		at    versions.Version
		order int
		text  string
	}
	operators := []string{"> ", ">= ", "", "~> ", "~> ", "<= ", "< ", "!= "}
	order := []constraints.SelectionOp{
		constraints.OpGreaterThan, constraints.OpGreaterThanOrEqual, constraints.OpEqual, constraints.OpGreaterThanOrEqualPatchOnly,
		constraints.OpGreaterThanOrEqualMinorOnly, constraints.OpLessThanOrEqual, constraints.OpLessThan, constraints.OpNotEqual,
	}
	var parts []part
	spec, _ := constraints.ParseRubyStyleMulti(c.text) // ParseConstraint did
	for _, s := range spec {
		b := s.Boundary.ConstrainToZero()
		p := part{order: slices.Index(order, s.Operator)}
		if p.order < 0 {
			return c.text // no other operator is parsed
		}
		p.at = versions.Version{Major: b.Major.Num, Minor: b.Minor.Num, Patch: b.Patch.Num, Prerelease: versions.VersionExtra(b.Prerelease), Metadata: versions.VersionExtra(b.Metadata)}
		p.text = operators[p.order] + p.at.String()
		if s.Operator == constraints.OpGreaterThanOrEqualMinorOnly {
			full := fmt.Sprintf("%d.%d.%d", b.Major.Num, b.Minor.Num, b.Patch.Num)
			p.text = strings.Replace(p.text, full, fmt.Sprintf("%d.%d", b.Major.Num, b.Minor.Num), 1)
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b part) int {
		switch {
		case a.at.LessThan(b.at):
			return -1
		case b.at.LessThan(a.at):
			return 1
		}
		return cmp.Or(strings.Compare(string(a.at.Metadata), string(b.at.Metadata)), a.order-b.order)
	})
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.text)
	}
	return strings.Join(slices.Compact(texts), ", ")
}
