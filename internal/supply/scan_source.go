// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// sourceRepository returns a scan policy's repository as a module entry.
func (p ScanPolicy) sourceRepository() (ModuleEntry, error) {
	src, err := parseModuleSource(p.SourceRepository)
	if err == nil && src.Kind != sourceGit && src.Kind != sourceGitHub {
		err = fmt.Errorf("%q is not a git repository", p.SourceRepository)
	}
	return ModuleEntry{Source: src, Subdir: src.Location.Subdir}, err
}

// scanAll scans a version and, if named, its source. Both reports are attached, even if one blocks.
func (it item) scanAll(ctx context.Context, m oci.Manifest, v addr.Version, o SyncOptions) error {
	_, err := ScanArtifact(ctx, it.repo, m, it.Scan, o.Now())
	if it.Scan.SourceRepository == "" || err != nil && !errors.Is(err, ErrBlocked) {
		return err
	}
	if serr := it.scanSource(ctx, m.Descriptor, v, o); serr != nil {
		return serr
	}
	return err
}

// scanSource scans the source repository at a version's tag. A missing tag is an error.
func (it item) scanSource(ctx context.Context, subject oci.Descriptor, v addr.Version, o SyncOptions) (err error) {
	from, err := o.Origins(it.Auth)
	if err != nil {
		return err
	}
	e, err := it.Scan.sourceRepository()
	if err != nil {
		return err
	}
	where := publicURL(e.Source.Location)
	offers, err := moduleOffers(ctx, from, e)
	if err != nil {
		return fmt.Errorf("the source repository: %w", err)
	}
	i := slices.IndexFunc(offers, func(o offer) bool { return o.version == v })
	if i < 0 {
		return fmt.Errorf("the source repository %s has no tag of version %s: %w", where, v, oci.ErrNotFound)
	}
	dir, remove, err := files.TempDir("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if _, err := fetchModule(ctx, from, e, offers[i], dir, false); err != nil {
		return fmt.Errorf("the source repository: %w", err)
	}
	counts, err := scanTree(ctx, it.repo, subject, dir, scan.Source, it.Scan, evidence.ScanSummary{Time: o.Now(), Source: where})
	if err == nil {
		err = checkBlocked(counts, it.Scan)
	}
	if err != nil {
		return fmt.Errorf("the source repository: %w", err)
	}
	return nil
}
