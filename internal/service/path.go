// SPDX-License-Identifier: Apache-2.0

package service

import "strings"

// CleanPath reports whether no segment is empty, relative or unprintable: muxes redirect those.
func CleanPath(path string) bool {
	if !strings.HasPrefix(path, "/") {
		return false
	}
	if path == "/" {
		return true
	}
	for _, c := range path {
		if c < 0x20 || c == 0x7f {
			return false
		}
	}
	for segment := range strings.SplitSeq(strings.TrimSuffix(path[1:], "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}
