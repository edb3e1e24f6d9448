// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// maxTag is the maximum length of a tag in the OCI distribution specification.
const maxTag = 128

// Version is a strict SemVer 2.0.0 version, comparable with ==; the zero value is none.
type Version struct{ s string }

// ParseVersion parses a whole version; one leading "v" is dropped. The error is a [*SyntaxError].
func ParseVersion(s string) (Version, error) {
	trimmed := strings.TrimPrefix(s, "v")
	switch {
	case !isStrict(trimmed):
		if full := completeVersion("v" + trimmed); full != "" {
			return Version{}, syntaxError("version", s, "not a complete semantic version; did you mean %s?", full)
		}
		return Version{}, syntaxError("version", s, "not a semantic version such as 1.2.3 or 1.2.3-rc.1")
	case isTooHigh(trimmed):
		return Version{}, syntaxError("version", s, "number above %d, the maximum of OpenTofu and Terraform", int64(math.MaxInt64))
	case len(trimmed) > maxTag:
		return Version{}, syntaxError("version", s, "%d characters; a tag has at most %d", len(trimmed), maxTag)
	}
	return Version{trimmed}, nil
}

// VersionFromTag returns a tag's version; false for what [Version.Tag] does not make.
func VersionFromTag(tag string) (Version, bool) {
	s := strings.Replace(tag, "_", "+", 1)
	if strings.Contains(tag, "+") || len(tag) > maxTag || !isStrict(s) || isTooHigh(s) {
		return Version{}, false
	}
	return Version{s}, true
}

// VersionFromGit parses a git tag such as "v1.4", or "modules/vpc/v1.4.0", which names a directory.
// Missing numbers are zero.
func VersionFromGit(tag string) (dir string, v Version, err error) {
	s := tag
	if i := strings.LastIndex(tag, "/"); i >= 0 {
		dir = tag[:i]
		s = tag[i+1:]
	}
	full := completeVersion("v" + strings.TrimPrefix(s, "v"))
	if full == "" {
		return "", Version{}, syntaxError("git tag", tag, "does not end in a semantic version such as v1.2.3")
	}
	v, err = ParseVersion(full)
	return dir, v, err
}

// VersionFromOrigin parses a version in the list of another registry: as for
// OpenTofu and Terraform, missing numbers are zero.
func VersionFromOrigin(s string) (Version, error) {
	if full := completeVersion("v" + strings.TrimPrefix(s, "v")); full != "" {
		s = full
	}
	return ParseVersion(s)
}

// isStrict reports whether s has all three numbers and is otherwise valid SemVer.
func isStrict(s string) bool {
	v := "v" + s
	return semver.IsValid(v) && semver.Canonical(v)+semver.Build(v) == v
}

// isTooHigh reports whether a number is beyond what the tools hold.
func isTooHigh(s string) bool {
	core, _, _ := strings.Cut(s, "+")
	core, _, _ = strings.Cut(core, "-")
	return slices.ContainsFunc(strings.Split(core, "."), func(n string) bool {
		_, err := strconv.ParseInt(n, 10, 64)
		return err != nil
	})
}

// completeVersion returns v without "v" and with three numbers, or "".
func completeVersion(v string) string {
	if !semver.IsValid(v) {
		return ""
	}
	return semver.Canonical(v)[1:] + semver.Build(v)
}

// String returns the version without a leading "v", "" for the zero value.
func (v Version) String() string { return v.s }

// Tag returns the tag under which the version is stored, with "_" for "+".
func (v Version) Tag() string { return strings.Replace(v.s, "+", "_", 1) }

// Compare orders by SemVer precedence, then by build metadata, bytewise.
func (v Version) Compare(o Version) int {
	return cmp.Or(semver.Compare("v"+v.s, "v"+o.s), cmp.Compare(v.build(), o.build()))
}

// Number returns v without build metadata, as the tools compare modules.
func (v Version) Number() Version { return Version{strings.TrimSuffix(v.s, v.build())} }

// Prerelease reports whether v has a pre-release part.
func (v Version) Prerelease() bool { return semver.Prerelease("v"+v.s) != "" }

// Edition reports whether v names an edition of a version, see WithEdition.
func (v Version) Edition() bool {
	_, _, ok := v.cutEdition()
	return ok
}

// EditionOf returns the version of an edition, or v itself.
func (v Version) EditionOf() Version {
	core, _, ok := v.cutEdition()
	if !ok {
		return v
	}
	return Version{core + v.build()}
}

// WithEdition returns the name of v's edition with a manifest's SHA-256: a pre-release, selected
// only exactly, whose "e" keeps it from being a number.
func (v Version) WithEdition(hexDigest string) (Version, error) {
	if len(hexDigest) < editionHex || !isHex(hexDigest[:editionHex]) {
		return Version{}, syntaxError("digest", hexDigest, "must be lower-case hex")
	}
	core := strings.TrimSuffix(v.s, v.build())
	return ParseVersion(core + "-e" + hexDigest[:editionHex] + v.build())
}

// NextPatch returns the release after v: that of a pre-release, else one patch higher.
func (v Version) NextPatch() Version {
	core, _, _ := strings.Cut(strings.TrimSuffix(v.s, v.build()), "-")
	if v.Prerelease() {
		return Version{core}
	}
	i := strings.LastIndex(core, ".")
	return Version{core[:i+1] + incrementNumber(core[i+1:])}
}

// Parts of a version that Bump increases.
const (
	Major = "major"
	Minor = "minor"
	Patch = "patch"
)

// Bump returns the release after v with its major, minor or patch number raised, and zeros after
// that (SemVer 2.0.0, 6 to 8).
func (v Version) Bump(part string) (Version, error) {
	core, _, _ := strings.Cut(strings.TrimSuffix(v.s, v.build()), "-")
	n := strings.Split(core, ".")
	switch part {
	case Major:
		n = []string{incrementNumber(n[0]), "0", "0"}
	case Minor:
		n = []string{n[0], incrementNumber(n[1]), "0"}
	case Patch:
		n[2] = incrementNumber(n[2])
	default:
		return Version{}, syntaxError("part of a version", part, "must be major, minor or patch")
	}
	return ParseVersion(strings.Join(n, "."))
}

const editionHex = 12

// cutEdition splits "1.0.0-rc.1-e9d6a0c4471b2+b" into "1.0.0-rc.1" and the hex.
func (v Version) cutEdition() (core, hex string, ok bool) {
	s := strings.TrimSuffix(v.s, v.build())
	i := len(s) - editionHex - len("-e")
	if !v.Prerelease() || i < 0 || s[i:i+2] != "-e" || !isHex(s[i+2:]) {
		return "", "", false
	}
	return s[:i], s[i+2:], isStrict(s[:i])
}

func (v Version) build() string { return semver.Build("v" + v.s) }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// incrementNumber adds one to a decimal number of any length.
func incrementNumber(n string) string {
	digits := []byte(n)
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] != '9' {
			digits[i]++
			return string(digits)
		}
		digits[i] = '0'
	}
	return "1" + string(digits)
}

// MarshalText returns the version as in String.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.s), nil }

// UnmarshalText parses as ParseVersion does.
func (v *Version) UnmarshalText(b []byte) error {
	parsed, err := ParseVersion(string(b))
	*v = parsed
	return err
}
