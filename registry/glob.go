// SPDX-License-Identifier: Apache-2.0

package registry

import "strings"

// globMatch reports whether an address matches a glob: * stands for any
// characters of one segment, ** as a whole segment for any number of segments.
func globMatch(glob, address string) bool {
	return matchSegments(strings.Split(glob, "/"), strings.Split(address, "/"))
}

func matchSegments(glob, address []string) bool {
	for len(glob) > 0 {
		if glob[0] == "**" {
			for i := range len(address) + 1 {
				if matchSegments(glob[1:], address[i:]) {
					return true
				}
			}
			return false
		}
		if len(address) == 0 || !matchSegment(glob[0], address[0]) {
			return false
		}
		glob, address = glob[1:], address[1:]
	}
	return len(address) == 0
}

// matchSegment matches with the usual two positions: behind the last star, and
// how far that star reached.
func matchSegment(glob, s string) bool {
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
