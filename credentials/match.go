// SPDX-License-Identifier: Apache-2.0

package credentials

import "strings"

// match says how closely a key fits a repository: matchHost plus the path segments in the key.
type match int

const (
	matchNone    match = iota
	matchDefault       // the source names no host
	matchHost          // the whole registry
)

// hubHost is the normal form of all names of Docker Hub, hubKey Docker's key for its credentials.
const (
	hubHost = "index.docker.io"
	hubKey  = "https://index.docker.io/v1/"
)

// key is a normalised HOST[/PATH], of an entry or the repository in question; zero fits every host.
type key struct {
	host string
	path string // without host; "": the registry as a whole
}

func newTarget(host, repository string) key {
	return key{host: normalHost(host), path: strings.Trim(repository, "/")}
}

// parseKey parses a key. Of a URL, and of HOST/v1/ and HOST/v2/, only the host counts: Docker
// writes them with an API version. Others may include a path, as containers-auth.json(5) defines.
func parseKey(s string) key {
	bare := strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
	host, path, _ := strings.Cut(bare, "/")
	if bare != s || path == "v1/" || path == "v2/" {
		path = ""
	}
	return key{host: normalHost(host), path: strings.Trim(path, "/")}
}

func (k key) String() string {
	if k.path == "" {
		return k.host
	}
	return k.host + "/" + k.path
}

// matchTarget compares whole path segments: "acme" fits "acme/net" but not "acmeco".
func (k key) matchTarget(t key) match {
	switch {
	case k.host == "":
		return matchDefault
	case k.host != t.host:
		return matchNone
	case k.path == "":
		return matchHost
	case k.path == t.path, strings.HasPrefix(t.path, k.path+"/"):
		return matchHost + match(1+strings.Count(k.path, "/"))
	}
	return matchNone
}

// name returns the word for a match in explanations.
func (m match) name(k, t key) string {
	switch {
	case m == matchNone:
		return ""
	case m == matchDefault:
		return "default"
	case m == matchHost:
		return "host"
	case k.path == t.path:
		return "repository"
	}
	return "prefix"
}

func normalHost(host string) string {
	host = strings.ToLower(host)
	switch host {
	case "docker.io", "registry-1.docker.io":
		return hubHost
	}
	return host
}
