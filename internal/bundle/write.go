// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

const layoutFile = `{"imageLayoutVersion":"1.0.0"}`

// contents is what a bundle is written from.
type contents struct {
	index    []byte
	blobs    []blob      // by digest
	progress func(int64) // called with the number of bytes in the file
}

type blob struct {
	desc  oci.Descriptor
	repo  *oci.Repo
	bytes []byte // content of manifests, which are already in memory
	name  string // "": that of a blob
}

const tarBlock = 512

// paddedSize returns a file's space in a tar, header included.
func paddedSize(size int64) int64 { return tarBlock + (size+tarBlock-1)/tarBlock*tarBlock }

// completeTar completes the tar in f and returns how many blobs were already there.
func (p contents) completeTar(ctx context.Context, f *os.File) (resumed int, err error) {
	head := []blob{{name: ocispec.ImageLayoutFile, bytes: []byte(layoutFile)}, {name: ocispec.ImageIndexFile, bytes: p.index}}
	for i, b := range head {
		head[i].desc = content.NewDescriptorFromBytes("", b.bytes)
	}
	all := slices.Concat(head, p.blobs)
	kept, offset, err := resumeWrite(ctx, f, all)
	if err == nil {
		err = f.Truncate(offset)
	}
	if err == nil {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return 0, err
	}
	out := tar.NewWriter(f)
	for i, b := range all {
		progress := p.progress
		if b.name != "" {
			progress = func(int64) {}
		}
		if i < kept {
			progress(b.desc.Size)
		} else if err := b.write(ctx, out, progress); err != nil {
			return 0, fmt.Errorf("blob %s: %w", b.desc.Digest, err)
		}
	}
	return max(0, kept-len(head)), out.Close()
}

// resumeWrite returns how many files of an earlier run are complete, and where they
// end. From the first that is another one, everything is written again.
func resumeWrite(ctx context.Context, f *os.File, all []blob) (kept int, offset int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	for _, b := range all {
		end := offset + paddedSize(b.desc.Size)
		if end > info.Size() {
			break
		}
		if err := blobIntact(ctx, f, offset+tarBlock, b.desc); ctx.Err() != nil {
			return 0, 0, err
		} else if err != nil {
			break
		}
		offset = end
		kept++
	}
	return kept, offset, nil
}

// blobIntact checks the bytes of a blob in the file.
func blobIntact(ctx context.Context, f *os.File, at int64, d oci.Descriptor) error {
	v := d.Digest.Verifier()
	n, err := io.Copy(v, oci.Interruptible(ctx, io.NewSectionReader(f, at, d.Size)))
	if err == nil && (n != d.Size || !v.Verified()) {
		err = fmt.Errorf("its content does not match its digest: %w", oci.ErrCorrupt)
	}
	return err
}

func (b blob) write(ctx context.Context, w *tar.Writer, progress func(int64)) error {
	body := io.NopCloser(bytes.NewReader(b.bytes))
	if b.bytes == nil {
		var err error
		if body, err = b.repo.Open(ctx, b.desc); err != nil {
			return err
		}
	}
	defer body.Close()
	d := b.desc.Digest
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: cmp.Or(b.name, path.Join(ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded())), Size: b.desc.Size,
		Mode: 0o644, ModTime: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), Format: tar.FormatUSTAR,
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.Copy(w, depot.Watch(body, progress)); err != nil {
		return err
	}
	return w.Flush()
}
