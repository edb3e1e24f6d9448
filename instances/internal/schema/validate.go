// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/text"
)

// Problem is one place where a value does not fit a schema.
type Problem struct {
	Path []string // names and indices that lead to the place
	Text string   // without the value
}

// Validate returns what is wrong with a value, which has the types of [Compile]: at most
// 20 problems, none if it fits. A value that would take too long to check does not fit.
func (s *Schema) Validate(v any) []Problem {
	r := &run{left: maxSteps}
	s.checkValue(v, nil, r)
	if r.left < 0 {
		return []Problem{{nil, "too large to check"}}
	}
	return r.problems
}

// run is the check of one value.
type run struct {
	left     int // of maxSteps; below 0 the result is invalid
	problems []Problem
}

func (r *run) addProblem(at []string, text string) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, Problem{slices.Clone(at), text})
	}
}

// fitsSchema checks without reporting problems.
func (r *run) fitsSchema(s *Schema, v any) bool {
	inner := &run{left: r.left}
	s.checkValue(v, nil, inner)
	r.left = inner.left
	return len(inner.problems) == 0
}

func (r *run) matchesPattern(p pattern, text string) bool {
	r.left -= 1 + p.size*len(text)/16
	return r.left < 0 || p.MatchString(text)
}

// checkValue checks one value. A keyword for another type has no effect.
func (s *Schema) checkValue(v any, at []string, r *run) {
	if r.left -= 1 + len(s.required); r.left < 0 {
		return
	}
	kind := typeOf(v)
	if s.never {
		r.addProblem(at, "is not allowed")
		return
	}
	if len(s.types) > 0 && !s.hasType(kind, v) {
		r.addProblem(at, "is "+kind+", not "+strings.Join(s.types, " or "))
		return
	}
	s.checkChoices(v, at, r)
	switch v := v.(type) {
	case string:
		s.checkCount("Length", "character", utf8.RuneCountInString(v), at, r)
		if s.pattern.size > 0 && !r.matchesPattern(s.pattern, v) {
			r.addProblem(at, "does not match "+s.pattern.String())
		}
	case []any:
		s.checkCount("Items", "element", len(v), at, r)
		s.checkArray(v, at, r)
	case map[string]any:
		s.checkCount("Properties", "field", len(v), at, r)
		s.checkObject(v, at, r)
	case json.Number, float64, int:
		s.checkNumber(v, at, r)
	}
	s.checkGroups(v, at, r)
}

func (s *Schema) hasType(kind string, v any) bool {
	if slices.Contains(s.types, kind) {
		return true
	}
	n, ok := exactNumber(v)
	return ok && n.IsInt() && slices.Contains(s.types, "integer")
}

func (s *Schema) checkChoices(v any, at []string, r *run) {
	if len(s.choices) == 0 {
		return
	}
	text := canonicalText(v)
	r.left -= len(text) / 16
	for _, c := range s.choices {
		r.left -= len(c.values) / 16
		if !slices.Contains(c.values, text) {
			r.addProblem(at, c.text)
		}
	}
}

func (s *Schema) checkCount(keyword, unit string, n int, at []string, r *run) {
	r.left -= n / 16
	if minimum, ok := s.counts["min"+keyword]; ok && int64(n) < minimum {
		r.addProblem(at, fmt.Sprintf("has %s, at least %d required", text.Plural(n, unit), minimum))
	}
	if maximum, ok := s.counts["max"+keyword]; ok && int64(n) > maximum {
		r.addProblem(at, fmt.Sprintf("has %s, the limit is %d", text.Plural(n, unit), maximum))
	}
}

func (s *Schema) checkNumber(v any, at []string, r *run) {
	n, ok := exactNumber(v)
	if !ok {
		r.addProblem(at, "is too large")
		return
	}
	for _, keyword := range slices.Sorted(maps.Keys(s.bounds)) {
		if word := describeBeyond(keyword, n, s.bounds[keyword]); word != "" {
			limit, _ := s.bounds[keyword].Float64()
			r.addProblem(at, word+strconv.FormatFloat(limit, 'f', -1, 64))
		}
	}
}

// describeBeyond describes a violated bound, as the text before the limit; "" if n is within it.
func describeBeyond(keyword string, n, limit *big.Rat) string {
	order := n.Cmp(limit)
	switch {
	case keyword == "minimum" && order < 0:
		return "is less than "
	case keyword == "exclusiveMinimum" && order <= 0:
		return "is not greater than "
	case keyword == "maximum" && order > 0:
		return "is greater than "
	case keyword == "exclusiveMaximum" && order >= 0:
		return "is not less than "
	case keyword == "multipleOf" && !new(big.Rat).Quo(n, limit).IsInt():
		return "is not a multiple of "
	}
	return ""
}

func (s *Schema) checkArray(v []any, at []string, r *run) {
	if s.unique && r.hasRepeated(v) {
		r.addProblem(at, "has an element twice")
	}
	for i, element := range v {
		inner := s.items
		if i < len(s.prefix) {
			inner = s.prefix[i]
		}
		if inner != nil {
			inner.checkValue(element, append(at, strconv.Itoa(i)), r)
		}
	}
}

func (s *Schema) checkObject(v map[string]any, at []string, r *run) {
	for _, name := range s.required {
		if _, ok := v[name]; !ok {
			r.addProblem(append(at, name), "is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		s.checkField(name, v[name], append(at, name), r)
	}
}

func (s *Schema) checkField(name string, v any, at []string, r *run) {
	r.left--
	if s.names != nil && !r.fitsSchema(s.names, name) {
		r.addProblem(at, "field name is not allowed")
	}
	inner, known := s.properties[name]
	if known {
		inner.checkValue(v, at, r)
	}
	for _, p := range s.patterns {
		if r.matchesPattern(p.name, name) {
			known = true
			p.s.checkValue(v, at, r)
		}
	}
	switch {
	case known || s.additional == nil:
	case s.additional.never:
		r.addProblem(at, "unknown field")
	default:
		s.additional.checkValue(v, at, r)
	}
}

// checkGroups checks the keywords that combine schemas. Each problem of allOf and of the
// branch of a condition is reported; for the others only that none fits, since it is
// unknown which one was meant.
func (s *Schema) checkGroups(v any, at []string, r *run) {
	for _, g := range s.groups {
		fit := 0
		for _, inner := range g.list {
			if g.keyword == "allOf" {
				inner.checkValue(v, at, r)
			} else if r.fitsSchema(inner, v) {
				fit++
			}
		}
		if g.keyword == "anyOf" && fit == 0 || g.keyword == "oneOf" && fit != 1 {
			r.addProblem(at, "is not allowed: "+g.keyword)
		}
	}
	if s.not != nil && r.fitsSchema(s.not, v) {
		r.addProblem(at, "is not allowed: not")
	}
	if s.condition == nil {
		return
	}
	branch := s.otherwise
	if r.fitsSchema(s.condition, v) {
		branch = s.then
	}
	if branch != nil {
		branch.checkValue(v, at, r)
	}
}

// typeOf returns the name of a value's type; a whole number is a number.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

func exactNumber(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case json.Number:
		return new(big.Rat).SetString(string(v))
	case float64:
		r := new(big.Rat).SetFloat64(v)
		return r, r != nil
	case int:
		return new(big.Rat).SetInt64(int64(v)), true
	}
	return nil, false
}

// canonicalText returns the same text for values that are equal in JSON: 1 equals 1.0, and
// objects are unordered.
func canonicalText(v any) string {
	switch v := v.(type) {
	case []any:
		list := make([]string, 0, len(v))
		for _, element := range v {
			list = append(list, canonicalText(element))
		}
		return "[" + strings.Join(list, ",") + "]"
	case map[string]any:
		list := make([]string, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			list = append(list, strconv.Quote(name)+":"+canonicalText(v[name]))
		}
		return "{" + strings.Join(list, ",") + "}"
	case string:
		return strconv.Quote(v)
	case nil, bool:
		return fmt.Sprint(v)
	}
	if n, ok := exactNumber(v); ok {
		return n.RatString()
	}
	return fmt.Sprintf("%T", v)
}

func (r *run) hasRepeated(list []any) bool {
	seen := make(map[string]bool, len(list))
	for _, v := range list {
		text := canonicalText(v)
		r.left -= 1 + len(text)/16
		seen[text] = true
	}
	return len(seen) < len(list)
}
