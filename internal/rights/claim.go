// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
)

// Names by the OCI grammar, which allows neither globs nor "..".
var (
	claimName  = text.Pattern(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$`)
	claimNames = text.Pattern(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
)

// maxClaim bounds the value of a claim in a right, in bytes.
const maxClaim = 255

// ParseRuleScope is [ParseScope] for a rule, whose glob may name claims: {namespace} is one OCI
// name, {module...} several joined by "/".
func ParseRuleScope(s string) (Scope, error) {
	scope, err := parseScope(s)
	if err != nil {
		return scope, err
	}
	if _, err := scope.Fill(func(string) (string, bool) { return "x", true }); err != nil {
		return Scope{}, fmt.Errorf("scope %q: %w", s, err)
	}
	return scope, nil
}

var (
	errNoClaim = errors.New("claim missing from the token, or its value is not a name")
	errBraces  = errors.New("{ and } must enclose the name of a claim, such as {namespace} or {module...}")
)

// Fill replaces the names of claims in the glob by their values.
func (s Scope) Fill(claim func(name string) (string, bool)) (Scope, error) {
	if !strings.ContainsAny(s.Glob, "{}") {
		return s, nil
	}
	var b strings.Builder
	rest := s.Glob
	for rest != "" {
		before, after, found := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return Scope{}, errBraces
		}
		b.WriteString(before)
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		if !closed || name == "" || strings.Contains(name, "{") {
			return Scope{}, errBraces
		}
		grammar := claimName
		name, several := strings.CutSuffix(name, "...")
		if several {
			grammar = claimNames
		}
		if name == "" {
			return Scope{}, errBraces
		}
		text, ok := claim(name)
		if !ok || len(text) > maxClaim || !grammar().MatchString(text) {
			return Scope{}, errNoClaim
		}
		b.WriteString(text)
		rest = behind
	}
	s.Glob = b.String()
	return s, nil
}

var braces = text.Pattern(`\{[^{}]*\}`)

// Within reports whether the scope lies within a glob of the same kind, whatever values
// its claims have. The result is false if the glob names claims.
func (s Scope) Within(glob string) bool {
	if strings.ContainsAny(glob, "{}") {
		return false
	}
	const several = "\x00" // names joined by "/"
	inner := braces().ReplaceAllStringFunc(s.Glob, func(claim string) string {
		if strings.HasSuffix(claim, "...}") {
			return several
		}
		return "*"
	})
	part := strings.Split(inner, "/")
	for i, p := range part {
		if strings.Contains(p, several) {
			part[i] = Everything
		}
	}
	return addr.Covers(glob, strings.Join(part, "/"))
}
