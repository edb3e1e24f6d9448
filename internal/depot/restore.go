// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// LostParts returns a version's parts that the registry lacks, with one HEAD for each part.
func LostParts(ctx context.Context, r *oci.Repo, root oci.Manifest) ([]oci.Descriptor, error) {
	manifests, blobs, err := partsOf(root)
	if err != nil {
		return nil, err
	}
	return findMissing(ctx, r, manifests, withoutInlined(blobs))
}

// lostParts is LostParts for a version that somebody writes again.
func lostParts(ctx context.Context, r *oci.Repo, root oci.Manifest) ([]oci.Descriptor, error) {
	if stored, err := artifact.ParseProviderIndex(root); err == nil {
		return lostOf(ctx, r, stored)
	}
	lost, err := LostParts(ctx, r, root)
	if errors.Is(err, oci.ErrCorrupt) {
		err = nil // another tool wrote it
	}
	return lost, err
}

// partsOf returns what a version leads to: manifests, zips and metadata, or layers.
func partsOf(root oci.Manifest) (manifests, blobs []oci.Descriptor, err error) {
	if provider, err := artifact.ParseProviderIndex(root); err == nil {
		manifests, blobs = providerParts(provider)
		return manifests, blobs, nil
	}
	if index, err := root.Index(); err == nil {
		return index.Manifests, nil, nil
	}
	image, err := root.Image()
	return nil, image.Layers, err
}

func providerParts(stored artifact.ProviderIndex) (manifests, blobs []oci.Descriptor) {
	for _, p := range stored.Platforms {
		if manifests = append(manifests, p.Manifest); p.Zh != "" {
			blobs = append(blobs, oci.Descriptor{MediaType: artifact.MediaZip, Digest: digestOf(p.Zh), Size: p.Size})
		}
	}
	if m := stored.Metadata; m != nil {
		manifests = append(manifests, *m)
		if image, err := (oci.Manifest{Descriptor: *m, Bytes: m.Data}).Image(); err == nil {
			blobs = append(blobs, image.Layers...)
		}
	}
	return manifests, blobs
}

// withoutInlined returns the blobs that are not repeated in their descriptors.
func withoutInlined(blobs []oci.Descriptor) []oci.Descriptor {
	return slices.DeleteFunc(slices.Clone(blobs), func(d oci.Descriptor) bool { return d.Data != nil })
}

// lostOf is LostParts for a provider written again; manifests that only lack their tag get it.
func lostOf(ctx context.Context, r *oci.Repo, stored artifact.ProviderIndex) (lost []oci.Descriptor, err error) {
	manifests, blobs := providerParts(stored)
	missing, err := findMissing(ctx, r, manifests, withoutInlined(blobs))
	if err != nil || !r.TagsParts() {
		return missing, err
	}
	for _, d := range missing {
		if slices.ContainsFunc(blobs, func(b oci.Descriptor) bool { return b.Digest == d.Digest }) {
			lost = append(lost, d)
			continue
		}
		m, err := r.Fetch(ctx, d.Digest.String())
		if err == nil {
			err = r.PutPart(ctx, m)
		} else if errors.Is(err, oci.ErrNotFound) {
			lost = append(lost, d)
			err = nil
		}
		if err != nil {
			return nil, err
		}
	}
	return lost, nil
}

func findMissing(ctx context.Context, r *oci.Repo, manifests, blobs []oci.Descriptor) ([]oci.Descriptor, error) {
	parts := slices.Concat(manifests, blobs)
	there := make([]bool, len(parts))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(resolveParallel)
	for i, d := range parts {
		g.Go(func() (err error) {
			has := r.HasPart
			if i >= len(manifests) {
				has = r.HasBlob
			}
			there[i], err = has(gctx, d)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []oci.Descriptor
	for i, d := range parts {
		if !there[i] {
			out = append(out, d)
		}
	}
	return out, nil
}

// restoreParts pushes lost parts from offered content, whose bytes must be those of then: an index
// names digests. A blob that does not open was sent already.
func restoreParts(ctx context.Context, r *oci.Repo, tag string, parts []oci.Descriptor, offered oci.Artifact) (warnings []string, err error) {
	if len(parts) == 0 {
		return nil, nil
	}
	push := oci.Artifact{Blobs: slices.DeleteFunc(slices.Clone(offered.Blobs), func(b oci.Blob) bool { return b.Open == nil })}
	for _, d := range parts {
		isPart := func(m oci.Manifest) bool { return m.Digest == d.Digest }
		if i := slices.IndexFunc(offered.Children, isPart); i >= 0 {
			push.Children = append(push.Children, offered.Children[i])
			continue
		}
		if slices.ContainsFunc(offered.Blobs, func(b oci.Blob) bool { return b.Digest == d.Digest }) {
			continue
		}
		m, blobs, err := readInlined(d)
		if err != nil {
			return nil, fmt.Errorf("%s:%s has lost %s, and what is published now has other bytes: %w", r, tag, d.Digest, oci.ErrCorrupt)
		}
		push.Children = append(push.Children, m)
		push.Blobs = append(push.Blobs, blobs...)
	}
	if _, err := r.Push(ctx, push); err != nil {
		return nil, err
	}
	for _, m := range push.Children {
		if err := r.PutPart(ctx, m); err != nil {
			return nil, err
		}
	}
	return []string{fmt.Sprintf("the registry had lost %d of the parts of %s, which were pushed again; check whether its garbage collection removes untagged manifests", len(parts), tag)}, nil
}

// readInlined returns a manifest, and blobs, repeated in an index's descriptor.
func readInlined(d oci.Descriptor) (oci.Manifest, []oci.Blob, error) {
	m := oci.Manifest{Descriptor: oci.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: int64(len(d.Data)), ArtifactType: d.ArtifactType}, Bytes: d.Data}
	if d.Digest.Validate() != nil || d.Digest.Algorithm().FromBytes(d.Data) != d.Digest {
		return m, nil, oci.ErrCorrupt
	}
	image, err := m.Image()
	blobs := []oci.Blob{oci.EmptyBlob()}
	for _, layer := range image.Layers {
		if layer.Data != nil {
			blobs = append(blobs, oci.BytesBlob(layer.MediaType, layer.Data))
		}
	}
	return m, blobs, err
}

// pushMissing pushes what a version lost, from the plan's packages.
func (x providerPush) pushMissing(ctx context.Context, out Published, stored artifact.ProviderIndex) (Published, error) {
	out.Warnings = append(slices.Clone(out.Warnings), x.warnUnsigned(ctx, stored)...)
	parts, err := lostOf(ctx, x.repo, stored)
	if err != nil || len(parts) == 0 {
		return out, err
	}
	offered, err := x.buildArtifact(x.plan.Packages, nil)
	if err != nil {
		return Published{}, err
	}
	warnings, err := restoreParts(ctx, x.repo, x.version.Tag(), parts, offered)
	out.Warnings = append(out.Warnings, warnings...)
	out.Restored = err == nil
	return out, err
}

// warnUnsigned warns of keys that sign now and did not sign the version, which keeps its signature.
func (x providerPush) warnUnsigned(ctx context.Context, stored artifact.ProviderIndex) (warnings []string) {
	if x.listing == nil {
		return nil
	}
	md, err := evidence.Resigned(ctx, x.repo, stored, x.listing.StatusOf(x.version, stored.Index.Digest))
	keys, keysErr := x.o.knownKeys()
	if err != nil || keysErr != nil {
		return nil // what is lost is restored
	}
	for i, k := range keys {
		if signed := i >= len(x.o.Keys) || slices.Contains(x.plan.signers, k.ID); !signed {
			continue
		}
		if _, err := signing.Verify(md.ShasumsBytes, md.SignatureBytes, []signing.PublicKey{k}, signing.VerifyOptions{Now: x.o.Now, AllowExpired: true}); err != nil {
			warnings = append(warnings, fmt.Sprintf("%s %s keeps its signature, which is not by key %s: `okara sign %s@%s --sign-key FILE` adds one", x.provider, x.version, k.ID, x.provider, x.version))
		}
	}
	return warnings
}

// restoreMirror pushes a mirrored version's lost parts from its origin.
func (x providerPush) restoreMirror(ctx context.Context, d *Depot, src Source, stored artifact.ProviderIndex, o MirrorOptions) (warnings []string, err error) {
	parts, err := lostOf(ctx, x.repo, stored)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	packages, err := packagesOf(ctx, src, x.provider, x.version, platformsOf(stored))
	if err == nil {
		x.plan, err = planMirror(x.provider, x.version, packages, o)
	}
	if err == nil {
		err = x.plan.mirrorDocs(ctx, x.provider, x.version, packages[0])
	}
	if err == nil {
		err = x.transferZips(ctx, packages, d.o.TempDir) // sends the zips that are missing
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s has lost %d of its parts: %w", x.provider, x.version, len(parts), err)
	}
	offered, err := x.buildArtifact(x.plan.Packages, nil)
	if err != nil {
		return nil, err
	}
	for _, k := range x.plan.Packages {
		offered.Blobs = append(offered.Blobs, oci.Blob{Descriptor: k.descriptor()})
	}
	return restoreParts(ctx, x.repo, x.version.Tag(), parts, offered)
}
