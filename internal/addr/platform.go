// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"cmp"
	"strings"
)

// Platform is an operating system and an architecture, with the names of Go.
type Platform struct{ OS, Arch string }

// ParsePlatform parses "linux_amd64".
func ParsePlatform(s string) (Platform, error) {
	os, arch, ok := strings.Cut(s, "_")
	if !ok {
		return Platform{}, invalid("platform", s, "must be OS_ARCH, such as linux_amd64")
	}
	if err := checkPart("platform", os, systemRule()); err != nil {
		return Platform{}, invalid("platform", s, "must be OS_ARCH, such as linux_amd64")
	}
	if err := checkPart("platform", arch, systemRule()); err != nil {
		return Platform{}, invalid("platform", s, "must be OS_ARCH, such as linux_amd64")
	}
	return Platform{OS: os, Arch: arch}, nil
}

// String returns "linux_amd64".
func (p Platform) String() string { return p.OS + "_" + p.Arch }

// Compare orders platforms by operating system, then architecture.
func (p Platform) Compare(o Platform) int {
	return cmp.Or(cmp.Compare(p.OS, o.OS), cmp.Compare(p.Arch, o.Arch))
}
