// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"

	"github.com/opencontainers/go-digest"
	"github.com/seed-141914ff/okara/oci"
)

// Blob returns the descriptor of a blob. Its size is known if this process has
// met it, else the registry is asked.
func (c *Catalog) Blob(ctx context.Context, repository, sha256hex string) (oci.Descriptor, error) {
	d := oci.Descriptor{MediaType: "application/octet-stream", Digest: digest.NewDigestFromEncoded(digest.SHA256, sha256hex)}
	size, err := c.sizes.Get(ctx, repository+"@"+sha256hex, c.blobPolicy, func(ctx context.Context, _ int64, _ bool) (int64, error) {
		r, err := c.client.Repo(repository)
		if err != nil {
			return 0, err
		}
		found, err := r.Stat(ctx, d.Digest)
		return found.Size, err
	})
	d.Size = size
	return d, err
}

// KeepSize saves the registry a question when the blob is asked for.
func (c *Catalog) KeepSize(repository string, d oci.Descriptor) {
	c.sizes.Put(repository+"@"+d.Digest.Encoded(), d.Size)
}

// KnownSize returns the size of a blob that is known to be in the repository,
// without asking.
func (c *Catalog) KnownSize(repository, sha256hex string) (int64, bool) {
	return c.sizes.Peek(repository + "@" + sha256hex)
}

// KeepBytes keeps a small blob that was met on the way: checksums, a signature.
func (c *Catalog) KeepBytes(sha256hex string, b []byte) { c.blobs.Put(sha256hex, b) }

// KnownBytes returns a small blob that is in memory.
func (c *Catalog) KnownBytes(sha256hex string) ([]byte, bool) { return c.blobs.Peek(sha256hex) }
