// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"cmp"
	"context"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

// uploadBytes bounds an upload unless [Limits] does: it contains others' modules.
const uploadBytes = 2 << 30

// CheckUpload reads a tar.gz as [UnpackUpload] does, and writes nothing.
func CheckUpload(ctx context.Context, r io.Reader, l Limits) error {
	return readUpload(ctx, r, nil, l)
}

// UnpackUpload writes the tar.gz of a working directory, by default up to 2 GiB, into the empty
// directory dir: files, directories, symbolic links to inside, created last, so that nothing goes
// through one. After an error dir may have a part.
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
