// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"slices"
	"strings"
)

// Match reports whether an address matches a glob: * stands for any
// characters of one segment, ** as a whole segment for any number of segments.
func Match(glob, address string) bool { return matchRest(glob, true, address, true) }

// MatchBelow reports whether a glob matches some address of at least two segments
// that begins with this one.
func MatchBelow(glob, first string) bool {
	want, _, more := strings.Cut(glob, "/")
	return want == "**" || more && MatchText(want, first)
}

// Covers reports whether a glob matches every address that another glob matches. It
// may say no where only the kinds of names that there are make it so.
func Covers(glob, other string) bool {
	outer, inner := strings.Split(glob, "/"), strings.Split(other, "/")
	// below[j] is whether the rest of outer covers inner[j:].
	below := make([]bool, len(inner)+1)
	below[len(inner)] = true
	for _, want := range slices.Backward(outer) {
		now := make([]bool, len(inner)+1)
		for j := len(inner); j >= 0; j-- {
			switch {
			case want == "**":
				now[j] = below[j] || j < len(inner) && now[j+1]
			case j < len(inner) && inner[j] != "**":
				now[j] = below[j+1] && MatchText(want, inner[j]) // a star of inner is matched by stars alone
			}
		}
		below = now
	}
	return below[0]
}

// matchRest matches what is left of both; g and a say whether that is a segment
// at all. It is asked for each right of a caller, so it makes no slices.
func matchRest(glob string, g bool, address string, a bool) bool {
	for g {
		var want, segment string
		want, glob, g = strings.Cut(glob, "/")
		if want == "**" {
			for !matchRest(glob, g, address, a) {
				if !a {
					return false
				}
				_, address, a = strings.Cut(address, "/")
			}
			return true
		}
		if !a {
			return false
		}
		segment, address, a = strings.Cut(address, "/")
		if !MatchText(want, segment) {
			return false
		}
	}
	return !a
}

// MatchText reports whether a text without segments matches a glob, in which * stands
// for any characters. It keeps the usual two positions: behind the last star, and how
// far that star reached.
func MatchText(glob, s string) bool {
	g, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, i
			g++
		case g < len(glob) && glob[g] == s[i]:
			g++
			i++
		case star >= 0:
			mark++
			g, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
