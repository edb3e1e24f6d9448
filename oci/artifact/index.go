// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"fmt"

	"github.com/seed-141914ff/okara/oci"
)

// An index is one document, of the search beside the catalog entries, of what states use beside those
// of states. It is derived, so a writer may lose a race, and it can be lost without losing data.
type Index struct{ tag, artifactType, mediaType string }

// SearchIndex is the index of modules, providers and templates.
func SearchIndex() Index {
	return Index{"okara-index", "application/vnd.okara.index.v1", "application/vnd.okara.index.v1+zstd"}
}

// UsesIndex is the index of what states use.
func UsesIndex() Index {
	return Index{"okara-uses", "application/vnd.okara.uses.v1", "application/vnd.okara.uses.v1+zstd"}
}

// Put replaces the index in r, sealed unless s is nil.
func (x Index) Put(ctx context.Context, r *oci.Repo, s Sealer, document []byte) error {
	blob, err := Seal(ctx, r, s, x.tag, x.mediaType, document)
	if err != nil {
		return err
	}
	return PutDocument(ctx, r, x.tag, x.artifactType, blob, nil)
}

// Read reads the index in r, at most limit bytes decompressed, with two requests. The error is
// [oci.ErrNotFound] if there is none.
func (x Index) Read(ctx context.Context, r *oci.Repo, s Sealer, limit int64) ([]byte, error) {
	m, err := r.Fetch(ctx, x.tag)
	if err != nil {
		return nil, err
	}
	layer, err := DocumentLayer(m, x.artifactType)
	if err != nil {
		return nil, fmt.Errorf("%s:%s is not an index: %w", r, x.tag, err)
	}
	return Open(ctx, r, s, x.tag, x.mediaType, layer, limit)
}
