// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// LostParts returns those parts of a version that the registry does not have:
// manifests of an index, layers of an image. It sends one HEAD for each part.
func LostParts(ctx context.Context, r *oci.Repo, root oci.Manifest) ([]oci.Descriptor, error) {
	if index, err := root.Index(); err == nil {
		return lost(ctx, index.Manifests, isManifestIn(r))
	}
	image, err := root.Image()
	if err != nil {
		return nil, err
	}
	return lost(ctx, image.Layers, r.HasBlob)
}

func isManifestIn(r *oci.Repo) func(context.Context, oci.Descriptor) (bool, error) {
	return func(ctx context.Context, d oci.Descriptor) (bool, error) {
		_, err := r.Resolve(ctx, d.Digest.String())
		if errors.Is(err, oci.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
}

// lost returns the parts that are missing.
func lost(ctx context.Context, parts []oci.Descriptor, has func(context.Context, oci.Descriptor) (bool, error)) ([]oci.Descriptor, error) {
	there := make([]bool, len(parts))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(resolveParallel)
	for i, d := range parts {
		g.Go(func() (err error) {
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

// restore pushes the parts that a version has lost, from the content that is
// offered for it. The bytes must be those of then: an index names digests.
func restore(ctx context.Context, r *oci.Repo, tag string, parts []oci.Descriptor, offered oci.Artifact) (warnings []string, err error) {
	if len(parts) == 0 {
		return nil, nil
	}
	push := oci.Artifact{Blobs: offered.Blobs}
	for _, d := range parts {
		isPart := func(m oci.Manifest) bool { return m.Digest == d.Digest }
		if i := slices.IndexFunc(offered.Children, isPart); i >= 0 {
			push.Children = append(push.Children, offered.Children[i])
			continue
		}
		if slices.ContainsFunc(offered.Blobs, func(b oci.Blob) bool { return b.Digest == d.Digest }) {
			continue
		}
		m, blobs, err := inlined(d)
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
		if err := r.PutManifest(ctx, m); err != nil {
			return nil, err
		}
	}
	return []string{fmt.Sprintf("the registry had lost %d parts of %s, which were pushed again; does its garbage collection remove untagged manifests?", len(parts), tag)}, nil
}

// inlined returns a manifest that an index repeats inside its descriptor, with
// the blobs that are repeated in the same way.
func inlined(d oci.Descriptor) (oci.Manifest, []oci.Blob, error) {
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

// lostOf returns the lost parts of a stored provider.
func lostOf(ctx context.Context, r *oci.Repo, stored artifact.ProviderIndex) ([]oci.Descriptor, error) {
	var parts []oci.Descriptor
	for _, p := range stored.Platforms {
		parts = append(parts, p.Manifest)
	}
	if stored.Metadata != nil {
		parts = append(parts, *stored.Metadata)
	}
	return lost(ctx, parts, isManifestIn(r))
}

// whole pushes what a version has lost, from the packages of the plan, which
// have the content that it has.
func (x providerPush) whole(ctx context.Context, out Published, stored artifact.ProviderIndex) (Published, error) {
	parts, err := lostOf(ctx, x.repo, stored)
	if err != nil || len(parts) == 0 {
		return out, err
	}
	offered, err := x.artifact(x.plan.Packages, nil)
	if err != nil {
		return Published{}, err
	}
	warnings, err := restore(ctx, x.repo, x.version.Tag(), parts, offered)
	out.Warnings = append(out.Warnings, warnings...)
	return out, err
}

// restoreMirror pushes the lost parts of a mirrored version again, from its
// origin.
func (x providerPush) restoreMirror(ctx context.Context, d *Depot, src Source, stored artifact.ProviderIndex, o MirrorOptions) (warnings []string, err error) {
	parts, err := lostOf(ctx, x.repo, stored)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	var platforms []addr.Platform
	for _, p := range stored.Platforms {
		platforms = append(platforms, p.Platform)
	}
	packages, err := packagesOf(ctx, src, x.provider, x.version, platforms)
	if err == nil {
		x.plan, err = planMirror(x.provider, x.version, packages, o)
	}
	if err == nil {
		err = x.transfer(ctx, packages, d.o.TempDir)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", x.provider, x.version, err)
	}
	offered, err := x.artifact(x.plan.Packages, nil)
	if err != nil {
		return nil, err
	}
	return restore(ctx, x.repo, x.version.Tag(), parts, offered)
}
