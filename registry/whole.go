// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
)

// OpenArchive returns a blob of a repository as a file, temporary unless it is on this machine. The
// caller must have checked the right to read it. done closes the file.
func (h *Handler) OpenArchive(ctx context.Context, repository string, d oci.Descriptor) (_ io.ReaderAt, done func(), err error) {
	return h.s.archives.readWhole(ctx, h.s.views.own, repository, d)
}

// ArchiveLink returns a signed path to a blob, relative to the server's root, as tools get them.
func (h *Handler) ArchiveLink(repository, sha256hex, file string) string {
	l := h.s.views.own.links
	return l.signedPath(blobName{Repository: repository, Hex: sha256hex, File: file}, l.linkExpiry())
}

// readWhole finds a blob as deliver does, and returns it when it is complete.
func (a *archives) readWhole(ctx context.Context, v *view, repository string, d oci.Descriptor) (_ io.ReaderAt, done func(), err error) {
	repo, err := v.client.Repo(repository)
	if err != nil {
		return nil, nil, err
	}
	src := &source{ctx: ctx, repo: repo, d: d}
	defer func() { _ = src.Close() }() // only read
	if a.local != nil {
		if f, err := a.local(repository, d.Digest.Encoded()); err == nil {
			return f, func() { _ = f.Close() }, nil
		}
	}
	if a.files != nil {
		b := cache.Blob{Repository: repository, Hex: d.Digest.Encoded()}
		src.file, src.spool, _, err = a.files.Open(ctx, b, d.Size, 0, func(ctx context.Context) (io.ReadCloser, *url.URL, error) {
			shared := &source{ctx: ctx, repo: repo, d: d, raw: true}
			_, err := shared.openAt(0, false)
			return shared, nil, err
		})
		if err != nil {
			return nil, nil, err
		}
		if src.file != nil && src.spool == nil {
			f := src.file
			src.file = nil
			return f, func() { _ = f.Close() }, nil
		}
	}
	return copyToTemp(src, d)
}

func copyToTemp(src io.Reader, d oci.Descriptor) (io.ReaderAt, func(), error) {
	f, done, err := files.TempFile("")
	if err != nil {
		return nil, nil, err
	}
	n, err := io.Copy(f, src)
	if err == nil && n != d.Size {
		err = fmt.Errorf("%s has %d bytes, not %d: %w", d.Digest, n, d.Size, oci.ErrCorrupt)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return f, done, nil
}
