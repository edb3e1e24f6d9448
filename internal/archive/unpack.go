// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// expansion is the maximum ratio by which an archive may expand. Text
// compresses to about a fifth; a bomb to a thousandth.
const expansion = 20

// minExpanded is the size in bytes up to which small archives may expand
// further: a short file of one repeated line is no bomb.
const minExpanded = 1 << 20

// zipEntry is the space for one entry in the directory of a zip, in bytes: 46
// bytes, its name and some extra fields. Package zip keeps all entries in
// memory.
const zipEntry = 512

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

// Unpack writes the files of a zip or tar.gz of size bytes into the empty
// directory dir. Entries other than regular files and directories are refused,
// as is an archive that expands to more than the limits or twenty times its
// size. After an error dir may contain some of the files.
func Unpack(ctx context.Context, r io.ReaderAt, size int64, dir string, l Limits) error {
	return UnpackFolder(ctx, r, size, "", dir, l)
}

// UnpackFolder is Unpack for the archive of a forge, in which everything is
// below one directory. Only folder, below that directory, is written, and under
// the same path; all other entries are skipped without a check. The folder ""
// means all.
func UnpackFolder(ctx context.Context, r io.ReaderAt, size int64, folder, dir string, l Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	l = l.withDefaults()
	l.Bytes = min(l.Bytes, max(size*expansion, minExpanded))
	u := &unpacker{root: root, limits: l, folder: folder, made: map[string]bool{".": true}}
	magic := make([]byte, 4)
	if _, err := r.ReadAt(magic, 0); err != nil {
		return fmt.Errorf("archive of %d bytes: %w", size, ErrUnsafe)
	}
	switch {
	case string(magic) == "PK\x03\x04":
		return u.zip(ctx, r, size)
	case magic[0] == 0x1f && magic[1] == 0x8b:
		return u.tarGz(ctx, io.NewSectionReader(r, 0, size))
	}
	return fmt.Errorf("archive is neither zip nor tar.gz: %w", ErrUnsafe)
}

type unpacker struct {
	root   *os.Root
	limits Limits
	folder string // "": all
	files  int
	bytes  int64
	made   map[string]bool // directories
}

// wants reports whether an entry is to be written. Its result for invalid names
// does not matter, because wanted entries are checked.
func (u *unpacker) wants(name string) bool {
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
		return nil, fmt.Errorf("zip: the list of its entries: %w", err)
	}
	from.read = true
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, fmt.Errorf("zip: %v: %w", err, ErrUnsafe)
	}
	return z, nil
}

func (u *unpacker) zip(ctx context.Context, r io.ReaderAt, size int64) error {
	z, err := openZip(r, size, u.limits)
	if err != nil {
		return err
	}
	for _, f := range z.File {
		if !u.wants(f.Name) {
			continue
		}
		if strings.HasSuffix(f.Name, "/") {
			if err := u.dir(f.Name); err != nil {
				return err
			}
			continue
		}
		if err := u.zipFile(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) zipFile(ctx context.Context, f *zip.File) error {
	if !f.Mode().IsRegular() {
		return fmt.Errorf("%q: %s is not a regular file: %w", f.Name, f.Mode().Type(), ErrUnsafe)
	}
	in, err := f.Open()
	if err != nil {
		return fmt.Errorf("zip: %q: %v: %w", f.Name, err, ErrUnsafe)
	}
	defer in.Close()
	return u.file(ctx, f.Name, f.Mode(), in)
}

func (u *unpacker) tarGz(ctx context.Context, r io.Reader) error {
	gz, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("gzip: %v: %w", err, ErrUnsafe)
	}
	defer gz.Close()
	// Headers and padding count too, so that a stream of only these ends.
	limited := &io.LimitedReader{R: gz, N: u.limits.Bytes + int64(u.limits.Files)*2048 + 1}
	tr := tar.NewReader(limited)
	for {
		h, err := tr.Next()
		switch {
		case err == io.EOF:
			return nil
		case limited.N <= 0:
			return fmt.Errorf("expands to more than %d bytes: %w", u.limits.Bytes, ErrTooLarge)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return fmt.Errorf("tar: %v: %w", err, ErrUnsafe)
		}
		if !u.wants(h.Name) {
			continue
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = u.dir(h.Name)
		case tar.TypeReg:
			err = u.file(ctx, h.Name, h.FileInfo().Mode(), tr)
		case tar.TypeXGlobalHeader: // git archive writes one
			err = nil
		default:
			err = fmt.Errorf("%q: not a regular file: %w", h.Name, ErrUnsafe)
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacker) dir(name string) error {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if name == "" || name == "." {
		return nil
	}
	if err := checkName(name); err != nil {
		return err
	}
	return u.mkdir(name)
}

// mkdir creates a directory and those above it, each of which counts.
func (u *unpacker) mkdir(name string) error {
	var missing []string
	for ; !u.made[name]; name = path.Dir(name) {
		missing = append(missing, name)
	}
	for _, name := range slices.Backward(missing) {
		if len(u.made) > u.limits.Dirs { // the top directory is one of them
			return fmt.Errorf("more than %d directories: %w", u.limits.Dirs, ErrTooLarge)
		}
		if err := u.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%q: %w: %w", name, err, ErrUnsafe)
		}
		u.made[name] = true
	}
	return nil
}

func (u *unpacker) file(ctx context.Context, name string, mode fs.FileMode, in io.Reader) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	name = strings.TrimPrefix(name, "./")
	if err := checkName(name); err != nil {
		return err
	}
	if u.files++; u.files > u.limits.Files {
		return fmt.Errorf("more than %d files: %w", u.limits.Files, ErrTooLarge)
	}
	if err := u.mkdir(path.Dir(name)); err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if mode&0o100 != 0 {
		perm = 0o755
	}
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return fmt.Errorf("%q: %v: %w", name, err, ErrUnsafe)
	}
	defer func() {
		if err2 := out.Close(); err == nil {
			err = err2
		}
	}()
	limit := min(u.limits.FileSize, u.limits.Bytes-u.bytes)
	n, err := io.Copy(out, io.LimitReader(in, limit+1))
	u.bytes += n
	switch {
	case n > limit:
		return fmt.Errorf("%q: expands to more than %d bytes: %w", name, limit, ErrTooLarge)
	case err != nil:
		return fmt.Errorf("%q: %v: %w", name, err, ErrUnsafe)
	}
	return nil
}
