// SPDX-License-Identifier: Apache-2.0

package addr

import "strings"

// maxRepository bounds "host[:port]/name", as all clients and registries do.
const maxRepository = 255

// SplitRegistry splits "localhost:5000/acme" into host and prefix. A scheme or tag is refused.
func SplitRegistry(s string) (host, prefix string, err error) {
	const what = "registry"
	if s == "" {
		return "", "", syntaxError(what, s, "must be HOST[:PORT][/PREFIX]")
	}
	shown, _, _ := strings.Cut(s[strings.LastIndexByte(s, '@')+1:], "?") // no secrets
	if strings.Contains(s, "://") {
		return "", "", syntaxError(what, shown, "must be HOST[:PORT][/PREFIX], without a scheme")
	}
	host, prefix, _ = strings.Cut(strings.TrimSuffix(s, "/"), "/")
	if host == "" || strings.ContainsAny(host, "@ \t?#_") {
		return "", "", syntaxError(what, shown, "must be HOST[:PORT][/PREFIX], without a user or query")
	}
	if prefix == "" {
		return host, "", nil
	}
	for segment := range strings.SplitSeq(prefix, "/") {
		if p := segmentRule().whyInvalid(segment); p != "" {
			return "", "", syntaxError(what, shown, "prefix: %s", p)
		}
	}
	return host, prefix, nil
}

// CheckRepository checks that host/name is a valid repository of allowed length.
func CheckRepository(host, name string) error {
	full := host + "/" + name
	if len(full) > maxRepository {
		return syntaxError("repository", full, "%d characters; at most %d are allowed", len(full), maxRepository)
	}
	for segment := range strings.SplitSeq(name, "/") {
		if p := segmentRule().whyInvalid(segment); p != "" {
			return syntaxError("repository", full, "%s", p)
		}
	}
	return nil
}
