// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"slices"
	"strconv"
	"strings"
)

// token is a part of a template between "/" or ".": a literal or a placeholder.
type token struct {
	literal, placeholder string
	dotted               bool // the value itself may contain dots
	numbered             bool // the literal may be followed by "-2", "-3" and so on
}

const prefixSlash = "{prefix}/"

func withPrefix(template, prefix string) string {
	rest, ok := strings.CutPrefix(template, prefixSlash)
	switch {
	case !ok:
		return template
	case prefix == "":
		return rest
	}
	return prefix + "/" + rest
}

// segments splits the template at "/", and each segment at ".".
func (k layoutKind) segments(prefix string) [][]token {
	var segments [][]token
	for segment := range strings.SplitSeq(withPrefix(k.template, prefix), "/") {
		var tokens []token
		for part := range strings.SplitSeq(segment, ".") {
			name, ok := parsePlaceholder(part)
			if !ok {
				tokens = append(tokens, token{literal: part})
				continue
			}
			tokens = append(tokens, token{placeholder: name, dotted: name == "hostname" || k.kind == KindState})
		}
		segments = append(segments, tokens)
	}
	if k.kind == KindLedger {
		last := segments[len(segments)-1]
		last[len(last)-1].numbered = true
	}
	return segments
}

func parsePlaceholder(part string) (string, bool) {
	if !strings.HasPrefix(part, "{") || !strings.HasSuffix(part, "}") {
		return "", false
	}
	return part[1 : len(part)-1], true
}

// validate checks one template by itself.
func (k layoutKind) validate(prefix string) error {
	what := "layout of " + k.kind
	var found []string
	for _, tokens := range k.segments(prefix) {
		for i, t := range tokens {
			switch {
			case t.placeholder == "" && segmentRule().whyInvalid(t.literal) != "":
				return syntaxError(what, k.template, "%q: placeholders must stand alone between / or ., and everything else must be a-z, 0-9, - or _", t.literal)
			case t.placeholder == "prefix":
				return syntaxError(what, k.template, "{prefix} must be the first segment")
			case t.dotted && i != 0:
				return syntaxError(what, k.template, "{hostname} and the state {name} must come first in their segment")
			case t.placeholder != "":
				found = append(found, t.placeholder)
			}
		}
	}
	slices.Sort(found)
	var allowed []string
	for _, set := range k.placeholders {
		if slices.Equal(found, slices.Sorted(slices.Values(set))) {
			return nil
		}
		if len(set) == 0 {
			allowed = append(allowed, "none")
			continue
		}
		allowed = append(allowed, "{"+strings.Join(set, "}, {")+"}")
	}
	return syntaxError(what, k.template, "must have the placeholders %s, each once", strings.Join(allowed, " or "))
}

func matchTemplate(template [][]token, name string) (map[string]string, bool) {
	segments := strings.Split(name, "/")
	if len(segments) != len(template) {
		return nil, false
	}
	values := map[string]string{}
	for i, tokens := range template {
		parts := strings.Split(segments[i], ".")
		if extra := len(parts) - len(tokens); extra > 0 && tokens[0].dotted {
			parts = append([]string{strings.Join(parts[:extra+1], ".")}, parts[extra+1:]...)
		}
		if len(parts) != len(tokens) {
			return nil, false
		}
		for j, t := range tokens {
			switch {
			case t.numbered && parts[j] != t.literal:
				number, ok := numberOf(t.literal, parts[j])
				if !ok {
					return nil, false
				}
				values["number"] = number
			case t.placeholder == "" && t.literal != parts[j]:
				return nil, false
			case t.placeholder != "":
				values[t.placeholder] = parts[j]
			}
		}
	}
	return values, true
}

// numberOf returns the number, at least 2, after literal and a dash.
func numberOf(literal, part string) (string, bool) {
	number, ok := strings.CutPrefix(part, literal+"-")
	k, err := strconv.ParseUint(number, 10, 31)
	return number, ok && err == nil && k >= 2 && strconv.FormatUint(k, 10) == number
}

// mayOverlap reports whether two templates may produce one name; in doubt true.
func mayOverlap(a, b [][]token) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !overlapSegment(a[i], b[i]) {
			return false
		}
	}
	return true
}

// overlapSegment compares from the right: a part that may contain dots comes first.
func overlapSegment(a, b []token) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < len(b) && !a[0].dotted {
		return false // a has fewer dots than the minimum of b
	}
	for i := 1; i <= len(a); i++ {
		ta := a[len(a)-i]
		tb := b[len(b)-i]
		if ta.dotted || tb.dotted {
			return true
		}
		if !overlapToken(ta, tb) {
			return false
		}
	}
	return true
}

func overlapToken(a, b token) bool {
	switch {
	case a.placeholder == "" && b.placeholder == "":
		_, numberBehindA := numberOf(a.literal, b.literal)
		_, numberBehindB := numberOf(b.literal, a.literal)
		aBecomesB := a.numbered && numberBehindA
		bBecomesA := b.numbered && numberBehindB
		return a.literal == b.literal || aBecomesB || bBecomesA
	case a.placeholder == "":
		return nameRule().whyInvalid(a.literal) == ""
	case b.placeholder == "":
		return nameRule().whyInvalid(b.literal) == ""
	}
	return true
}
