// SPDX-License-Identifier: Apache-2.0

package embedded

import "strings"

// RepositoryOf returns the repository in a path of the distribution API, or "". Names may contain
// its words: the last one counts.
func RepositoryOf(path string) string {
	path = strings.TrimPrefix(path, "/v2/")
	end := 0
	for _, mark := range []string{"/manifests/", "/blobs/", "/tags/", "/referrers/"} {
		end = max(end, strings.LastIndex(path, mark))
	}
	return path[:end]
}
