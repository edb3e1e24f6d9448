// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"strings"

	"github.com/apparentlymart/go-versions/versions"
)

// Phantom returns the version as which OpenTofu reads a tag of a provider that
// is not the tag of that version: it reads "1.2" as 1.2.0, later finds no such
// tag, and fails for every user whose constraint allows it.
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
