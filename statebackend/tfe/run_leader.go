// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"net/http"
	"strings"
)

// ForLeader reports whether a request below /api/v2/ is about runs, so that one of
// several servers decides: the one that executes them. path is that of the request
// without what stands before /api/v2/. Uploads are not among them, which are large
// and need the registry only.
func ForLeader(r *http.Request, path string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	part := strings.Split(rest, "/")
	if !ok {
		return false
	}
	last := part[len(part)-1]
	switch part[0] {
	case "runs", "plans", "applies", "logs":
		return true
	case "organizations":
		switch {
		case len(part) == 4 && part[2] == "runs", len(part) == 3 && part[2] == "capacity":
			return true
		case len(part) < 4 || part[2] != "workspaces":
			return false
		}
		return r.Method == http.MethodDelete || last == "safe-delete"
	case "workspaces":
		switch last {
		case "configuration-versions", "runs", "safe-delete", "force-unlock":
			return true
		}
		return len(part) == 2 && r.Method == http.MethodDelete
	}
	return false
}

// Signed reports whether the right to a path is in the path, such as that to a log: the
// tools send no token there.
func Signed(path string) bool {
	return strings.HasPrefix(path, prefix+"logs/") || strings.HasPrefix(path, prefix+"uploads/")
}
