// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// zipEntry is the space of an entry in a zip's directory, in bytes with its name, kept in memory.
const zipEntry = 512

// tarEntry is the space of an entry in a tar besides content, in bytes: header, padding, long name.
const tarEntry = 4096

// boundedReaderAt stops reading after a number of bytes until read is set.
type boundedReaderAt struct {
	r    io.ReaderAt
	left int64
	read bool
}

func (b *boundedReaderAt) ReadAt(p []byte, at int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 && !b.read {
		return 0, ErrTooLarge
	}
	return b.r.ReadAt(p, at)
}

// Unpack writes a zip or tar of size bytes into the empty directory dir. Only regular files and
// directories within the limits are accepted. After an error dir may have some.
func Unpack(ctx context.Context, r io.ReaderAt, size int64, dir string, l Limits) error {
	return (&unpacker{limits: l.withDefaults()}).unpack(ctx, r, size, dir)
}

// UnpackForeign is Unpack for somebody else's archive, with symbolic links as in [UnpackUpload]. If
// folder is not "", of a forge's archive, which has all below one directory, only that folder is
// written, under its path; the rest is skipped unchecked.
func UnpackForeign(ctx context.Context, r io.ReaderAt, size int64, folder, dir string, l Limits) error {
	return (&unpacker{limits: l.withDefaults(), folder: folder, links: true}).unpack(ctx, r, size, dir)
}

// unpacker is one pass over an archive.
type unpacker struct {
	root   *os.Root // nil: nothing is written
	limits Limits
	folder string // "": all
	links  bool   // symbolic links are accepted
	in     source // of the archive
	used   usage
	seen   map[string]fs.FileMode // type of each path, including the directories above it
	later  []link
}

// link is a symbolic link, created after everything else.
type link struct{ name, target string }

func (u *unpacker) unpack(ctx context.Context, r io.ReaderAt, size int64, dir string) (err error) {
	if u.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer u.root.Close()
	u.in.r = io.NewSectionReader(r, 0, size)
	plain, err := openTar(bufio.NewReader(&u.in))
	switch {
	case err != nil:
		return err
	case plain != nil:
		err = u.unpackTar(ctx, plain)
	default:
		err = u.unpackZip(ctx, r, size)
	}
	if err != nil {
		return err
	}
	return u.writeLinks()
}

// openTar returns the tar in an archive by its first bytes; nil: it may be a zip.
func openTar(in *bufio.Reader) (plain io.Reader, err error) {
	start, _ := in.Peek(tarMagic + 5) // a shorter archive is no tar
	starts := func(magic string) bool { return bytes.HasPrefix(start, []byte(magic)) }
	switch {
	case starts("\x1f\x8b"):
		plain, err = gzip.NewReader(in)
	case starts("BZh"):
		plain = bzip2.NewReader(in)
	case starts("\x28\xb5\x2f\xfd"):
		plain, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
	case starts("\xfd7zXZ\x00"):
		return nil, fmt.Errorf("tar.xz archives are not supported; use zip, tar, tar.gz, tar.bz2 or tar.zst: %w", ErrUnsafe)
	case len(start) > tarMagic && string(start[tarMagic:]) == "ustar":
		plain = in
	}
	if err != nil {
		return nil, fmt.Errorf("archive: %v: %w", err, ErrUnsafe)
	}
	return plain, nil
}

const (
	tarMagic  = 257       // position of "ustar" in a tar
	maxWindow = 128 << 20 // bytes that zstd may keep, its --ultra
)

// wantsEntry reports whether an entry is written. Those are checked.
func (u *unpacker) wantsEntry(name string) bool {
	if u.folder == "" {
		return true
	}
	_, below, _ := strings.Cut(strings.TrimPrefix(name, "./"), "/")
	return strings.HasPrefix(below+"/", u.folder+"/")
}

// openZip reads the directory of a zip. The names in it may be unsafe.
func openZip(r io.ReaderAt, size int64, l Limits) (*zip.Reader, error) {
	from := &boundedReaderAt{r: r, left: int64(l.Files+l.Dirs) * zipEntry}
	z, err := zip.NewReader(from, size)
	if errors.Is(err, ErrTooLarge) {
		return nil, fmt.Errorf("zip: reading the list of entries: %w", err)
	}
	from.read = true
	if errors.Is(err, zip.ErrFormat) {
		return nil, fmt.Errorf("the archive is not a complete zip, tar, tar.gz, tar.bz2 or tar.zst: %w", ErrUnsafe)
	}
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, fmt.Errorf("zip: %v: %w", err, ErrUnsafe)
	}
	return z, nil
}

func (u *unpacker) unpackZip(ctx context.Context, r io.ReaderAt, size int64) error {
	z, err := openZip(r, size, u.limits)
	if err != nil {
		return err
	}
	for _, f := range z.File {
		if !u.wantsEntry(f.Name) {
			continue
		}
		if err := u.unpackZipped(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) unpackZipped(ctx context.Context, f *zip.File) error {
	in, err := f.Open()
	if err != nil {
		return fmt.Errorf("zip: %q: %v: %w", f.Name, err, ErrUnsafe)
	}
	defer in.Close()
	target := ""
	if f.Mode()&fs.ModeSymlink != 0 {
		b, err := io.ReadAll(io.LimitReader(in, maxPath+1))
		if err != nil {
			return fmt.Errorf("zip: %q: %v: %w", f.Name, err, ErrUnsafe)
		}
		target = string(b)
	}
	return u.writeEntry(ctx, f.Name, f.Mode(), target, in)
}

func (u *unpacker) unpackTar(ctx context.Context, in io.Reader) error {
	// Headers and padding count too, so that a stream of only these ends.
	limited := &io.LimitedReader{R: in, N: u.limits.Bytes + int64(u.limits.Files+u.limits.Dirs)*tarEntry + 1}
	tr := tar.NewReader(limited)
	for {
		h, err := tr.Next()
		switch {
		case err == io.EOF:
			return nil
		case limited.N <= 0:
			return fmt.Errorf("expands to more than %d bytes: %w", u.limits.Bytes, ErrTooLarge)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return u.brokenError("tar", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader || !u.wantsEntry(h.Name) { // git archive writes such a header
			continue
		}
		if err := u.writeEntry(ctx, h.Name, tarMode(h), h.Linkname, tr); err != nil {
			return err
		}
	}
}

// tarMode returns the type and the permissions of an entry.
func tarMode(h *tar.Header) fs.FileMode {
	mode := fs.FileMode(h.Mode) & fs.ModePerm
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return mode
	case tar.TypeDir:
		return mode | fs.ModeDir
	case tar.TypeSymlink:
		return mode | fs.ModeSymlink
	}
	return mode | fs.ModeIrregular
}

// brokenError returns the error for an invalid archive, or the error of reading it.
func (u *unpacker) brokenError(what string, err error) error {
	if u.in.err != nil {
		return u.in.err
	}
	return fmt.Errorf("%s: %v: %w", what, err, ErrUnsafe)
}

// source records why reading failed, since decompressors replace the error.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
