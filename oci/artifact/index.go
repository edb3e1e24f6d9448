// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/oci"
)

// The index of the search is one document beside the entries of the catalog. It is
// derived from what they name: who writes it may lose a race, and losing it loses
// nothing.
const (
	ArtifactIndex = "application/vnd.okara.index.v1"
	MediaIndex    = "application/vnd.okara.index.v1+zstd"
	IndexTag      = "okara-index"
)

// PutIndex replaces the index in the catalog r.
func PutIndex(ctx context.Context, r *oci.Repo, document []byte) error {
	blob, err := Seal(ctx, r, nil, IndexTag, MediaIndex, document)
	if err != nil {
		return err
	}
	m, err := oci.NewManifest(ocispec.Manifest{
		ArtifactType: ArtifactIndex, Config: EmptyConfig(), Layers: []oci.Descriptor{blob.Descriptor},
	})
	if err != nil {
		return err
	}
	for _, b := range []oci.Blob{oci.EmptyBlob(), blob} {
		if _, err := r.EnsureBlob(ctx, b); err != nil {
			return fmt.Errorf("write the index: %w", err)
		}
	}
	return r.PutTag(ctx, IndexTag, m)
}

// ReadIndex reads the index in the catalog r, in two requests: at most limit bytes,
// once it is expanded. [oci.ErrNotFound] if there is none.
func ReadIndex(ctx context.Context, r *oci.Repo, limit int64) ([]byte, error) {
	m, err := r.Fetch(ctx, IndexTag)
	if err != nil {
		return nil, err
	}
	image, err := m.Image()
	if err != nil {
		return nil, err
	}
	if image.ArtifactType != ArtifactIndex || len(image.Layers) != 1 {
		return nil, fmt.Errorf("%s:%s is no index: %w", r, IndexTag, oci.ErrCorrupt)
	}
	return Open(ctx, r, nil, IndexTag, MediaIndex, image.Layers[0], limit)
}
