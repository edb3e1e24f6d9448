// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"slices"
	"strings"
)

// Match reports whether an address matches a glob: * stands for any characters
// of one segment, ** as a whole segment for any number of segments.
//
// It is called for each right of a caller, with untrusted globs and texts, so
// it allocates no slices. Like MatchText it keeps two positions: after the last
// **, and how far that ** reached. An earlier ** never has to be extended.
func Match(glob, address string) bool {
	// whether a segment is left
	g := true
	a := true
	starred := false
	behind := ""
	more := false
	reached := ""
	for a {
		want, rest, next := strings.Cut(glob, "/")
		if g && want == "**" {
			starred = true
			behind = rest
			more = next
			reached = address
			glob = rest
			g = next
			continue
		}
		segment, left, another := strings.Cut(address, "/")
		switch {
		case g && MatchText(want, segment):
			glob = rest
			g = next
			address = left
			a = another
		case starred:
			_, reached, a = strings.Cut(reached, "/")
			glob = behind
			g = more
			address = reached
		default:
			return false
		}
	}
	for g { // the address has ended
		var want string
		if want, glob, g = strings.Cut(glob, "/"); want != "**" {
			return false
		}
	}
	return true
}

// MatchBelow reports whether a glob matches an address of first and at least one more segment.
func MatchBelow(glob, first string) bool {
	want, _, more := strings.Cut(glob, "/")
	return want == "**" || more && MatchText(want, first)
}

// Covers reports whether a glob matches all that another one does; false in some doubtful cases.
func Covers(glob, other string) bool {
	outer := strings.Split(glob, "/")
	inner := strings.Split(other, "/")
	// below[j] reports whether the rest of outer covers inner[j:].
	below := make([]bool, len(inner)+1)
	below[len(inner)] = true
	for _, want := range slices.Backward(outer) {
		now := make([]bool, len(inner)+1)
		for j := len(inner); j >= 0; j-- {
			switch {
			case want == "**":
				now[j] = below[j] || j < len(inner) && now[j+1]
			case j < len(inner) && inner[j] != "**":
				now[j] = below[j+1] && MatchText(want, inner[j]) // only stars match a star of inner
			}
		}
		below = now
	}
	return below[0]
}

// MatchText matches a text without segments, * being any characters, from two positions: after the
// last star, and how far it reached.
func MatchText(glob, s string) bool {
	g := 0
	i := 0
	star := -1
	mark := 0
	for i < len(s) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star = g
			mark = i
			g++
		case g < len(glob) && glob[g] == s[i]:
			g++
			i++
		case star >= 0:
			mark++
			g = star + 1
			i = mark
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
