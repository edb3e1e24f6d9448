// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"
)

// Contents lists a zip of size bytes by path, with stated sizes, without unpacking. It refuses what
// Unpack does.
func Contents(r io.ReaderAt, size int64, l Limits) ([]File, error) {
	l = l.withDefaults()
	z, err := openZip(r, size, l)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, f := range z.File {
		name := strings.TrimPrefix(f.Name, "./")
		if strings.HasSuffix(name, "/") {
			continue
		}
		if err := CheckName(name); err != nil {
			return nil, err
		}
		if !f.Mode().IsRegular() {
			return nil, fmt.Errorf("%q: %s is not a regular file: %w", name, f.Mode().Type(), ErrUnsafe)
		}
		if len(files) == l.Files {
			return nil, fmt.Errorf("more than %d files: %w", l.Files, ErrTooLarge)
		}
		files = append(files, File{Path: name, Size: int64(min(f.UncompressedSize64, 1<<62)), Exec: f.Mode()&0o100 != 0})
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// ReadFile returns a file of a zip: ErrTooLarge beyond limit, whatever the zip states, or
// [fs.ErrNotExist].
func ReadFile(r io.ReaderAt, size int64, path string, limit int64) ([]byte, error) {
	z, err := openZip(r, size, Limits{}.withDefaults())
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(z.File, func(f *zip.File) bool { return strings.TrimPrefix(f.Name, "./") == path })
	if i < 0 || !z.File[i].Mode().IsRegular() {
		return nil, fmt.Errorf("%q: %w", path, fs.ErrNotExist)
	}
	in, err := z.File[i].Open()
	if err != nil {
		return nil, fmt.Errorf("zip: %q: %v: %w", path, err, ErrUnsafe)
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("zip: %q: %v: %w", path, err, ErrUnsafe)
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("%q: more than %d bytes: %w", path, limit, ErrTooLarge)
	}
	return b, nil
}

// HashZip returns the h1: of the files in a zip of [Tree.Pack], as the tools install them.
func HashZip(file io.ReaderAt, size int64) (string, error) {
	z, err := zip.NewReader(file, size)
	if err != nil {
		return "", err
	}
	var names []string
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	h1, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) { return z.Open(name) })
	if err != nil {
		return "", fmt.Errorf("hashing the files of a package: %w", err)
	}
	return h1, nil
}
