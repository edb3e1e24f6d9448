// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/oci"
)

// A bare manifest has all its data in annotations, a document is a manifest with one layer.

// NewImage returns the manifest of an artifact without a config.
func NewImage(artifactType string, annotations map[string]string, layers ...oci.Descriptor) (oci.Manifest, error) {
	return oci.NewManifest(ocispec.Manifest{ArtifactType: artifactType, Config: EmptyConfig(), Layers: layers, Annotations: annotations})
}

// NewBare returns a manifest that consists of annotations only.
func NewBare(artifactType string, annotations map[string]string) (oci.Manifest, error) {
	return NewImage(artifactType, annotations, EmptyConfig())
}

// PutBare writes a bare manifest under a tag, with one request if the registry has the empty blob.
func PutBare(ctx context.Context, r *oci.Repo, tag string, m oci.Manifest) error {
	err := r.PutTag(ctx, tag, m)
	if !oci.MissesBlob(err) {
		return err
	}
	if err := r.PushBlob(ctx, oci.EmptyBlob()); err != nil {
		return err
	}
	return r.PutTag(ctx, tag, m)
}

// EnsureBlobs pushes the blobs and the empty config blob unless the repository has them.
func EnsureBlobs(ctx context.Context, r *oci.Repo, blobs ...oci.Blob) error {
	for _, b := range append([]oci.Blob{oci.EmptyBlob()}, blobs...) {
		if _, err := r.EnsureBlob(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// PutDocument replaces the manifest under a tag by a document of this type.
func PutDocument(ctx context.Context, r *oci.Repo, tag, artifactType string, layer oci.Blob, annotations map[string]string) error {
	m, err := NewImage(artifactType, annotations, layer.Descriptor)
	if err != nil {
		return err
	}
	if _, err := r.Push(ctx, oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob(), layer}, New: true}); err != nil {
		return fmt.Errorf("write %s:%s: %w", r, tag, err)
	}
	return r.PutTag(ctx, tag, m)
}

// DocumentLayer returns the layer of a document; [oci.ErrCorrupt] for any other manifest.
func DocumentLayer(m oci.Manifest, artifactType string) (oci.Descriptor, error) {
	image, err := m.Image()
	if err != nil {
		return oci.Descriptor{}, err
	}
	if image.ArtifactType != artifactType || len(image.Layers) != 1 {
		return oci.Descriptor{}, fmt.Errorf("manifest %s is not one of type %s with one layer: %w", m.Digest, artifactType, oci.ErrCorrupt)
	}
	return image.Layers[0], nil
}
