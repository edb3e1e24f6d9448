// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"cmp"
	"slices"
	"strings"
)

// Platform is an operating system and an architecture, with the names of Go.
type Platform struct{ OS, Arch string }

// ParsePlatform parses "linux_amd64".
func ParsePlatform(s string) (Platform, error) {
	os, arch, ok := strings.Cut(s, "_")
	if !ok {
		return Platform{}, syntaxError("platform", s, "must be OS_ARCH, such as linux_amd64")
	}
	if err := checkPart("platform", os, systemRule()); err != nil {
		return Platform{}, syntaxError("platform", s, "must be OS_ARCH, such as linux_amd64")
	}
	if err := checkPart("platform", arch, systemRule()); err != nil {
		return Platform{}, syntaxError("platform", s, "must be OS_ARCH, such as linux_amd64")
	}
	return Platform{OS: os, Arch: arch}, nil
}

// String returns "linux_amd64".
func (p Platform) String() string { return p.OS + "_" + p.Arch }

// Compare orders platforms by operating system, then architecture.
func (p Platform) Compare(o Platform) int {
	return cmp.Or(cmp.Compare(p.OS, o.OS), cmp.Compare(p.Arch, o.Arch))
}

// Values of GOOS and GOARCH (go tool dist list, Go 1.26), for which tools ask.
const (
	systems       = "aix android darwin dragonfly freebsd illumos ios js linux netbsd openbsd plan9 solaris wasip1 windows"
	architectures = "386 amd64 arm arm64 loong64 mips mips64 mips64le mipsle ppc64 ppc64le riscv64 s390x wasm"
)

// Meant returns "" for a platform that tools ask for, else which ones may be meant.
func (p Platform) Meant() string {
	has := func(list, name string) bool { return slices.Contains(strings.Fields(list), name) }
	if has(systems, p.OS) && has(architectures, p.Arch) {
		return ""
	}
	os := p.OS
	if os == "macos" || os == "osx" {
		os = "darwin"
	}
	arches := []string{p.Arch}
	switch a := p.Arch; {
	case has(architectures, a):
	case os == "darwin" && (a == "all" || a == "universal"):
		arches = []string{"amd64", "arm64"}
	case strings.HasPrefix(a, "armv8") || a == "aarch64":
		arches = []string{"arm64"}
	case strings.HasPrefix(a, "arm"):
		arches = []string{"arm"}
	case strings.HasPrefix(a, "amd64") || a == "x64":
		arches = []string{"amd64"}
	case a == "i386" || a == "i686" || a == "x86":
		arches = []string{"386"}
	default:
		return "a platform is GOOS_GOARCH, such as linux_amd64"
	}
	if !has(systems, os) {
		return "a platform is GOOS_GOARCH, such as linux_amd64"
	}
	for i := range arches {
		arches[i] = os + "_" + arches[i]
	}
	return "they request " + strings.Join(arches, " and ")
}
