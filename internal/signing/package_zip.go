// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/flate"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/oci"
)

const (
	maxPackageFiles = 10_000
	maxPackageBytes = 4 << 30 // uncompressed

	// A plugin expands to three or four times its zip, a bomb to a thousand times.
	maxPackageExpansion = 50
	minPackageBytes     = 1 << 20 // size to which any zip may expand
)

// PackageLimits are those of a provider's zip with one large binary.
func PackageLimits() archive.Limits {
	return archive.Limits{Files: maxPackageFiles, Bytes: maxPackageBytes, FileSize: maxPackageBytes}
}

// HashPackage returns the h1: hash of a provider zip after checking that the
// clients can install it: the only plugin is in the root and executable.
func HashPackage(ctx context.Context, r io.ReaderAt, size int64, typ string, p addr.Platform) (string, error) {
	z, err := zip.NewReader(r, size)
	if z == nil || err != nil && len(z.File) == 0 {
		return "", fmt.Errorf("not a zip (%v): %w", err, ErrNoProvider)
	}
	if len(z.File) > maxPackageFiles {
		return "", fmt.Errorf("%d files, the limit is %d: %w", len(z.File), maxPackageFiles, oci.ErrTooLarge)
	}
	// Inflating is most of the work here, and this library takes a third less time.
	z.RegisterDecompressor(zip.Deflate, flate.NewReader)
	files := map[string]*zip.File{}
	key := func(name string) string { return name }
	if p.OS == "windows" {
		key = strings.ToLower
	}
	var names []string
	var total uint64
	limit := uint64(min(maxPackageBytes, max(minPackageBytes, size*maxPackageExpansion)))
	plugins := 0
	for _, f := range z.File {
		if err := checkEntry(f, p); err != nil {
			return "", err
		}
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if files[key(f.Name)] != nil {
			return "", fmt.Errorf("duplicate %q in the zip: %w", f.Name, ErrNoProvider)
		}
		if total += f.UncompressedSize64; total > limit || f.UncompressedSize64 > limit {
			return "", fmt.Errorf("zip of %d bytes expands to more than %d bytes: %w", size, limit, oci.ErrTooLarge)
		}
		files[key(f.Name)] = f
		names = append(names, f.Name)
		if isPlugin(f.Name, typ) {
			plugins++
			if p.OS != "windows" && f.Mode()&0o100 == 0 {
				return "", fmt.Errorf("%q is not executable: %w", f.Name, ErrNoProvider)
			}
		}
	}
	if plugins != 1 {
		return "", fmt.Errorf("%d files named terraform-provider-%s* in the root of the zip, expected one: %w", plugins, typ, ErrNoProvider)
	}
	h1, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) {
		f, err := files[key(name)].Open()
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{oci.Interruptible(ctx, f), f}, nil
	})
	if err != nil {
		return "", fmt.Errorf("zip: %w", err)
	}
	return h1, nil
}

// checkEntry refuses what could leave the plugin's directory, also on Windows.
func checkEntry(f *zip.File, p addr.Platform) error {
	name := strings.TrimSuffix(f.Name, "/")
	if err := archive.CheckName(name); err != nil && p.OS == "windows" {
		return fmt.Errorf("unsafe path in the zip: %w: %w", err, ErrNoProvider)
	}
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\n\r\x00") {
		return fmt.Errorf("unsafe path %q in the zip: %w", f.Name, ErrNoProvider)
	}
	if t := f.Mode().Type(); t != 0 && t != fs.ModeDir {
		return fmt.Errorf("%q in the zip is not a regular file: %w", f.Name, ErrNoProvider)
	}
	return nil
}

// isPlugin reports whether clients would run a file: this prefix, a version or nothing.
func isPlugin(name, typ string) bool {
	rest, ok := strings.CutPrefix(name, "terraform-provider-"+typ)
	versionOrNothing := rest == "" || rest[0] == '_' || rest[0] == '.'
	return ok && !strings.Contains(name, "/") && versionOrNothing
}
