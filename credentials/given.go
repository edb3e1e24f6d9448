// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"strings"

	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/oci"
)

// Given returns the credentials for okara itself from the environment: OKARA_USERNAME and
// OKARA_PASSWORD for registry, which is HOST[/PREFIX], and OKARA_TOKEN for the host of
// OKARA_SERVER; for no other registry, since one run may access many.
func Given(registry string, getenv func(string) string) []Setting {
	var given []Setting
	c := oci.Credential{Username: getenv("OKARA_USERNAME"), Password: getenv("OKARA_PASSWORD")}
	if registry != "" && c.Password != "" {
		given = append(given, Setting{Origin: "variables OKARA_USERNAME and OKARA_PASSWORD", Prefix: registry, Credential: c})
	}
	server, err := netaddr.ParseServer(getenv("OKARA_SERVER"))
	token := strings.TrimSpace(getenv("OKARA_TOKEN"))
	// A token does not cross a network in clear text.
	if err == nil && token != "" && IsToken(token) && (server.Scheme == "https" || netaddr.IsLoopback(server.Hostname())) {
		given = append(given, Setting{
			Origin: "variable OKARA_TOKEN, for OKARA_SERVER", Prefix: server.Host, Credential: oci.Credential{Username: "okara", Password: token},
		})
	}
	return given
}

// IsToken reports whether a text can be a token: one word that needs no quoting.
func IsToken(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}
