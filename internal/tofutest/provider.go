// SPDX-License-Identifier: Apache-2.0

package tofutest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/signing"
)

// ProviderVersions is the list of versions of a provider.
type ProviderVersions struct {
	Versions []struct {
		Version   string
		Protocols []string
		Platforms []struct{ OS, Arch string }
	}
	Warnings []string
}

// List returns only the version numbers.
func (v ProviderVersions) List() []string {
	list := make([]string, 0, len(v.Versions))
	for _, e := range v.Versions {
		list = append(list, e.Version)
	}
	return list
}

// ProviderVersions lists the versions of a provider, "namespace/type".
func (c *Client) ProviderVersions(ctx context.Context, service *url.URL, provider string) (ProviderVersions, error) {
	var doc ProviderVersions
	if _, err := c.metadata(ctx, service.String()+provider+"/versions", false, &doc); err != nil {
		return doc, err
	}
	seen := map[string]bool{}
	for _, v := range doc.Versions {
		if seen[v.Version] {
			return doc, fmt.Errorf("provider %s: version %s is listed twice", provider, v.Version)
		}
		seen[v.Version] = true
	}
	return doc, nil
}

// Package is a server's description of one platform of a provider.
type Package struct {
	Protocols           []string
	OS, Arch            string
	Filename            string
	DownloadURL         string `json:"download_url"`
	Shasum              string
	ShasumsURL          string `json:"shasums_url"`
	ShasumsSignatureURL string `json:"shasums_signature_url"`
	SigningKeys         struct {
		GPGPublicKeys []struct {
			KeyID          string  `json:"key_id"`
			ASCIIArmor     string  `json:"ascii_armor"`
			TrustSignature string  `json:"trust_signature"`
			SourceURL      *string `json:"source_url"`
		} `json:"gpg_public_keys"`
	} `json:"signing_keys"`
	Packages map[string]struct {
		Hashes      []string
		PackageSize int64 `json:"package_size"`
	}
}

// Installed is the result of an installation.
type Installed struct {
	Zip    []byte
	Hashes []string // zh: of each line of SHA256SUMS, as written to a lock file
	Package
}

// Provider installs a provider for one platform, with the checks of the tools in their
// order. host is the host in the provider's address.
func (c *Client) Provider(ctx context.Context, service *url.URL, host, provider, version, os, arch string) (Installed, error) {
	var in Installed
	at, err := c.metadata(ctx, service.String()+provider+"/"+version+"/download/"+os+"/"+arch, false, &in.Package)
	if err != nil {
		return in, err
	}
	if err := in.checkAnswer(os, arch); err != nil {
		return in, fmt.Errorf("%s: %w", at, err)
	}
	sums, err := c.fetchReference(ctx, at, in.ShasumsURL, false)
	if err != nil {
		return in, fmt.Errorf("SHA256SUMS: %w", err)
	}
	signature, err := c.fetchReference(ctx, at, in.ShasumsSignatureURL, false)
	if err != nil {
		return in, fmt.Errorf("SHA256SUMS.sig: %w", err)
	}
	if c.Tool.ChecksPackages {
		if err := in.checkPackages(os + "_" + arch); err != nil {
			return in, err
		}
	}
	if in.Zip, err = c.fetchReference(ctx, at, in.DownloadURL, c.Tool.HeadsProvider); err != nil {
		return in, fmt.Errorf("archive: %w", err)
	}
	if in.Hashes, err = in.checkSums(sums); err != nil {
		return in, err
	}
	if len(in.SigningKeys.GPGPublicKeys) == 0 && c.Tool.SkipsUnsigned != "" && host == c.Tool.SkipsUnsigned {
		return in, nil
	}
	return in, in.checkSignature(sums, signature)
}

// fetchReference fetches a URL from a response, without credentials.
func (c *Client) fetchReference(ctx context.Context, at *url.URL, ref string, head bool) ([]byte, error) {
	u, err := at.Parse(ref)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s is not http", u)
	}
	return c.fetchArchive(ctx, u, c.Tool.UserAgent, head)
}

// checkAnswer checks the description before any file is fetched.
func (p Package) checkAnswer(os, arch string) error {
	usable := false
	for _, v := range p.Protocols {
		major, err := strconv.Atoi(strings.SplitN(v, ".", 2)[0])
		if err != nil {
			return fmt.Errorf("protocol %q: %w", v, err)
		}
		usable = usable || major == 5 || major == 6
	}
	if !usable {
		return fmt.Errorf("protocols %v are not supported", p.Protocols)
	}
	if p.OS != os || p.Arch != arch {
		return fmt.Errorf("an answer for %s_%s", p.OS, p.Arch)
	}
	if b, err := hex.DecodeString(p.Shasum); err != nil || len(b) != sha256.Size {
		return fmt.Errorf("shasum %q is not 64 hexadecimal digits", p.Shasum)
	}
	return nil
}

// checkPackages compares the hashes of all platforms with the description.
func (p Package) checkPackages(target string) error {
	if p.Packages == nil {
		return nil
	}
	for name, entry := range p.Packages {
		for _, h := range entry.Hashes {
			if !strings.HasPrefix(h, "zh:") && !strings.HasPrefix(h, "h1:") {
				return fmt.Errorf("packages: %s has the hash %q without a scheme", name, h)
			}
		}
	}
	own, ok := p.Packages[target]
	if !ok || own.PackageSize <= 0 {
		return fmt.Errorf("packages: nothing usable for %s", target)
	}
	for _, h := range own.Hashes {
		if hex, ok := strings.CutPrefix(h, "zh:"); ok && hex != p.Shasum {
			return fmt.Errorf("packages: %s is not the shasum %s", h, p.Shasum)
		}
	}
	if !slices.Contains(own.Hashes, "zh:"+p.Shasum) {
		return fmt.Errorf("packages: no zh of the shasum for %s", target)
	}
	return nil
}

// checkSums compares the archive with SHA256SUMS and returns the zh hashes of all its lines.
func (in Installed) checkSums(sums []byte) ([]string, error) {
	var hashes []string
	listed := ""
	for line := range strings.Lines(string(sums)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			continue
		}
		hashes = append(hashes, "zh:"+sum)
		if name == in.Filename {
			listed = sum
		}
	}
	if listed != in.Shasum {
		return nil, fmt.Errorf("SHA256SUMS has %q for %s, the answer %s", listed, in.Filename, in.Shasum)
	}
	if got := sha256.Sum256(in.Zip); hex.EncodeToString(got[:]) != in.Shasum {
		return nil, fmt.Errorf("the archive is %x, announced was %s", got, in.Shasum)
	}
	return hashes, nil
}

// checkSignature tries the keys in order. An invalid key stops the installation, even if
// a later one would match. An expired key is accepted.
func (p Package) checkSignature(sums, signature []byte) error {
	for _, k := range p.SigningKeys.GPGPublicKeys {
		keys, err := signing.ParsePublicKeys([]byte(k.ASCIIArmor))
		if err != nil {
			return fmt.Errorf("key %s: %w", k.KeyID, err)
		}
		if _, err := signing.Verify(sums, signature, keys[:1], signing.VerifyOptions{AllowExpired: true}); err == nil {
			return nil
		}
	}
	return errors.New("no key fits the signature of SHA256SUMS")
}
