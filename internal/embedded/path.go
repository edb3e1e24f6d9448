// SPDX-License-Identifier: Apache-2.0

package embedded

import "strings"

// Host is the host name for requests of a server to its own registry. Such
// requests never leave the process.
const Host = "okara.invalid"

// RepositoryOf returns the repository in a path of the distribution API, "" for
// a path without one. Repository names may contain the words of the API, so the
// last one counts, as it does for the registry.
func RepositoryOf(path string) string {
	path = strings.TrimPrefix(path, "/v2/")
	end := 0
	for _, mark := range []string{"/manifests/", "/blobs/", "/tags/", "/referrers/"} {
		end = max(end, strings.LastIndex(path, mark))
	}
	return path[:end]
}
