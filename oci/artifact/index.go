// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"fmt"

	"github.com/seed-141914ff/okara/oci"
)

// The search index is one document beside the catalog entries. It is derived from their artifacts,
// so a writer may lose a race, and it can be lost without losing data.
const (
	artifactIndex = "application/vnd.okara.index.v1"
	mediaIndex    = "application/vnd.okara.index.v1+zstd"
	indexTag      = "okara-index"
)

// PutIndex replaces the index in the catalog r.
func PutIndex(ctx context.Context, r *oci.Repo, document []byte) error {
	blob, err := Seal(ctx, r, nil, indexTag, mediaIndex, document)
	if err != nil {
		return err
	}
	return PutDocument(ctx, r, indexTag, artifactIndex, blob, nil)
}

// ReadIndex reads the index in the catalog r, at most limit bytes decompressed, with two requests.
// The error is [oci.ErrNotFound] if there is none.
func ReadIndex(ctx context.Context, r *oci.Repo, limit int64) ([]byte, error) {
	m, err := r.Fetch(ctx, indexTag)
	if err != nil {
		return nil, err
	}
	layer, err := DocumentLayer(m, artifactIndex)
	if err != nil {
		return nil, fmt.Errorf("%s:%s is not a search index: %w", r, indexTag, err)
	}
	return Open(ctx, r, nil, indexTag, mediaIndex, layer, limit)
}
