// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Package is one provider package at its origin, with the properties that the origin announces.
type Package struct {
	Platform addr.Platform
	Filename string // terraform-provider-{type}_{version}_{os}_{arch}.zip
	Zh       string // SHA-256 of the zip, 64 lower-case hex digits; "" if the origin does not announce it
	H1       string // "h1:…"; "" if the origin does not announce it
	Checked  bool   // the reader that Open returns ends with an error instead of io.EOF if Zh does not match

	// Open starts the download. A body with a method Length() int64 returns
	// there the size that the origin announced, -1 for none.
	Open func(ctx context.Context) (io.ReadCloser, error)

	// Shasums, Signature and Keys are the same for all packages of a version;
	// empty if the origin has none.
	Shasums   []byte
	Signature []byte
	Keys      []artifact.SigningKey
	Protocols []string // "5.0"; empty if the origin does not announce them

	// Docs reads the packed documentation of the version; nil if the origin has none.
	Docs func(ctx context.Context) ([]byte, error)

	Others map[string]string // H1 of the version's platforms that the origin announces
}

// Registry is a provider registry with the providers.v1 protocol. An address
// must have a Hostname, because it names the registry.
type Registry struct {
	Client *Client
	// Host overrides the host whose discovery document is used, for an origin
	// that publishes the addresses of others; "": the address's own host.
	Host string
	// Base is the providers.v1 base URL. If set, it replaces discovery, as a
	// `host` block of a CLI configuration does.
	Base *url.URL
}

type versionsDoc struct {
	Versions []struct {
		Version   string
		Protocols []string
		Platforms []struct{ OS, Arch string }
	}
}

func (r *Registry) providersURL(ctx context.Context, p addr.Provider) (*url.URL, error) {
	if r.Base != nil {
		return r.Base, nil
	}
	host := r.Host
	host = cmp.Or(host, p.Hostname)
	if host == "" {
		return nil, fmt.Errorf("the address of provider %s has no registry host: %w", p, oci.ErrNotFound)
	}
	return r.Client.discoverService(ctx, host, "providers.v1")
}

func (r *Registry) readVersions(ctx context.Context, p addr.Provider) (versionsDoc, error) {
	base, err := r.providersURL(ctx, p)
	if err != nil {
		return versionsDoc{}, err
	}
	var doc versionsDoc
	if _, err := r.Client.getJSON(ctx, base.JoinPath(p.Namespace, p.Type, "versions"), &doc); err != nil {
		return versionsDoc{}, fmt.Errorf("listing the versions of %s: %w", p, err)
	}
	return doc, nil
}

// Versions lists the versions that okara can store, highest first. 1.0 is 1.0.0, as to the tools.
// An unknown provider gives oci.ErrNotFound.
func (r *Registry) Versions(ctx context.Context, p addr.Provider) ([]addr.Version, error) {
	doc, err := r.readVersions(ctx, p)
	if err != nil {
		return nil, err
	}
	var out []addr.Version
	for _, v := range doc.Versions {
		if parsed, ok := takeVersion(ctx, v.Version, addr.VersionFromOrigin); ok {
			out = append(out, parsed)
		}
	}
	return sortVersions(out), nil
}

// Platforms lists the platforms that the registry announces for v. A registry need not announce
// any, and okara does not for versions that it has not read yet: then packages are requested until
// one exists, whose answer names the other platforms.
func (r *Registry) Platforms(ctx context.Context, p addr.Provider, v addr.Version) ([]addr.Platform, error) {
	out, err := r.listedPlatforms(ctx, p, v)
	if err == nil && len(out) == 0 {
		out, err = r.packagedPlatforms(ctx, p, v)
	}
	return sortPlatforms(out), err
}

// listedPlatforms returns the platforms of v in the list of versions, which may have none.
func (r *Registry) listedPlatforms(ctx context.Context, p addr.Provider, v addr.Version) ([]addr.Platform, error) {
	doc, err := r.readVersions(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, have := range doc.Versions {
		if parsed, err := addr.VersionFromOrigin(have.Version); err != nil || parsed != v {
			continue
		}
		var out []addr.Platform
		for _, t := range have.Platforms {
			if t, err := addr.ParsePlatform(t.OS + "_" + t.Arch); err == nil {
				out = append(out, t)
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s has no version %s: %w", p, v, oci.ErrNotFound)
}

// packagedPlatforms finds the platforms of a version by requesting common ones. The
// answer, or its SHA256SUMS, lists all packages.
func (r *Registry) packagedPlatforms(ctx context.Context, p addr.Provider, v addr.Version) ([]addr.Platform, error) {
	for _, name := range [...]string{"linux_amd64", "darwin_arm64", "windows_amd64", "linux_arm64", "darwin_amd64", "linux_arm", "windows_arm64", "freebsd_amd64"} {
		t, err := addr.ParsePlatform(name)
		if err != nil {
			return nil, err
		}
		doc, from, err := r.packageDoc(ctx, p, v, t)
		if errors.Is(err, oci.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out, err := r.otherPlatforms(ctx, p, v, doc, from)
		if err != nil {
			return nil, err
		}
		return append(out, t), nil
	}
	return nil, fmt.Errorf("%s %s: the registry announces no platform: %w", p, v, oci.ErrNotFound)
}

// otherPlatforms returns the platforms in the answer for one of them, or those in the
// list of versions after that answer.
func (r *Registry) otherPlatforms(ctx context.Context, p addr.Provider, v addr.Version, doc packageDoc, from *url.URL) (out []addr.Platform, err error) {
	for s := range doc.Packages {
		if t, err := addr.ParsePlatform(s); err == nil {
			out = append(out, t)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	if out, err = r.listedPlatforms(ctx, p, v); err != nil || len(out) > 0 {
		return out, err
	}
	text, err := r.getSibling(ctx, from, doc.ShasumsURL)
	for name := range strings.FieldsSeq(string(text)) {
		if listed, t, ok := signing.ParsePackageName(p, name); ok && listed == v {
			out = append(out, t)
		}
	}
	return out, err
}

type packageDoc struct {
	Protocols           []string
	OS, Arch, Filename  string
	DownloadURL         string `json:"download_url"`
	Shasum              string
	ShasumsURL          string `json:"shasums_url"`
	ShasumsSignatureURL string `json:"shasums_signature_url"`
	SigningKeys         struct {
		GPGPublicKeys []artifact.SigningKey `json:"gpg_public_keys"`
	} `json:"signing_keys"`
	Packages map[string]struct{ Hashes []string }
}

// h1Hashes returns the h1: hash of each platform that has one.
func (d packageDoc) h1Hashes() map[string]string {
	out := map[string]string{}
	for platform, p := range d.Packages {
		for _, h := range p.Hashes {
			if strings.HasPrefix(h, "h1:") {
				out[platform] = h
			}
		}
	}
	return out
}

// Package requests the package of one platform and fetches SHA256SUMS and its
// signature. An answer for another platform is corrupt.
func (r *Registry) Package(ctx context.Context, p addr.Provider, v addr.Version, t addr.Platform) (Package, error) {
	doc, from, err := r.packageDoc(ctx, p, v, t)
	if err != nil {
		return Package{}, err
	}
	if doc.OS != t.OS || doc.Arch != t.Arch {
		return Package{}, fmt.Errorf("%s %s: requested %s, the origin returned %s_%s: %w", p, v, t, doc.OS, doc.Arch, oci.ErrCorrupt)
	}
	pkg := Package{
		Platform: t, Filename: doc.Filename, Zh: strings.ToLower(doc.Shasum),
		Keys: doc.SigningKeys.GPGPublicKeys, Protocols: doc.Protocols,
	}
	pkg.Others = doc.h1Hashes()
	pkg.H1 = pkg.Others[t.String()]
	zip, err := from.Parse(doc.DownloadURL)
	if err != nil || doc.DownloadURL == "" || doc.Filename != path.Base(doc.Filename) {
		return Package{}, fmt.Errorf("%s %s: no package in the response of the origin: %w", p, v, oci.ErrCorrupt)
	}
	pkg.Open = func(ctx context.Context) (io.ReadCloser, error) { return r.Client.openDownload(ctx, zip) }
	if pkg.Shasums, err = r.getSibling(ctx, from, doc.ShasumsURL); err != nil {
		return Package{}, err
	}
	if pkg.Signature, err = r.getSibling(ctx, from, doc.ShasumsSignatureURL); err != nil {
		return Package{}, err
	}
	return pkg, nil
}

func (r *Registry) packageDoc(ctx context.Context, p addr.Provider, v addr.Version, t addr.Platform) (doc packageDoc, from *url.URL, err error) {
	base, err := r.providersURL(ctx, p)
	if err != nil {
		return doc, nil, err
	}
	if from, err = r.Client.getJSON(ctx, base.JoinPath(p.Namespace, p.Type, v.String(), "download", t.OS, t.Arch), &doc); err != nil {
		return doc, nil, fmt.Errorf("requesting %s %s for %s: %w", p, v, t, err)
	}
	return doc, from, nil
}

func (r *Registry) getSibling(ctx context.Context, from *url.URL, ref string) ([]byte, error) {
	if ref == "" {
		return nil, nil
	}
	u, err := from.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("the origin names an invalid address: %w", oci.ErrCorrupt)
	}
	return r.Client.bytes(ctx, u, maxSums)
}

func sortVersions(vs []addr.Version) []addr.Version {
	slices.SortFunc(vs, func(a, b addr.Version) int { return b.Compare(a) })
	return slices.Compact(vs)
}

func sortPlatforms(ts []addr.Platform) []addr.Platform {
	slices.SortFunc(ts, func(a, b addr.Platform) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(ts)
}
