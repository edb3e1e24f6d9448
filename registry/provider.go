// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// providerOf parses the address in the path, for a provider of this front-end
// or, below /origin/, a mirrored one, and checks that the caller may read it.
func (s *server) providerOf(r *http.Request) (addr.Provider, access.Grant, error) {
	source := r.PathValue("namespace") + "/" + r.PathValue("type")
	kind := addr.KindProvider
	if host := r.PathValue("hostname"); host != "" {
		source = host + "/" + source
		kind = addr.KindMirror
	}
	p, perr := addr.ParseProvider(source)
	if perr == nil {
		source = p.String()
	}
	if kind == addr.KindMirror && s.own(r, p) {
		kind, p.Hostname = addr.KindProvider, ""
		source = p.String()
	}
	g, err := s.access.Allow(r, access.Right{Action: access.Read, Kind: access.Kind(kind), Address: source})
	if err != nil {
		return p, g, err
	}
	if perr != nil {
		return p, g, notFound("%v", perr)
	}
	return p, g, nil
}

// own reports whether the address names a provider of this front-end by its
// public host name.
func (s *server) own(r *http.Request, p addr.Provider) bool {
	if s.o.Hostname != "" {
		return p.Hostname == s.o.Hostname
	}
	return p.Hostname == strings.ToLower(r.Host)
}

type providerVersionsDoc struct {
	Versions []providerVersionEntry `json:"versions"`
	Warnings []string               `json:"warnings,omitempty"`
}

// providerVersionEntry has protocols and platforms only where they are known
// already: clients do not need them, and one request per version is never on
// the path of this answer.
type providerVersionEntry struct {
	Version   addr.Version   `json:"version"`
	Protocols []string       `json:"protocols,omitempty"`
	Platforms []platformName `json:"platforms,omitempty"`
}

type platformName struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

func (s *server) providerVersions(w http.ResponseWriter, r *http.Request) error {
	p, g, err := s.providerOf(r)
	if err != nil {
		return err
	}
	l, err := s.providerList(r.Context(), p)
	if err != nil {
		return missing(err, "provider %s", p)
	}
	a, err := encodedOnce(&l.Derived, "provider", l.Revision(), func() (any, error) {
		doc := providerVersionsDoc{Versions: make([]providerVersionEntry, 0, len(l.Listed)), Warnings: warnings(l, s.now())}
		for _, v := range l.Listed {
			e := providerVersionEntry{Version: v}
			pv, ok := s.catalog.KnownProvider(p, v, l)
			if !ok {
				pv, ok = s.pull.known(p, v)
			}
			if ok {
				if pv.Installable(p) != nil {
					continue
				}
				e.Protocols, e.Platforms = pv.Protocols, platformNames(pv)
			}
			doc.Versions = append(doc.Versions, e)
		}
		return doc, nil
	})
	if err != nil {
		return err
	}
	a.Write(w, r, cacheControl(g))
	return nil
}

// providerPackageDoc is the answer for one platform. Field order and names are
// those of the protocol.
type providerPackageDoc struct {
	Protocols           []string                 `json:"protocols"`
	OS                  string                   `json:"os"`
	Arch                string                   `json:"arch"`
	Filename            string                   `json:"filename"`
	DownloadURL         string                   `json:"download_url"`
	Shasum              string                   `json:"shasum"`
	ShasumsURL          string                   `json:"shasums_url"`
	ShasumsSignatureURL string                   `json:"shasums_signature_url"`
	SigningKeys         signingKeysDoc           `json:"signing_keys"`
	Packages            map[string]packageHashes `json:"packages,omitempty"`
}

type signingKeysDoc struct {
	GPGPublicKeys []signingKeyDoc `json:"gpg_public_keys"`
}

type signingKeyDoc struct {
	KeyID          string  `json:"key_id"`
	ASCIIArmor     string  `json:"ascii_armor"`
	Source         string  `json:"source"`
	SourceURL      *string `json:"source_url"`
	TrustSignature string  `json:"trust_signature"`
}

type packageHashes struct {
	Hashes []string `json:"hashes"`
	Size   int64    `json:"package_size"`
}

// providerPackage answers with everything the clients check before and after
// they download a provider. 404 means "not for this platform".
func (s *server) providerPackage(w http.ResponseWriter, r *http.Request) error {
	p, g, err := s.providerOf(r)
	if err != nil {
		return err
	}
	v, err := version(r.PathValue("version"))
	if err != nil {
		return err
	}
	target := addr.Platform{OS: r.PathValue("os"), Arch: r.PathValue("arch")}
	pv, err := s.providerOr(r.Context(), p, v, target)
	if err != nil {
		return missing(err, "provider %s %s", p, v)
	}
	pkg, ok := pv.Platform(target)
	if !ok {
		return notFound("provider %s %s has no package for %s; it has %s", p, v, target, platformList(pv))
	}
	if err := pv.Installable(p); err != nil {
		return notFound("provider %s %s: %v", p, v, err)
	}
	exp := s.links.expiry()
	root := up(r.URL.Path)
	a, err := encodedOnce(&pv.Derived, root+target.String(), exp, func() (any, error) {
		return s.packageDoc(root, exp, p, v, pv, pkg), nil
	})
	if err != nil {
		return err
	}
	a.Write(w, r, cacheControl(g))
	return nil
}

func (s *server) packageDoc(root string, exp int64, p addr.Provider, v addr.Version, pv *catalog.ProviderVersion, pkg artifact.ProviderPlatform) providerPackageDoc {
	link := func(hex, file string) string {
		return root + s.links.path(blobName{Repository: pv.Repository, Hex: hex, File: file}, exp)
	}
	sums, signature := proof(p, v, pv)
	doc := providerPackageDoc{
		Protocols:           pv.Protocols,
		OS:                  pkg.Platform.OS,
		Arch:                pkg.Platform.Arch,
		Filename:            pkg.Filename,
		DownloadURL:         link(pkg.Zh, pkg.Filename),
		Shasum:              pkg.Zh,
		ShasumsURL:          link(sums.Hex, sums.File),
		ShasumsSignatureURL: link(signature.Hex, signature.File),
		SigningKeys:         signingKeysDoc{GPGPublicKeys: make([]signingKeyDoc, 0, len(pv.Meta.Keys))},
		Packages:            packages(pv),
	}
	for _, k := range pv.Meta.Keys {
		doc.SigningKeys.GPGPublicKeys = append(doc.SigningKeys.GPGPublicKeys, signingKeyDoc{
			KeyID: k.KeyID, ASCIIArmor: k.ASCIIArmor, Source: k.Source, SourceURL: k.SourceURL, TrustSignature: k.TrustSignature,
		})
	}
	return doc
}

func platformNames(p *catalog.ProviderVersion) []platformName {
	names := make([]platformName, 0, len(p.Platforms))
	for _, t := range p.Platforms {
		names = append(names, platformName{OS: t.Platform.OS, Arch: t.Platform.Arch})
	}
	return names
}

func platformList(p *catalog.ProviderVersion) string {
	names := make([]string, 0, len(p.Platforms))
	for _, t := range p.Platforms {
		names = append(names, t.Platform.String())
	}
	return strings.Join(names, ", ")
}

// packages lists the hashes of every platform, or is nil: a client fails on an
// incomplete entry, while the field itself is optional.
func packages(p *catalog.ProviderVersion) map[string]packageHashes {
	all := make(map[string]packageHashes, len(p.Platforms))
	for _, t := range p.Platforms {
		if t.Zh == "" || t.Size <= 0 {
			return nil
		}
		all[t.Platform.String()] = packageHashes{Hashes: []string{"zh:" + t.Zh}, Size: t.Size}
		if t.H1 != "" {
			all[t.Platform.String()] = packageHashes{Hashes: []string{"zh:" + t.Zh, t.H1}, Size: t.Size}
		}
	}
	return all
}
