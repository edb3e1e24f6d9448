// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/pieces"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const (
	piecesBytes = 16 << 20         // of memory, for the contents of versions
	piecesFresh = 30 * time.Second // delay until an untagged report is visible
)

// content serves the contents of a version, unchanged tags, manifests and blobs, to clients that
// cannot reach the registry itself. The clients check digests and signatures.
//
// The right to read gives access to the contents of a version that is served, and to nothing else
// in its repository; the right to publish to the whole.
type content struct {
	layout   addr.Layout
	archives *archives
}

type part struct {
	repo *oci.Repo
	root digest.Digest // of the version
	of   *consisting   // nil: all of the repository
}

type consisting struct {
	*pieces.Set
	list *catalog.Versions
}

// readablePart determines what the caller may read. d is the requested digest, "" for a tag.
func (c *content) readablePart(ctx context.Context, r call[stored], d digest.Digest) (part, error) {
	repo, err := r.client.Repo(r.at.Repository(c.layout))
	p := part{repo: repo}
	if err != nil || r.grant.May(rights.Right{Action: rights.Publish, Kind: rights.Kind(r.at.Kind), Address: r.at.String()}) {
		return p, err
	}
	if p.root, err = c.servedDigest(ctx, r); err == nil {
		p.of, err = c.versionContents(ctx, r, p)
	}
	if err == nil && d != "" && !p.of.Has(d) {
		err = notFound("%s is not part of %s %s %s", d, r.at.Kind, r.at, r.at.version)
	}
	return p, orNotFound(err, "%s %s %s", r.at.Kind, r.at, r.at.version)
}

// servedDigest returns the digest of the version's manifest, or a [catalog.RefusedError].
func (c *content) servedDigest(ctx context.Context, r call[stored]) (digest.Digest, error) {
	if r.at.Kind == addr.KindModule {
		mv, err := r.catalog.ModuleVersion(ctx, r.at.Module, r.at.version)
		if err != nil {
			return "", err
		}
		return mv.Manifest.Digest, nil
	}
	pv, err := r.catalog.ProviderVersion(ctx, r.at.Provider, r.at.version)
	if err != nil {
		return "", err
	}
	return pv.Index.Digest, nil
}

// versionContents returns the contents of the version, again if its repository's list has changed.
func (c *content) versionContents(ctx context.Context, r call[stored], p part) (*consisting, error) {
	l, err := r.catalog.Versions(ctx, r.at.Item)
	if err != nil {
		return nil, err
	}
	key := p.repo.Name() + "@" + p.root.String()
	if k, ok := r.pieces.Peek(key); ok && k.list != l {
		r.pieces.Forget(key)
	}
	return r.pieces.Get(ctx, key, cache.Policy{Fresh: piecesFresh}, func(ctx context.Context, _ *consisting, _ bool) (*consisting, error) {
		set, err := pieces.Of(ctx, p.repo, p.root, r.at.version, l.Listing)
		return &consisting{set, l}, err
	})
}

type contentDoc struct {
	Registry string    `json:"registry"`
	Layout   layoutDoc `json:"layout"`
}

// layoutDoc holds the fields of a layout that clients need; empty fields have their defaults.
type layoutDoc struct {
	Prefix    string `json:"prefix,omitempty"`
	Modules   string `json:"modules,omitempty"`
	Providers string `json:"providers,omitempty"`
	Mirror    string `json:"mirror,omitempty"`
}

func (c *content) serveAbout(w http.ResponseWriter, r call[stored]) error {
	if _, err := c.readablePart(r.Context(), r, ""); err != nil {
		return err
	}
	return writeDocument(w, http.StatusOK, contentDoc{
		Registry: httpserve.NameRegistry(r.Request, r.client.Host()),
		Layout:   layoutDoc{c.layout.Prefix, c.layout.Modules, c.layout.Providers, c.layout.Mirror},
	})
}

func (c *content) tags(w http.ResponseWriter, r call[stored]) error {
	p, err := c.readablePart(r.Context(), r, "")
	if err != nil {
		return err
	}
	list := struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}{Name: p.repo.Name()}
	if p.of != nil {
		list.Tags = p.of.Tags()
	} else {
		all, err := p.repo.Snapshot(r.Context())
		if err != nil {
			return orNotFound(err, "%s %s", r.at.Kind, r.at)
		}
		list.Tags = all.Tags
	}
	return writeDocument(w, http.StatusOK, list)
}

// manifest answers with a tag's or digest's manifest; a moved version tag leads to the served one.
func (c *content) manifest(w http.ResponseWriter, r call[stored]) error {
	reference := r.PathValue("reference")
	d, err := asDigest(reference)
	if err != nil && strings.Contains(reference, ":") {
		return err
	}
	p, err := c.readablePart(r.Context(), r, d)
	switch {
	case err != nil:
		return err
	case p.of != nil && reference == r.at.version.Tag():
		reference = p.root.String()
	case p.of != nil && d == "" && !p.of.HasTag(reference):
		return notFound("tag %s does not belong to %s %s %s", reference, r.at.Kind, r.at, r.at.version)
	}
	m, err := p.repo.Fetch(r.Context(), reference)
	if err != nil {
		return orNotFound(err, "%s of %s %s", reference, r.at.Kind, r.at)
	}
	writeManifest(w, m)
	return nil
}

func asDigest(text string) (digest.Digest, error) {
	if d := digest.Digest(text); d.Validate() == nil && d.Algorithm() == digest.SHA256 {
		return d, nil
	}
	return "", notFound("%.80q is not a SHA-256 digest", text)
}

func writeManifest(w http.ResponseWriter, m oci.Manifest) {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream") // the pushed media type is not trusted
	if slices.Contains([]string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex}, m.MediaType) {
		h.Set("Content-Type", m.MediaType)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(m.Bytes)))
	h.Set("Docker-Content-Digest", m.Digest.String())
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(m.Bytes) // the client has disconnected, so there is nowhere to report the error
}

func (c *content) referrers(w http.ResponseWriter, r call[stored]) error {
	d, err := asDigest(r.PathValue("digest"))
	if err != nil {
		return err
	}
	p, err := c.readablePart(r.Context(), r, d)
	if err != nil {
		return err
	}
	all, err := p.repo.Referrers(r.Context(), oci.Descriptor{Digest: d}, "")
	if err != nil {
		return err
	}
	m, err := oci.NewIndex(ocispec.Index{Manifests: all})
	if err != nil {
		return err
	}
	writeManifest(w, m)
	return nil
}

// blob delivers a blob as links do, and counts it if it is the version's archive and not a check.
func (c *content) blob(w http.ResponseWriter, r call[stored]) error {
	d, err := asDigest(r.PathValue("digest"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), service.Timeout)
	defer cancel()
	p, err := c.readablePart(ctx, r, d)
	if err != nil {
		return err
	}
	file := c.archiveName(ctx, r, d.Encoded())
	stored := *r.view
	stored.pull = nil // content in the registry is served, never fetched from an origin
	return c.archives.sendBlob(w, delivery{
		Request: r.Request, view: &stored, signed: p.of != nil || file != "", checks: r.Header.Get(downloads.PurposeHeader) == downloads.PurposeCheck,
		blob: blobName{Repository: p.repo.Name(), Hex: d.Encoded(), File: file},
	}, "no-store")
}

// archiveName returns the name of an archive of the served version, "" for any other blob.
func (c *content) archiveName(ctx context.Context, r call[stored], hex string) string {
	if r.at.Kind == addr.KindModule {
		if mv, err := r.catalog.ModuleVersion(ctx, r.at.Module, r.at.version); err == nil && mv.Zip.Digest.Encoded() == hex {
			return moduleFile(r.at.Module, r.at.version)
		}
		return ""
	}
	pv, err := r.catalog.ProviderVersion(ctx, r.at.Provider, r.at.version)
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(pv.Platforms, func(t artifact.ProviderPlatform) bool { return t.Zh == hex })
	if i < 0 {
		return ""
	}
	return pv.Platforms[i].Filename
}
