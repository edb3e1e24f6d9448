// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"fmt"
	"net/http"

	"github.com/opencontainers/go-digest"
)

// Stat returns the descriptor, with the size, of a blob of which only the
// digest is known. ErrNotFound: the repository does not have it.
func (r *Repo) Stat(ctx context.Context, d digest.Digest) (Descriptor, error) {
	if err := d.Validate(); err != nil {
		return Descriptor{}, fmt.Errorf("blob %q of %s: %w: %w", d, r, ErrNotFound, err)
	}
	q := request{method: http.MethodHead, path: "blobs/" + d.String(), header: http.Header{"Accept-Encoding": {"identity"}}}
	resp, err := r.done(ctx, q)
	if err != nil {
		return Descriptor{}, err
	}
	if resp.ContentLength < 0 {
		return Descriptor{}, fmt.Errorf("blob %s of %s: %w: the registry does not tell its size", d, r, ErrUnsupported)
	}
	return Descriptor{MediaType: "application/octet-stream", Digest: d, Size: resp.ContentLength}, nil
}
