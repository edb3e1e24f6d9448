// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"cmp"
	"context"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

// uploadBytes bounds an upload, unless [Limits] sets another bound: a working
// directory contains the modules of others, and their links.
const uploadBytes = 2 << 30

// CheckUpload reads a tar.gz to its end, as [UnpackUpload] does, and writes
// nothing.
func CheckUpload(ctx context.Context, r io.Reader, l Limits) error {
	return readUpload(ctx, r, nil, l)
}

// UnpackUpload writes the tar.gz of a working directory into the empty
// directory dir: files, directories, and symbolic links whose targets are
// inside. By default it may have 2 GiB. Links are created last, so nothing is
// written through one, and no entry may be below one. After an error dir may
// contain a part of the upload.
func UnpackUpload(ctx context.Context, r io.Reader, dir string, l Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return readUpload(ctx, r, root, l)
}

func readUpload(ctx context.Context, r io.Reader, root *os.Root, l Limits) error {
	l.Bytes = cmp.Or(l.Bytes, uploadBytes)
	l.FileSize = cmp.Or(l.FileSize, l.Bytes)
	u := &unpacker{root: root, limits: l.withDefaults(), links: true, in: source{r: r}}
	gz, err := gzip.NewReader(&u.in)
	if err != nil {
		return u.brokenError("gzip", err)
	}
	defer gz.Close()
	if err := u.unpackTar(ctx, gz); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, &u.in); err != nil { // what is after the archive
		return err
	}
	return u.writeLinks()
}
