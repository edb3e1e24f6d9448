// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// ArtifactRecord is the type of a depot's record: what it published, from which
// origin, and what waits. Its only layer is JSON of MediaRecord.
const (
	ArtifactRecord = "application/vnd.okara.depot.v1"
	MediaRecord    = "application/vnd.okara.depot.v1+json"
)

// RecordTag is the tag of the record in the catalogue repository. It moves; one
// runner at a time writes it.
const RecordTag = "okara-depot"

// maxRecord bounds a record: at 250 bytes a version, a quarter of a million.
const maxRecord = 64 << 20

// Record reads the depot's record from the catalogue repository r; nil if there
// is none yet.
func (r *Repo) Record(ctx context.Context) ([]byte, error) {
	m, err := r.Fetch(ctx, RecordTag)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	image, err := m.Image()
	if err != nil {
		return nil, err
	}
	if image.ArtifactType != ArtifactRecord || len(image.Layers) != 1 {
		return nil, fmt.Errorf("tag %s of %s is not a depot record: %w", RecordTag, r, ErrCorrupt)
	}
	return r.ReadBlob(ctx, image.Layers[0], maxRecord)
}

// PutRecord replaces the depot's record.
func (r *Repo) PutRecord(ctx context.Context, b []byte) error {
	blob := BytesBlob(MediaRecord, b)
	m, err := NewManifest(ocispec.Manifest{ArtifactType: ArtifactRecord, Config: emptyConfig(), Layers: []Descriptor{blob.Descriptor}})
	if err != nil {
		return err
	}
	for _, b := range []Blob{EmptyBlob(), blob} {
		if _, err := r.EnsureBlob(ctx, b); err != nil {
			return fmt.Errorf("write the depot's record: %w", err)
		}
	}
	return r.PutTag(ctx, RecordTag, m)
}
