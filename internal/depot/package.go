// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Package is one zip of a provider with its hashes.
type Package struct {
	Platform addr.Platform
	Filename string
	SHA256   string // hex, the zh: hash of lock files
	H1       string // "h1:…", over the files inside
	Size     int64

	fsys fs.FS // has the file; nil: the registry has the blob
}

const (
	maxPackageFiles = 10_000
	maxPackageBytes = 4 << 30 // uncompressed

	// A plugin expands to three or four times its zip, a bomb to a thousand times.
	maxPackageExpansion = 50
	minPackageBytes     = 1 << 20 // what a zip may always expand to
)

// PackageLimits are those of a provider's zip, which holds one large binary.
func PackageLimits() archive.Limits {
	return archive.Limits{Files: maxPackageFiles, Bytes: maxPackageBytes, FileSize: maxPackageBytes}
}

// inspectPackage hashes a zip and checks that it is a provider for the platform.
func inspectPackage(ctx context.Context, fsys fs.FS, name, typ string, p addr.Platform) (Package, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return Package{}, err
	}
	defer f.Close()
	h := sha256.New()
	k := Package{Platform: p, Filename: name, fsys: fsys}
	if k.Size, err = io.CopyBuffer(h, Interruptible(ctx, f), make([]byte, copyBuffer)); err != nil {
		return Package{}, fmt.Errorf("read %s: %w", name, err)
	}
	k.SHA256 = sum(h)
	at, ok := f.(io.ReaderAt)
	if !ok {
		return Package{}, fmt.Errorf("read %s: the file system has no random access", name)
	}
	k.H1, err = HashPackage(ctx, at, k.Size, typ, p)
	if err != nil {
		return Package{}, fmt.Errorf("%s: %w", name, err)
	}
	return k, nil
}

// HashPackage returns the h1: hash of a provider zip after checking that the
// clients can install it: the plugin is in the root, executable, and the only
// one.
func HashPackage(ctx context.Context, r io.ReaderAt, size int64, typ string, p addr.Platform) (string, error) {
	z, err := zip.NewReader(r, size)
	if z == nil || err != nil && len(z.File) == 0 {
		return "", fmt.Errorf("not a zip (%v): %w", err, ErrNoProvider)
	}
	if len(z.File) > maxPackageFiles {
		return "", fmt.Errorf("%d files, at most %d: %w", len(z.File), maxPackageFiles, oci.ErrTooLarge)
	}
	// Inflating is most of the work here, and this library takes a third less time.
	z.RegisterDecompressor(zip.Deflate, flate.NewReader)
	files := map[string]*zip.File{}
	var names []string
	var total uint64
	limit := uint64(min(maxPackageBytes, max(minPackageBytes, size*maxPackageExpansion)))
	plugins := 0
	for _, f := range z.File {
		if err := checkEntry(f); err != nil {
			return "", err
		}
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if files[f.Name] != nil {
			return "", fmt.Errorf("%q twice in the zip: %w", f.Name, ErrNoProvider)
		}
		if total += f.UncompressedSize64; total > limit || f.UncompressedSize64 > limit {
			return "", fmt.Errorf("a zip of %d bytes that expands to more than %d bytes: %w", size, limit, oci.ErrTooLarge)
		}
		files[f.Name], names = f, append(names, f.Name)
		if isPlugin(f.Name, typ) {
			plugins++
			if p.OS != "windows" && f.Mode()&0o100 == 0 {
				return "", fmt.Errorf("%q is not executable: %w", f.Name, ErrNoProvider)
			}
		}
	}
	if plugins != 1 {
		return "", fmt.Errorf("%d files named terraform-provider-%s* in the root of the zip, want one: %w", plugins, typ, ErrNoProvider)
	}
	h1, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) {
		f, err := files[name].Open()
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{Interruptible(ctx, f), f}, nil
	})
	if err != nil {
		return "", fmt.Errorf("zip: %w", err)
	}
	return h1, nil
}

// checkEntry refuses what could reach outside of the folder of the plugin.
func checkEntry(f *zip.File) error {
	name := strings.TrimSuffix(f.Name, "/")
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\n\r\x00") {
		return fmt.Errorf("unsafe path %q in the zip: %w", f.Name, ErrNoProvider)
	}
	if t := f.Mode().Type(); t != 0 && t != fs.ModeDir {
		return fmt.Errorf("%q in the zip is not a regular file: %w", f.Name, ErrNoProvider)
	}
	return nil
}

// isPlugin reports whether the clients would run the file: they look for this
// prefix, followed by the version or nothing.
func isPlugin(name, typ string) bool {
	rest, ok := strings.CutPrefix(name, "terraform-provider-"+typ)
	return ok && !strings.Contains(name, "/") && (rest == "" || rest[0] == '_' || rest[0] == '.')
}

// blob returns the zip as it is, byte for byte.
func (k Package) blob() oci.Blob {
	return oci.Blob{Descriptor: k.descriptor(), Open: func() (io.ReadCloser, error) { return k.fsys.Open(k.Filename) }}
}

func (k Package) descriptor() oci.Descriptor {
	return oci.Descriptor{MediaType: artifact.MediaZip, Digest: digestOf(k.SHA256), Size: k.Size}
}

func digestOf(zh string) digest.Digest { return digest.NewDigestFromEncoded(digest.SHA256, zh) }

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// warnBefore is how long before its expiry a key is warned about.
const warnBefore = 60 * 24 * time.Hour

func expiryWarning(k signing.PublicKey, now time.Time) []string {
	if k.Expires.IsZero() || k.Expires.Sub(now) > warnBefore {
		return nil
	}
	return []string{fmt.Sprintf("signing key %s expires on %s", k.ID, k.Expires.Format(time.DateOnly))}
}

// servedKeys are the keys as the provider protocol serves them, without
// duplicates.
func servedKeys(keys []signing.PublicKey, now time.Time) []artifact.SigningKey {
	signing.SortKeys(keys, now)
	seen := map[string]bool{}
	var out []artifact.SigningKey
	for _, k := range keys {
		if seen[k.Fingerprint] {
			continue
		}
		seen[k.Fingerprint] = true
		served := artifact.SigningKey{KeyID: k.ID, ASCIIArmor: k.Armor, Source: k.UserID}
		if !k.Expires.IsZero() {
			served.Expires = k.Expires.Format(time.RFC3339)
		}
		out = append(out, served)
	}
	return out
}
