// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"strings"

	"github.com/apparentlymart/go-versions/versions"
)

// Phantom returns the version as which OpenTofu reads a provider's tag that is not its tag: of
// "1.2" it makes 1.2.0, finds no tag, and fails for every user who allows it.
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
