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
)

// Problem is one place where a value does not fit.
type Problem struct {
	Path []string // names and indices that lead to it
	Text string   // without the value
}

// Validate returns what is wrong with a value, which has the types of [Compile]; none
// for one that fits.
func (s *Schema) Validate(v any) []Problem {
	var all []Problem
	s.check(v, nil, &all)
	return all
}

func (s *Schema) fits(v any) bool { return len(s.Validate(v)) == 0 }

// check looks at one value. What is of a type that no keyword speaks of fits it.
func (s *Schema) check(v any, at []string, all *[]Problem) {
	say := func(text string) { *all = append(*all, Problem{slices.Clone(at), text}) }
	kind := typeOf(v)
	if s.never {
		say("is not allowed")
		return
	}
	if len(s.types) > 0 && !s.hasType(kind, v) {
		say("is " + kind + ", not " + strings.Join(s.types, " or "))
		return
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(want any) bool { return equal(want, v) }) {
		say(s.enumWord)
	}
	switch v := v.(type) {
	case string:
		s.count(kind, utf8.RuneCountInString(v), say)
		if s.pattern != nil && !s.pattern.MatchString(v) {
			say("does not match " + s.pattern.String())
		}
	case []any:
		s.count(kind, len(v), say)
		s.checkArray(v, at, all)
	case map[string]any:
		s.count(kind, len(v), say)
		s.checkObject(v, at, all)
	default:
		s.checkNumber(v, say)
	}
	s.checkGroups(v, at, all)
}

func (s *Schema) hasType(kind string, v any) bool {
	if slices.Contains(s.types, kind) {
		return true
	}
	n, ok := number(v)
	return ok && n.IsInt() && slices.Contains(s.types, "integer")
}

func (s *Schema) count(kind string, n int, say func(string)) {
	for _, c := range s.counts {
		if c.kind == kind && !c.ok(n) {
			say(fmt.Sprintf(c.text, n))
		}
	}
}

func (s *Schema) checkNumber(v any, say func(string)) {
	n, ok := number(v)
	if !ok {
		return
	}
	for _, b := range s.bounds {
		if !b.ok(n) {
			say(b.text)
		}
	}
}

func (s *Schema) checkArray(v []any, at []string, all *[]Problem) {
	if s.unique && repeated(v) {
		*all = append(*all, Problem{slices.Clone(at), "has an element twice"})
	}
	for i, element := range v {
		inner := s.items
		if i < len(s.prefix) {
			inner = s.prefix[i]
		}
		if inner != nil {
			inner.check(element, append(at, strconv.Itoa(i)), all)
		}
	}
}

func (s *Schema) checkObject(v map[string]any, at []string, all *[]Problem) {
	for _, name := range s.required {
		if _, ok := v[name]; !ok {
			*all = append(*all, Problem{append(slices.Clone(at), name), "is missing"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		s.checkField(name, v[name], append(at, name), all)
	}
}

func (s *Schema) checkField(name string, v any, at []string, all *[]Problem) {
	if s.names != nil && !s.names.fits(name) {
		*all = append(*all, Problem{slices.Clone(at), "no field may have this name"})
	}
	inner, known := s.properties[name]
	if known {
		inner.check(v, at, all)
	}
	for _, p := range s.patterns {
		if p.name.MatchString(name) {
			known = true
			p.s.check(v, at, all)
		}
	}
	switch {
	case known || s.additional == nil:
	case s.additional.never:
		*all = append(*all, Problem{slices.Clone(at), "there is no such field"})
	default:
		s.additional.check(v, at, all)
	}
}

// checkGroups looks at the keywords that join schemas. Of allOf and of the branch that a
// condition takes each problem is told; of the others only that none fits, since nobody
// knows which one was meant.
func (s *Schema) checkGroups(v any, at []string, all *[]Problem) {
	say := func(keyword string) { *all = append(*all, Problem{slices.Clone(at), "is not allowed: " + keyword}) }
	for _, g := range s.groups {
		fit := 0
		for _, inner := range g.list {
			if g.keyword == "allOf" {
				inner.check(v, at, all)
			} else if inner.fits(v) {
				fit++
			}
		}
		if g.keyword == "anyOf" && fit == 0 || g.keyword == "oneOf" && fit != 1 {
			say(g.keyword)
		}
	}
	if s.not != nil && s.not.fits(v) {
		say("not")
	}
	if s.condition == nil {
		return
	}
	branch := s.otherwise
	if s.condition.fits(v) {
		branch = s.then
	}
	if branch != nil {
		branch.check(v, at, all)
	}
}

// typeOf is the name of a value's type; a whole number is a number, too.
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

// number reads a number exactly.
func number(v any) (*big.Rat, bool) {
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

// equal is equality of JSON: 1 is 1.0, and objects have no order.
func equal(a, b any) bool { return canonical(a) == canonical(b) }

// canonical is the one text of a value.
func canonical(v any) string {
	switch v := v.(type) {
	case []any:
		list := make([]string, 0, len(v))
		for _, element := range v {
			list = append(list, canonical(element))
		}
		return "[" + strings.Join(list, ",") + "]"
	case map[string]any:
		list := make([]string, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			list = append(list, strconv.Quote(name)+":"+canonical(v[name]))
		}
		return "{" + strings.Join(list, ",") + "}"
	case string:
		return strconv.Quote(v)
	case nil, bool:
		return fmt.Sprint(v)
	}
	if n, ok := number(v); ok {
		return n.RatString()
	}
	return fmt.Sprintf("%T", v)
}

func repeated(list []any) bool {
	seen := make(map[string]bool, len(list))
	for _, v := range list {
		seen[canonical(v)] = true
	}
	return len(seen) < len(list)
}
