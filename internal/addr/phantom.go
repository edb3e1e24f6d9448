// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"strings"

	"github.com/apparentlymart/go-versions/versions"
)

// Phantom returns the version that OpenTofu takes a tag of a provider for although
// the tag is not that version's: it reads "1.2" as 1.2.0, finds no such tag
// later, and fails for everybody whose constraint allows it.
func Phantom(tag string) (version string, ok bool) {
	if _, strict := VersionFromTag(tag); strict {
		return "", false
	}
	v, err := versions.ParseVersion(strings.ReplaceAll(tag, "_", "+"))
	if err != nil {
		return "", false
	}
	return v.String(), true
}
