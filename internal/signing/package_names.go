// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// ErrNoProvider means that the clients cannot install a file or directory.
var ErrNoProvider = errors.New("not a provider package")

// PackageStem returns the common prefix of the names of all files of a release.
func PackageStem(p addr.Provider, v addr.Version) string {
	return "terraform-provider-" + p.Type + "_" + v.String() + "_"
}

// SplitPackageName inverts [PackageStem]: the version in a release's file, and the rest.
func SplitPackageName(p addr.Provider, name string) (v addr.Version, rest string, ok bool) {
	rest, ok = strings.CutPrefix(name, "terraform-provider-"+p.Type+"_")
	version, rest, cut := strings.Cut(rest, "_")
	v, err := addr.ParseVersion(version)
	return v, rest, ok && cut && err == nil
}

// PackageName returns the required name of a zip of a release.
func PackageName(p addr.Provider, v addr.Version, t addr.Platform) string {
	return PackageStem(p, v) + t.String() + ".zip"
}

// ParsePackageName inverts [PackageName]. Systems and pre-releases have no "_".
func ParsePackageName(p addr.Provider, name string) (v addr.Version, t addr.Platform, ok bool) {
	v, rest, ok := SplitPackageName(p, name)
	platform, zip := strings.CutSuffix(rest, ".zip")
	if !ok || !zip {
		return addr.Version{}, addr.Platform{}, false
	}
	t, err := addr.ParsePlatform(platform)
	return v, t, err == nil
}

// PackagePlatform parses the platform in the name of a zip of a release.
func PackagePlatform(p addr.Provider, v addr.Version, name string) (addr.Platform, error) {
	if rest, ok := strings.CutPrefix(strings.TrimSuffix(name, ".zip"), PackageStem(p, v)); ok {
		if t, err := addr.ParsePlatform(rest); err == nil {
			return t, nil
		}
	}
	return addr.Platform{}, fmt.Errorf("%s: the name must be %sOS_ARCH.zip: %w", name, PackageStem(p, v), ErrNoProvider)
}

var protocolPattern = text.Pattern(`^[0-9]+\.[0-9]+$`)

// ParseRegistryManifest returns a terraform-registry-manifest.json's protocols.
func ParseRegistryManifest(text []byte) ([]string, error) {
	var doc struct {
		Version  int `json:"version"`
		Metadata struct {
			ProtocolVersions []string `json:"protocol_versions"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("registry manifest: %w", err)
	}
	if doc.Version != 1 {
		return nil, fmt.Errorf("registry manifest has version %d, expected 1", doc.Version)
	}
	if err := CheckProtocols(doc.Metadata.ProtocolVersions); err != nil {
		return nil, fmt.Errorf("registry manifest: %w", err)
	}
	if len(doc.Metadata.ProtocolVersions) == 0 {
		return []string{artifact.DefaultProtocol}, nil
	}
	return doc.Metadata.ProtocolVersions, nil
}

// CheckProtocols checks that each protocol version is MAJOR.MINOR.
func CheckProtocols(versions []string) error {
	for _, p := range versions {
		if !protocolPattern().MatchString(p) {
			return fmt.Errorf("invalid protocol version %q: must be MAJOR.MINOR", text.Excerpt(p))
		}
	}
	return nil
}

// CheckListed compares a zip with its line in SHA256SUMS, by digest alone if no name is known.
func CheckListed(sums Sums, p artifact.ProviderPlatform, zip oci.Descriptor) error {
	if p.Filename != "" {
		return sums.Check(p.Filename, zip.Digest.Encoded())
	}
	for _, sum := range sums {
		if sum == zip.Digest.Encoded() {
			return nil
		}
	}
	return fmt.Errorf("%s is not listed: %w", zip.Digest, ErrSums)
}
