// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/oci"
)

// maxDepth is how deep indexes may nest. okara's own indexes have one level.
const maxDepth = 8

// errDepth means that indexes nest deeper than maxDepth.
var errDepth = fmt.Errorf("indexes nest deeper than %d levels: %w", maxDepth, oci.ErrCorrupt)

// walk visits the manifests below a root once, after those that they list.
type walk struct {
	b       *File
	seen    map[digest.Digest]bool
	skip    func(digest.Digest) bool                           // nil: none
	missing func(oci.Descriptor) error                         // for a manifest that is not in the bundle; nil: it is skipped
	visit   func(m oci.Manifest, blobs []oci.Descriptor) error // called for a manifest in the bundle, with its blobs
}

func (w *walk) walkFrom(ctx context.Context, d oci.Descriptor) error { return w.walkBelow(ctx, d, 0) }

func (w *walk) walkBelow(ctx context.Context, d oci.Descriptor, depth int) error {
	if w.seen[d.Digest] || w.skip != nil && w.skip(d.Digest) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth {
		return errDepth
	}
	w.seen[d.Digest] = true
	if _, ok := w.b.blobs[d.Digest]; !ok {
		if w.missing == nil {
			return nil
		}
		return w.missing(d)
	}
	m, err := w.b.manifest(d)
	if err != nil {
		return err
	}
	children, blobs, err := neededContent(m)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := w.walkBelow(ctx, child, depth+1); err != nil {
			return err
		}
	}
	return w.visit(m, blobs)
}

// neededContent returns an index's manifests, or an image's config and layers.
func neededContent(m oci.Manifest) (children, blobs []oci.Descriptor, err error) {
	if m.Descriptor.MediaType == ocispec.MediaTypeImageIndex {
		index, err := m.Index()
		return index.Manifests, nil, err
	}
	image, err := m.Image()
	if err != nil {
		return nil, nil, err
	}
	return nil, append([]oci.Descriptor{image.Config}, image.Layers...), nil
}

// subjectOf returns the subject of a manifest, nil if there is none.
func subjectOf(m oci.Manifest) (*oci.Descriptor, error) {
	if index, err := m.Index(); err == nil {
		return index.Subject, nil
	}
	image, err := m.Image()
	return image.Subject, err
}

// Report counts the content of the bundle, without its bytes.
func (b *File) Report() Report {
	return Report{Tags: len(b.Index.Manifests), Blobs: len(b.blobs), Required: len(b.requiredBlobs())}
}

// Verify checks the bundle without a registry, in constant memory: each digest, and that all below
// index.json is here or required from an earlier bundle.
func (b *File) Verify(ctx context.Context) (Report, error) {
	report := b.Report()
	for d, s := range b.blobs {
		if err := blobIntact(ctx, b.file, s.offset, oci.Descriptor{Digest: d, Size: s.size}); err != nil {
			return report, fmt.Errorf("blob %s: %w", d, err)
		}
		report.Bytes += s.size
	}
	required := b.requiredBlobs()
	w := walk{b: b, seen: map[digest.Digest]bool{}}
	w.missing = func(d oci.Descriptor) error {
		if required[d.Digest] {
			return nil
		}
		return fmt.Errorf("manifest %s is missing: %w", d.Digest, oci.ErrCorrupt)
	}
	w.visit = func(_ oci.Manifest, blobs []oci.Descriptor) error {
		for _, blob := range blobs {
			if s, ok := b.blobs[blob.Digest]; ok && s.size != blob.Size {
				return fmt.Errorf("blob %s has %d bytes, expected %d: %w", blob.Digest, s.size, blob.Size, oci.ErrCorrupt)
			} else if !ok && !required[blob.Digest] {
				return fmt.Errorf("blob %s is missing: %w", blob.Digest, oci.ErrCorrupt)
			}
		}
		return nil
	}
	for _, root := range b.Index.Manifests {
		if err := w.walkFrom(ctx, root); err != nil {
			return report, fmt.Errorf("%s: %w", root.Annotations[ocispec.AnnotationRefName], err)
		}
	}
	return report, nil
}
