// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/opencontainers/go-digest"

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
}

func tarHeader(name string, size int64) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644,
		ModTime: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), Format: tar.FormatUSTAR,
	}
}

func blobName(d digest.Digest) string { return path.Join("blobs", d.Algorithm().String(), d.Encoded()) }

const tarBlock = 512

// padded returns the space that a file of this size takes in a tar, including
// the header.
func padded(size int64) int64 { return tarBlock + (size+tarBlock-1)/tarBlock*tarBlock }

// write completes the tar in f and returns how many blobs were already there.
func (p contents) write(ctx context.Context, f *os.File) (resumed int, err error) {
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	for _, file := range []struct {
		name string
		body []byte
	}{{"oci-layout", []byte(layoutFile)}, {"index.json", p.index}} {
		if err := writeFile(w, file.name, int64(len(file.body)), bytes.NewReader(file.body)); err != nil {
			return 0, err
		}
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	resumed, offset, err := p.resume(ctx, f, head.Bytes())
	if err != nil {
		return 0, err
	}
	if err := f.Truncate(offset); err != nil {
		return 0, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	if offset == 0 {
		if _, err := f.Write(head.Bytes()); err != nil {
			return 0, err
		}
	}
	out := tar.NewWriter(f)
	for _, b := range p.blobs[:resumed] {
		p.progress(b.desc.Size)
	}
	for _, b := range p.blobs[resumed:] {
		if err := b.write(ctx, out, p.progress); err != nil {
			return 0, fmt.Errorf("blob %s: %w", b.desc.Digest, err)
		}
	}
	return resumed, out.Close()
}

// resume returns how many blobs of an earlier run are complete. If the file
// starts differently, it belongs to another bundle and everything is written
// again.
func (p contents) resume(ctx context.Context, f *os.File, head []byte) (blobs int, offset int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	have := make([]byte, len(head))
	if _, err := f.ReadAt(have, 0); err != nil || !bytes.Equal(have, head) {
		return 0, 0, nil
	}
	offset = int64(len(head))
	for _, b := range p.blobs {
		end := offset + padded(b.desc.Size)
		if end > info.Size() {
			break
		}
		if err := blobIntact(ctx, f, offset+tarBlock, b.desc); ctx.Err() != nil {
			return 0, 0, err
		} else if err != nil {
			break
		}
		offset = end
		blobs++
	}
	return blobs, offset, nil
}

// blobIntact checks the bytes of a blob in the file.
func blobIntact(ctx context.Context, f *os.File, at int64, d oci.Descriptor) error {
	v := d.Digest.Verifier()
	n, err := io.Copy(v, oci.Interruptible(ctx, io.NewSectionReader(f, at, d.Size)))
	if err == nil && (n != d.Size || !v.Verified()) {
		err = fmt.Errorf("its bytes have another digest: %w", oci.ErrCorrupt)
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
	return writeFile(w, blobName(b.desc.Digest), b.desc.Size, depot.Watch(body, progress))
}

func writeFile(w *tar.Writer, name string, size int64, body io.Reader) error {
	if err := w.WriteHeader(tarHeader(name, size)); err != nil {
		return err
	}
	if _, err := io.Copy(w, body); err != nil {
		return err
	}
	return w.Flush()
}
