// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of an upload, unless [Limits] sets others: a working directory
// contains the modules of others, and their links.
const (
	uploadFiles = 50_000
	uploadBytes = 2 << 30
	// uploadNames bounds the total length of all names of an upload, which are
	// kept in memory, in bytes.
	uploadNames = 8 << 20
)

// CheckUpload reads a tar.gz to its end, as [UnpackUpload] does, and writes
// nothing.
func CheckUpload(ctx context.Context, r io.Reader, l Limits) error {
	return newUpload(r, nil, l).read(ctx)
}

// UnpackUpload writes the tar.gz of a working directory into the empty
// directory dir: files, directories, and symbolic links whose targets are
// inside. Of the limits, Files and Bytes apply, by default 50,000 entries of
// any kind and 2 GiB. Links are created last, so nothing is written through
// one, and no entry may be below one. After an error dir may contain a part of
// the upload.
func UnpackUpload(ctx context.Context, r io.Reader, dir string, l Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return newUpload(r, root, l).read(ctx)
}

// upload is one pass over an upload.
type upload struct {
	in      *source
	root    *os.Root // nil: nothing is written
	limits  Limits
	entries int
	names   int
	bytes   int64
	seen    map[string]fs.FileMode // type of each path, including the directories above it
	links   []link
}

// link is a symbolic link, created after everything else.
type link struct{ name, target string }

func newUpload(r io.Reader, root *os.Root, l Limits) *upload {
	if l.Files == 0 {
		l.Files = uploadFiles
	}
	if l.Bytes == 0 {
		l.Bytes = uploadBytes
	}
	return &upload{in: &source{r: r}, root: root, limits: l, seen: map[string]fs.FileMode{".": fs.ModeDir}}
}

func (u *upload) read(ctx context.Context) error {
	gz, err := gzip.NewReader(u.in)
	if err != nil {
		return u.broken("gzip", err)
	}
	defer gz.Close()
	// Headers and padding count too, so that a stream of only these ends.
	limited := &io.LimitedReader{R: gz, N: u.limits.Bytes + int64(u.limits.Files)*2048 + 1}
	tr := tar.NewReader(limited)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := tr.Next()
		switch {
		case err == io.EOF:
			return u.finish()
		case limited.N <= 0:
			return fmt.Errorf("expands to more than %d bytes: %w", u.limits.Bytes, ErrTooLarge)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return u.broken("tar", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader { // git archive writes one
			continue
		}
		if err := u.entry(h, tr); err != nil {
			return err
		}
	}
}

// broken returns the error for an invalid archive, or the error of reading it.
func (u *upload) broken(what string, err error) error {
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

func (u *upload) entry(h *tar.Header, in io.Reader) error {
	if u.entries++; u.entries > u.limits.Files {
		return fmt.Errorf("more than %d entries: %w", u.limits.Files, ErrTooLarge)
	}
	name := strings.TrimPrefix(h.Name, "./")
	if h.Typeflag == tar.TypeDir {
		if name = strings.TrimSuffix(name, "/"); name == "" || name == "." {
			return nil
		}
	}
	if err := checkName(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.dir(name)
	case tar.TypeReg:
		return u.file(name, h.FileInfo().Mode(), in)
	case tar.TypeSymlink:
		return u.link(name, h.Linkname)
	}
	return fmt.Errorf("%q: neither a file nor a folder nor a symbolic link: %w", name, ErrUnsafe)
}

// take records the entry at a path, and refuses a second one.
func (u *upload) take(name string, kind fs.FileMode) error {
	if _, ok := u.seen[name]; ok {
		return fmt.Errorf("%q appears twice: %w", name, ErrUnsafe)
	}
	if u.names += len(name); u.names > uploadNames {
		return fmt.Errorf("names of more than %d bytes: %w", uploadNames, ErrTooLarge)
	}
	u.seen[name] = kind
	return nil
}

// dir creates a directory and those above it.
func (u *upload) dir(name string) error {
	var missing []string
	for ; ; name = path.Dir(name) {
		kind, ok := u.seen[name]
		if ok && !kind.IsDir() {
			return fmt.Errorf("%q: is not only a folder: %w", name, ErrUnsafe)
		}
		if ok {
			break
		}
		missing = append(missing, name)
	}
	for _, name := range slices.Backward(missing) {
		if err := u.take(name, fs.ModeDir); err != nil {
			return err
		}
		if u.root == nil {
			continue
		}
		if err := u.root.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (u *upload) file(name string, mode fs.FileMode, in io.Reader) (err error) {
	if err := u.dir(path.Dir(name)); err != nil {
		return err
	}
	if err := u.take(name, 0); err != nil {
		return err
	}
	to := io.Discard
	if u.root != nil {
		perm := fs.FileMode(0o644)
		if mode&0o100 != 0 {
			perm = 0o755
		}
		out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err != nil {
			return err
		}
		defer func() {
			if err2 := out.Close(); err == nil {
				err = err2
			}
		}()
		to = out
	}
	limit := u.limits.Bytes - u.bytes
	n, err := io.Copy(to, io.LimitReader(in, limit+1))
	u.bytes += n
	switch {
	case n > limit:
		return fmt.Errorf("%q: expands to more than %d bytes: %w", name, u.limits.Bytes, ErrTooLarge)
	case err != nil:
		return u.broken(fmt.Sprintf("%q", name), err)
	}
	return nil
}

// link records a link. No directory of a path is a link, so the leading .. of a
// target can be resolved literally. A .. after a name is refused, since that
// name may be another link. So following links never leaves the directory.
func (u *upload) link(name, target string) error {
	fits := target != "" && len(target) <= maxPath
	legible := utf8.ValidString(target) && !strings.ContainsFunc(target, unicode.IsControl)
	if !fits || !legible || path.IsAbs(target) || strings.Contains(target, `\`) {
		return fmt.Errorf("%q: a link whose target is not inside the archive: %w", name, ErrUnsafe)
	}
	if !fs.ValidPath(path.Join(path.Dir(name), target)) || climbs(target) {
		return fmt.Errorf("%q: a link that leaves the folder: %w", name, ErrUnsafe)
	}
	if err := u.dir(path.Dir(name)); err != nil {
		return err
	}
	if err := u.take(name, fs.ModeSymlink); err != nil {
		return err
	}
	if u.names += len(target); u.names > uploadNames {
		return fmt.Errorf("names of more than %d bytes: %w", uploadNames, ErrTooLarge)
	}
	u.links = append(u.links, link{name, target})
	return nil
}

// climbs reports whether a path has .. after a name.
func climbs(target string) bool {
	named := false
	for element := range strings.SplitSeq(target, "/") {
		switch element {
		case "", ".":
		case "..":
			if named {
				return true
			}
		default:
			named = true
		}
	}
	return false
}

// finish creates the links, and reads the rest after the archive.
func (u *upload) finish() error {
	if _, err := io.Copy(io.Discard, u.in); err != nil {
		return err
	}
	if u.root == nil {
		return nil
	}
	for _, l := range u.links {
		if err := u.root.Symlink(l.target, l.name); err != nil {
			return err
		}
	}
	return nil
}
