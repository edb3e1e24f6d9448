// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/oci"
)

// maxSmallBlob bounds blobs kept in memory: checksums, signatures and keys.
const maxSmallBlob = 1 << 20

// Blobs caches sizes, and small content, a repository at a time: a manifest may name a digest that
// its author cannot read. It is safe for concurrent use.
type Blobs struct {
	client *oci.Client
	sizes  *cache.Cache[int64]  // repository@hex
	bytes  *cache.Cache[[]byte] // repository@hex
}

// alwaysFresh is the policy for values that never change.
func alwaysFresh() cache.Policy { return cache.Policy{Fresh: cache.Forever} }

// Blob returns a blob's descriptor, asking the registry for an unknown size.
func (b *Blobs) Blob(ctx context.Context, repository, sha256hex string) (oci.Descriptor, error) {
	d := oci.Descriptor{MediaType: "application/octet-stream", Digest: digest.NewDigestFromEncoded(digest.SHA256, sha256hex)}
	size, err := b.sizes.Get(ctx, repository+"@"+sha256hex, alwaysFresh(), func(ctx context.Context, _ int64, _ bool) (int64, error) {
		r, err := b.client.Repo(repository)
		if err != nil {
			return 0, err
		}
		found, err := r.Stat(ctx, d.Digest)
		return found.Size, err
	})
	d.Size = size
	return d, err
}

// KeepSize caches the size of a blob, which saves a request to the registry later.
func (b *Blobs) KeepSize(repository string, d oci.Descriptor) {
	b.sizes.Put(repository+"@"+d.Digest.Encoded(), d.Size)
}

// ForgetSize drops the size of a blob that is lost.
func (b *Blobs) ForgetSize(repository, sha256hex string) {
	b.sizes.Forget(repository + "@" + sha256hex)
}

// KnownSize returns a known blob's size, without a request.
func (b *Blobs) KnownSize(repository, sha256hex string) (int64, bool) {
	return b.sizes.Peek(repository + "@" + sha256hex)
}

// KeepBytes caches a small blob that was read as part of something else.
func (b *Blobs) KeepBytes(repository, sha256hex string, bytes []byte) {
	b.bytes.Put(repository+"@"+sha256hex, bytes)
}

// KnownBytes returns a small blob that is in memory.
func (b *Blobs) KnownBytes(repository, sha256hex string) ([]byte, bool) {
	return b.bytes.Peek(repository + "@" + sha256hex)
}

// smallBlob returns the content of a small blob, through the cache.
func (b *Blobs) smallBlob(ctx context.Context, repository string, d oci.Descriptor) ([]byte, error) {
	return b.bytes.Get(ctx, repository+"@"+d.Digest.Encoded(), alwaysFresh(), func(ctx context.Context, _ []byte, _ bool) ([]byte, error) {
		r, err := b.client.Repo(repository)
		if err != nil {
			return nil, err
		}
		return r.ReadBlob(ctx, d, maxSmallBlob)
	})
}
