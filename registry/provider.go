// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// providers handles requests about providers, by the registry and the network mirror protocol.
type providers struct {
	now    func() time.Time
	counts *downloads.Counter
}

type providerVersionsDoc struct {
	Versions []providerVersionEntry `json:"versions"`
	Warnings []string               `json:"warnings,omitempty"`
}

// providerVersionEntry has protocols and platforms only if already known: clients do not need them,
// and this answer must not wait for one request per version.
type providerVersionEntry struct {
	Version     addr.Version   `json:"version"`
	Protocols   []string       `json:"protocols,omitempty"`
	Platforms   []platformName `json:"platforms,omitempty"`
	PublishedAt string         `json:"published_at,omitempty"`
}

type platformName struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

func (p *providers) serveProviderVersions(w http.ResponseWriter, r call[addr.Provider]) error {
	l, err := r.providerVersions(r.Context(), r.at)
	if err != nil {
		return orNotFound(err, "provider %s", r.at)
	}
	a, err := encodedOnce(&l.Derived, "provider", l.Revision(), func() (any, error) {
		doc := providerVersionsDoc{Versions: make([]providerVersionEntry, 0, len(l.Listed)), Warnings: warningLines(l, p.now())}
		for _, v := range l.Listed {
			e := providerVersionEntry{Version: v, PublishedAt: publishedAt(l.Listing.Published(v, nil))}
			pv, ok := r.catalog.KnownProvider(r.at, v, l)
			if !ok {
				pv, ok = r.pull.knownRelease(r.at, v)
			}
			if ok {
				if pv.Installable(r.at) != nil {
					continue
				}
				e.Protocols = pv.Protocols
				e.Platforms = platformNames(pv)
			}
			doc.Versions = append(doc.Versions, e)
		}
		return doc, nil
	})
	return send(w, r.Request, cacheControl(r.grant), a, err)
}

// providerDetailDoc describes one version of a provider, and names the others.
type providerDetailDoc struct {
	versionDoc
	Versions []addr.Version `json:"versions"`
}

func (p *providers) serveLatestProvider(w http.ResponseWriter, r call[addr.Provider]) error {
	l, err := r.providerVersions(r.Context(), r.at)
	if err != nil {
		return orNotFound(err, "provider %s", r.at)
	}
	v, ok := l.Latest()
	if !ok {
		return notFound("provider %s has no version", r.at)
	}
	return p.describeProvider(w, call[providerVersion]{r.Request, r.view, providerVersion{r.at, v}, r.grant}, l)
}

func (p *providers) serveProviderDetail(w http.ResponseWriter, r call[providerVersion]) error {
	l, err := r.providerVersions(r.Context(), r.at.Provider)
	if err != nil {
		return orNotFound(err, "provider %s", r.at.Provider)
	}
	return p.describeProvider(w, r, l)
}

func (p *providers) describeProvider(w http.ResponseWriter, r call[providerVersion], l *catalog.Versions) error {
	pv, err := r.providerVersion(r.Context(), r.at.Provider, r.at.version)
	if err != nil {
		return orNotFound(err, "provider %s %s", r.at.Provider, r.at.version)
	}
	d := providerDetailDoc{newVersionDoc(l, r.at.version, pv.Annotations), l.Listed}
	d.ID, d.Namespace, d.Name = r.at.Provider.String()+"/"+d.Version, r.at.Namespace, r.at.Type
	d.Downloads = p.counts.Total(addr.KindProvider, r.at.Provider.String())
	return service.Send(w, r.Request, cacheControl(r.grant), d)
}

// providerPackageDoc is the answer for one platform, with the protocol's order and names.
type providerPackageDoc struct {
	Protocols           []string                 `json:"protocols"`
	OS                  string                   `json:"os"`
	Arch                string                   `json:"arch"`
	Filename            string                   `json:"filename"`
	DownloadURL         string                   `json:"download_url"`
	Shasum              string                   `json:"shasum"`
	ShasumsURL          string                   `json:"shasums_url"`
	ShasumsSignatureURL string                   `json:"shasums_signature_url"`
	SigningKeys         artifact.SigningKeys     `json:"signing_keys"`
	Packages            map[string]packageHashes `json:"packages,omitempty"`
}

type packageHashes struct {
	Hashes []string `json:"hashes"`
	Size   int64    `json:"package_size"`
}

// serveBuild returns what clients check before and after a download; 404: not for this platform.
func (p *providers) serveBuild(w http.ResponseWriter, r call[build]) error {
	pv, err := r.providerVersion(r.Context(), r.at.Provider, r.at.version, r.at.platform)
	if err != nil {
		return orNotFound(err, "provider %s %s", r.at.Provider, r.at.version)
	}
	pkg, ok := pv.Platform(r.at.platform)
	if slices.Contains(pv.Lost, r.at.platform) {
		return notFound("provider %s %s: archive for %s missing from the registry", r.at.Provider, r.at.version, r.at.platform)
	}
	if !ok {
		return notFound("provider %s %s has no package for %s; it has %s", r.at.Provider, r.at.version, r.at.platform, platformList(pv))
	}
	if err := pv.Installable(r.at.Provider); err != nil {
		return notFound("provider %s %s: %v", r.at.Provider, r.at.version, err)
	}
	exp := r.links.linkExpiry()
	root := r.links.root(r.Request)
	a, err := encodedOnce(r.links.keptAnswers(&pv.Derived, root), root+r.at.platform.String(), exp, func() (any, error) {
		return newPackageDoc(r.links, root, exp, r.at.providerVersion, pv, pkg), nil
	})
	return send(w, r.Request, r.links.cacheControl(r.grant, root), a, err)
}

func newPackageDoc(l *links, root string, exp int64, p providerVersion, pv *catalog.ProviderVersion, pkg artifact.ProviderPlatform) providerPackageDoc {
	link := func(hex, file string) string {
		return root + l.signedPath(blobName{Repository: pv.Repository, Hex: hex, File: file}, exp)
	}
	sums, signature := proofBlobs(p.Provider, p.version, pv)
	doc := providerPackageDoc{
		Protocols:           pv.Protocols,
		OS:                  pkg.Platform.OS,
		Arch:                pkg.Platform.Arch,
		Filename:            pkg.Filename,
		DownloadURL:         link(pkg.Zh, pkg.Filename),
		Shasum:              pkg.Zh,
		ShasumsURL:          link(sums.Hex, sums.File),
		ShasumsSignatureURL: link(signature.Hex, signature.File),
		SigningKeys:         artifact.SigningKeys{Keys: make([]artifact.SigningKey, 0, len(pv.Meta.Keys))},
		Packages:            packageHashesOf(pv),
	}
	for _, k := range pv.Meta.Keys {
		k.Expires = "" // not a field of the protocol
		doc.SigningKeys.Keys = append(doc.SigningKeys.Keys, k)
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

// packageHashesOf returns the hashes of every platform, or nil: a client fails on incomplete ones.
func packageHashesOf(p *catalog.ProviderVersion) map[string]packageHashes {
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

type mirrorIndexDoc struct {
	Versions map[string]struct{} `json:"versions"`
}

// mirrorIndex lists a provider's versions under its origin's, or the front-end's own, address.
func (p *providers) mirrorIndex(w http.ResponseWriter, r call[addr.Provider]) error {
	l, err := r.providerVersions(r.Context(), r.at)
	if err != nil {
		return orNotFound(err, "provider %s", r.at)
	}
	a, err := encodedOnce(&l.Derived, "mirror", l.Revision(), func() (any, error) {
		doc := mirrorIndexDoc{Versions: make(map[string]struct{}, len(l.Listed))}
		for _, v := range l.Listed {
			if pv, ok := r.catalog.KnownProvider(r.at, v, l); ok && pv.Broken != nil {
				continue
			}
			doc.Versions[v.String()] = struct{}{}
		}
		return doc, nil
	})
	return send(w, r.Request, cacheControl(r.grant), a, err)
}

type mirrorVersionDoc struct {
	Archives map[string]mirrorArchive `json:"archives"`
}

type mirrorArchive struct {
	URL    string   `json:"url"`
	Hashes []string `json:"hashes"`
}

// mirrorVersion lists a version's archives with the hashes by which the clients verify them.
func (p *providers) mirrorVersion(w http.ResponseWriter, r call[providerVersion]) error {
	pv, err := r.providerVersion(r.Context(), r.at.Provider, r.at.version)
	if err != nil {
		return orNotFound(err, "provider %s %s", r.at.Provider, r.at.version)
	}
	exp := r.links.linkExpiry()
	root := r.links.root(r.Request)
	a, err := encodedOnce(r.links.keptAnswers(&pv.Derived, root), "mirror "+root, exp, func() (any, error) {
		return newMirrorDoc(r.links, root, exp, pv), nil
	})
	return send(w, r.Request, r.links.cacheControl(r.grant, root), a, err)
}

func newMirrorDoc(l *links, root string, exp int64, pv *catalog.ProviderVersion) mirrorVersionDoc {
	doc := mirrorVersionDoc{Archives: make(map[string]mirrorArchive, len(pv.Platforms))}
	for _, t := range pv.Platforms {
		hashes := []string{"zh:" + t.Zh}
		if t.H1 != "" {
			hashes = []string{t.H1, "zh:" + t.Zh}
		}
		b := blobName{Repository: pv.Repository, Hex: t.Zh, File: t.Filename}
		doc.Archives[t.Platform.String()] = mirrorArchive{URL: root + l.signedPath(b, exp), Hashes: hashes}
	}
	return doc
}
