// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// LoadBundle loads b below the depot's prefix, see [Bundle.Load], and puts the
// repositories with a version in it into the catalogue.
func (d *Depot) LoadBundle(ctx context.Context, b *Bundle) (BundleReport, error) {
	open := func(name string) (*oci.Repo, error) { return d.repo(path.Join(d.o.Layout.Prefix, name)) }
	report, err := b.Load(ctx, open)
	if err != nil {
		return report, err
	}
	done := map[string]bool{}
	for _, root := range b.Index.Manifests {
		ref, err := parseBundleRef(root)
		if err != nil {
			return report, err
		}
		name := path.Join(d.o.Layout.Prefix, ref.repository)
		if done[name] || !isVersion(ref.tag) {
			continue
		}
		done[name] = true
		if entry, ok := catalogEntry(d.o.Layout, name); ok {
			report.Warnings = append(report.Warnings, d.addToCatalogue(ctx, entry)...)
		}
	}
	return report, nil
}

// catalogEntry returns the entry of a repository of modules or providers.
func catalogEntry(l addr.Layout, repository string) (oci.CatalogEntry, bool) {
	it, ok := l.Parse(repository)
	if !ok {
		return oci.CatalogEntry{}, false
	}
	switch it.Kind {
	case addr.KindModule:
		return oci.CatalogEntry{Kind: oci.KindModule, Address: it.Module.String(), Repository: repository}, true
	case addr.KindProvider, addr.KindMirror:
		return oci.CatalogEntry{Kind: providerKind(it.Provider), Address: it.Provider.String(), Repository: repository}, true
	}
	return oci.CatalogEntry{}, false
}

// Load pushes what the registry does not have yet: blobs, then manifests from
// the bottom up, version tags last. A tag that exists with another digest is
// left as it is and reported. Repeated, it does only what is missing.
func (b *Bundle) Load(ctx context.Context, open func(repository string) (*oci.Repo, error)) (BundleReport, error) {
	report := BundleReport{Tags: len(b.Index.Manifests), Blobs: len(b.blobs), Required: len(b.required())}
	for _, tagged := range []bool{false, true} { // referrers first: a version is visible only with its signatures
		for _, root := range b.Index.Manifests {
			ref, err := parseBundleRef(root)
			if err != nil {
				return report, err
			}
			if (ref.tag != "") != tagged {
				continue
			}
			if err := b.loadRoot(ctx, open, root, ref, &report); err != nil {
				return report, fmt.Errorf("loading %s: %w", root.Annotations[ocispec.AnnotationRefName], err)
			}
		}
	}
	return report, nil
}

func (b *Bundle) loadRoot(ctx context.Context, open func(string) (*oci.Repo, error), root oci.Descriptor, ref bundleRef, report *BundleReport) error {
	r, err := open(ref.repository)
	if err != nil {
		return err
	}
	if ref.tag != "" {
		have, err := r.Resolve(ctx, ref.tag)
		switch {
		case err == nil && have.Digest == root.Digest:
			return nil
		case err == nil && !isVersion(ref.tag):
			return nil // latest and referrers indexes are the registry's own to move
		case err == nil:
			report.Conflict = append(report.Conflict, fmt.Sprintf("%s:%s is %s, the bundle has %s", r, ref.tag, have.Digest, root.Digest))
			return nil
		case !errors.Is(err, oci.ErrNotFound):
			return err
		}
	}
	m, err := b.push(ctx, r, root, report)
	if err != nil || ref.tag == "" {
		return err
	}
	return r.PutTag(ctx, ref.tag, m)
}

func isVersion(tag string) bool {
	_, ok := addr.VersionFromTag(tag)
	return ok
}

// push stores one manifest by digest with all that it needs. Where the bundle
// lacks it, the registry must have it.
func (b *Bundle) push(ctx context.Context, r *oci.Repo, d oci.Descriptor, report *BundleReport) (oci.Manifest, error) {
	if _, ok := b.blobs[d.Digest]; !ok {
		return r.Fetch(ctx, d.Digest.String())
	}
	m, err := b.manifest(d)
	if err != nil {
		return oci.Manifest{}, err
	}
	children, blobs, err := references(m)
	if err != nil {
		return oci.Manifest{}, err
	}
	for _, blob := range blobs {
		if err := b.pushBlob(ctx, r, blob, report); err != nil {
			return oci.Manifest{}, err
		}
	}
	for _, child := range children {
		if _, err := b.push(ctx, r, child, report); err != nil {
			return oci.Manifest{}, err
		}
	}
	if image, err := m.Image(); err == nil && image.Subject != nil {
		return m, r.PutReferrer(ctx, m, *image.Subject)
	}
	return m, r.PutManifest(ctx, m)
}

func (b *Bundle) pushBlob(ctx context.Context, r *oci.Repo, d oci.Descriptor, report *BundleReport) error {
	if _, ok := b.blobs[d.Digest]; !ok {
		have, err := r.HasBlob(ctx, d)
		if err == nil && !have {
			err = fmt.Errorf("blob %s is neither in the bundle nor in the registry; load the earlier bundle first: %w", d.Digest, oci.ErrNotFound)
		}
		return err
	}
	pushed, err := r.EnsureBlob(ctx, oci.Blob{Descriptor: d, Open: func() (io.ReadCloser, error) { return b.open(d) }})
	if pushed {
		report.Pushed++
	}
	return err
}
