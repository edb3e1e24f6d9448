// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// These bounds limit the scans in a status.
const (
	maxFindings = 50 // of all scans of a version
	maxScans    = 50
	maxReport   = 8 << 20 // bytes; the findings of a larger report are not listed
)

// scannedSince reports whether a version was scanned again after its status was written.
func scannedSince(s *v1alpha1.VersionStatus, scanned time.Time) bool {
	if scanned.IsZero() {
		return false
	}
	return !slices.ContainsFunc(s.Scans, func(has v1alpha1.Scan) bool { return !has.Time.Time.Before(scanned) })
}

// subjectSource is the subject of a scan of the source repository.
const subjectSource = "source"

// readScans reads the newest scan reports of a version into its status, the worst first.
func readScans(ctx context.Context, repo *oci.Repo, m oci.Manifest, s *v1alpha1.VersionStatus) error {
	subjects := []artifact.ProviderPlatform{{Manifest: m.Descriptor}} // the module, or what all platforms share
	if index, err := artifact.ParseProviderIndex(m); err == nil {
		subjects = append(subjects, index.Platforms[:min(len(index.Platforms), maxScans-1)]...)
	}
	s.Scans = nil
	s.Truncated = false
	usage := maxFindings
	for _, t := range subjects {
		refs, err := evidence.ReadNewest(ctx, &evidence.Referrers{Repo: repo, Subject: t.Manifest})
		if err != nil {
			return err
		}
		for _, report := range newestOf(refs.Reports) {
			finding, more, err := describeScan(ctx, repo, report, usage)
			switch {
			case err != nil:
				return err
			case report.Scan.Source != "":
				finding.Subject = subjectSource
			case t.Platform.OS != "":
				finding.Subject = t.Platform.String()
			}
			usage -= len(finding.Findings)
			s.Scans = append(s.Scans, finding)
			s.Truncated = s.Truncated || more
		}
	}
	slices.SortStableFunc(s.Scans, func(a, b v1alpha1.Scan) int {
		return cmp.Or(cmp.Compare(b.Critical, a.Critical), cmp.Compare(b.High, a.High), cmp.Compare(b.Medium, a.Medium), cmp.Compare(b.Low, a.Low))
	})
	s.Scans = s.Scans[:min(len(s.Scans), maxScans)]
	return nil
}

// newestOf returns the newest scan of the version and that of its source repository.
func newestOf(reports []evidence.Report) []evidence.Report {
	var all []evidence.Report
	for _, of := range []bool{false, true} {
		if i := slices.IndexFunc(reports, func(r evidence.Report) bool { return r.Scan != nil && (r.Scan.Source != "") == of }); i >= 0 {
			all = append(all, reports[i])
		}
	}
	return all
}

// describeScan returns a report for a status, and whether usage has no room for all its findings.
func describeScan(ctx context.Context, repo *oci.Repo, report evidence.Report, usage int) (v1alpha1.Scan, bool, error) {
	out := v1alpha1.Scan{
		Tool: report.Scan.Tool, Time: metav1.NewTime(report.Scan.Time.UTC().Truncate(time.Second)),
		Critical: int32(report.Scan.Critical), High: int32(report.Scan.High), Medium: int32(report.Scan.Medium), Low: int32(report.Scan.Low),
	}
	total := report.Scan.Critical + report.Scan.High + report.Scan.Medium + report.Scan.Low
	if usage == 0 || total == 0 {
		return out, total > 0, nil
	}
	b, err := repo.ReadBlob(ctx, report.Document, maxReport)
	if errors.Is(err, oci.ErrTooLarge) {
		return out, true, nil
	}
	if err != nil {
		return out, false, err
	}
	found, _, err := scan.Findings(b, usage)
	if err != nil {
		return out, true, nil // the counts are still known
	}
	for _, f := range found {
		out.Findings = append(out.Findings, findingOf(f))
	}
	return out, total > len(found), nil
}

func findingOf(f scan.Finding) v1alpha1.Finding {
	out := v1alpha1.Finding{Level: text.Camel(f.Level), Rule: cutFinding(f.Rule), Title: cutFinding(f.Title), File: cutFinding(f.File), Package: cutFinding(f.Package), Fixed: cutFinding(f.Fixed)}
	if f.Line > 0 {
		out.File = fmt.Sprintf("%s:%d", out.File, f.Line)
	}
	return out
}

// cutFinding bounds a text of a finding, because a status has many.
func cutFinding(s string) string { return text.Clip(s, 200) }
