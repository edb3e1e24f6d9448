// SPDX-License-Identifier: Apache-2.0

package site

import (
	"net/url"
	"strings"
	"unicode"
)

// isLocalPath reports whether a URL is on this server, which means that it is only a path.
func isLocalPath(u *url.URL) bool {
	return !u.IsAbs() && u.Host == "" && u.Opaque == "" && u.User == nil
}

// Back validates the path of a page, /ui/…, that came with a request. It returns the part
// below /ui/, with its query, or "" if the path is not a page of this server. A browser
// treats a backslash as a slash, drops tabs and line feeds, and treats %2e as a dot.
func Back(path string) string {
	rest, ok := strings.CutPrefix(path, "/ui/")
	if !ok || len(path) > maxReturn || strings.ContainsFunc(path, func(c rune) bool { return c == '\\' || unicode.IsControl(c) || c == unicode.ReplacementChar }) {
		return ""
	}
	u, err := url.Parse(path)
	if err != nil || !isLocalPath(u) {
		return ""
	}
	for _, c := range u.Path {
		if c == '\\' || unicode.IsControl(c) {
			return ""
		}
	}
	startPage := rest == "" || u.Path == "/ui/"
	for segment := range strings.SplitSeq(strings.TrimSuffix(u.Path[len("/ui/"):], "/"), "/") {
		dots := segment == "." || segment == ".."
		if dots || segment == "" && !startPage {
			return ""
		}
	}
	to := strings.TrimPrefix(u.EscapedPath(), "/ui/")
	if u.RawQuery != "" {
		to += "?" + u.RawQuery
	}
	return to
}

// maxReturn bounds the address of a page to return to.
const maxReturn = 2 << 10
