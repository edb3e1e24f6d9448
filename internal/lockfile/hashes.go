// SPDX-License-Identifier: Apache-2.0

package lockfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// Known is the information of a source about one version for a lock file.
type Known struct {
	Hashes   []string        // "h1:…" and "zh:…", sorted
	Missing  []addr.Platform // platforms for which the source provides no h1:
	Verified bool            // SHA256SUMS has a signature by one of the source's keys
}

// Hashes collects a version's hashes: zh: of packages, h1: if published or to be computed, zh: of
// each line of SHA256SUMS. A wrong signature, or sums that contradict a package, are an error; a
// source without sums is accepted.
func Hashes(ctx context.Context, src depot.Source, p addr.Provider, v addr.Version, compute bool) (Known, error) {
	platforms, err := src.Platforms(ctx, p, v)
	if err != nil {
		return Known{}, err
	}
	var out Known
	for _, t := range platforms {
		pkg, err := src.Package(ctx, p, v, t)
		if err != nil {
			return Known{}, err
		}
		if compute && (pkg.H1 == "" || pkg.Zh == "") {
			if err := computeHashes(ctx, &pkg); err != nil {
				return Known{}, fmt.Errorf("hashing %s %s for %s: %w", p, v, t, err)
			}
		}
		if pkg.H1 == "" {
			out.Missing = append(out.Missing, t)
		}
		sums, verified, err := verifiedSums(pkg)
		if err != nil {
			return Known{}, fmt.Errorf("%s %s: %w", p, v, err)
		}
		out.Verified = verified
		out.Hashes = append(out.Hashes, packageHashes(pkg, sums)...)
	}
	if len(out.Hashes) == 0 {
		return Known{}, fmt.Errorf("%s %s: the source publishes no hashes: %w", p, v, oci.ErrNotFound)
	}
	out.Hashes = sortedHashes(out.Hashes)
	return out, nil
}

func packageHashes(pkg upstream.Package, sums signing.Sums) []string {
	var hashes []string
	if pkg.H1 != "" {
		hashes = append(hashes, pkg.H1)
	}
	if pkg.Zh != "" {
		hashes = append(hashes, "zh:"+pkg.Zh)
	}
	for _, sum := range sums {
		hashes = append(hashes, "zh:"+sum)
	}
	return hashes
}

// verifiedSums parses a package's SHA256SUMS after its signature, which must list it.
func verifiedSums(pkg upstream.Package) (signing.Sums, bool, error) {
	if len(pkg.Shasums) == 0 {
		return nil, false, nil
	}
	verified := false
	if len(pkg.Signature) > 0 && len(pkg.Keys) > 0 {
		keys, err := trust.PublicKeys(pkg.Keys)
		if err != nil {
			return nil, false, err
		}
		if _, err := signing.Verify(pkg.Shasums, pkg.Signature, keys, signing.VerifyOptions{AllowExpired: true}); err != nil {
			return nil, false, fmt.Errorf("SHA256SUMS: %w", err)
		}
		verified = true
	}
	sums, err := signing.ParseSums(pkg.Shasums)
	if err != nil {
		return nil, false, err
	}
	if pkg.Zh != "" && pkg.Filename != "" {
		if err := sums.Check(pkg.Filename, pkg.Zh); err != nil {
			return nil, false, err
		}
	}
	return sums, verified, nil
}

// computeHashes downloads a package and fills in its hashes, if it is the origin's.
func computeHashes(ctx context.Context, pkg *upstream.Package) (err error) {
	dir, remove, err := files.TempDir("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	f, err := os.Create(filepath.Join(dir, "package.zip"))
	if err != nil {
		return err
	}
	zh, _, err := depot.FetchPackage(ctx, *pkg, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	pkg.Zh = zh
	pkg.H1, err = dirhash.HashZip(f.Name(), dirhash.Hash1)
	return err
}

// Merge returns the union of hashes. conflicts are old zh: that the source does not know; h1: may
// be of platforms that it lacks.
func Merge(old Provider, now Known) (merged Provider, conflicts []string) {
	merged = old
	for _, h := range old.Hashes {
		if strings.HasPrefix(h, "zh:") && !slices.Contains(now.Hashes, h) {
			conflicts = append(conflicts, h)
		}
	}
	merged.Hashes = sortedHashes(slices.Concat(old.Hashes, now.Hashes))
	return merged, conflicts
}
