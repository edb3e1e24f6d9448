// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// ErrBlocked means that a scan found something at or above the level that the policy blocks.
var ErrBlocked = errors.New("blocked by the scan policy")

// ScanPolicy defines which scans a version needs before it becomes visible.
type ScanPolicy struct {
	Scanner  string        // "": no scan; "trivy", or a command that writes SARIF to stdout
	Block    string        // lowest level that blocks: "low", "medium", "high", "critical"; "": none
	Database string        // directory of the scanner's offline database
	MaxAge   time.Duration // scan again when the newest report is older; 0: never

	// SourceRepository is a git source, as of a module entry: its tree at a version's tag is
	// scanned as well. "": none.
	SourceRepository string
}

// ScanArtifact scans a module, or each package of a provider, by digest, and attaches the reports
// to the manifest, or each platform's. If findings reach the level that blocks, they are attached
// and the error wraps ErrBlocked.
func ScanArtifact(ctx context.Context, r *oci.Repo, m oci.Manifest, p ScanPolicy, now time.Time) (scan.Counts, error) {
	if index, err := artifact.ParseProviderIndex(m); err == nil {
		return scanProvider(ctx, r, index, p, now)
	}
	module, err := artifact.ParseModule(m)
	if err != nil {
		return scan.Counts{}, err
	}
	counts, err := scanZip(ctx, r, *module.Zip, m.Descriptor, scan.Module, p, now)
	if err != nil {
		return scan.Counts{}, err
	}
	return counts, checkBlocked(counts, p)
}

// scanProvider scans every platform and returns the counts of the worst.
func scanProvider(ctx context.Context, r *oci.Repo, index artifact.ProviderIndex, p ScanPolicy, now time.Time) (scan.Counts, error) {
	var worst scan.Counts
	var held error
	for _, t := range index.Platforms {
		zip, err := artifact.ResolveProviderZip(ctx, r, t)
		if err != nil {
			return worst, err
		}
		counts, err := scanZip(ctx, r, zip, t.Manifest, scan.Provider, p, now)
		if err != nil {
			return worst, fmt.Errorf("%s: %w", t.Platform, err)
		}
		worst = worst.Max(counts)
		if err := checkBlocked(counts, p); err != nil && held == nil {
			held = fmt.Errorf("%s: %w", t.Platform, err)
		}
	}
	return worst, held
}

func checkBlocked(c scan.Counts, p ScanPolicy) error {
	if !c.Blocks(p.Block) {
		return nil
	}
	return fmt.Errorf("%s found %s, the policy blocks %s: %w", p.Scanner, c, p.Block, ErrBlocked)
}

// scanZip unpacks a zip, scans it and attaches the reports to subject.
func scanZip(ctx context.Context, r *oci.Repo, zip, subject oci.Descriptor, target scan.Target, p ScanPolicy, now time.Time) (c scan.Counts, err error) {
	dir, remove, err := files.TempDir("")
	if err != nil {
		return scan.Counts{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	body, err := r.Open(ctx, zip)
	if err != nil {
		return scan.Counts{}, err
	}
	limits := archive.Limits{}
	if target == scan.Provider {
		limits = signing.PackageLimits()
	}
	if err := (fetcher{Limits: limits}).unpackFolder(ctx, body, "", dir); err != nil {
		return scan.Counts{}, err
	}
	return scanTree(ctx, r, subject, dir, target, p, evidence.ScanSummary{Time: now})
}

// scanTree scans a directory, and attaches the reports to subject; summary has the other fields.
func scanTree(ctx context.Context, r *oci.Repo, subject oci.Descriptor, dir string, target scan.Target, p ScanPolicy, summary evidence.ScanSummary) (scan.Counts, error) {
	report, err := scan.Run(ctx, scan.Options{Scanner: p.Scanner, Dir: dir, Target: target, Database: p.Database})
	if err != nil {
		return scan.Counts{}, err
	}
	c := report.Counts
	summary.Tool, summary.Critical, summary.High, summary.Medium, summary.Low = report.Tool, c.Critical, c.High, c.Medium, c.Low
	if _, err := evidence.AttachReport(ctx, r, subject, evidence.ReportSARIF, report.SARIF, &summary); err != nil {
		return c, err
	}
	if report.CycloneDX != nil {
		_, err = evidence.AttachReport(ctx, r, subject, evidence.ReportCycloneDX, report.CycloneDX, nil)
	}
	return c, err
}
