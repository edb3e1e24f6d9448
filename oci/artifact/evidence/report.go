// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Types of attestations. Each is a referrer with one layer of the same type.
const (
	ReportSARIF     = "application/sarif+json"         // scan report; no findings means that the scan found none
	ReportCycloneDX = "application/vnd.cyclonedx+json" // SBOM
	ReportSPDX      = "application/spdx+json"          // SBOM
	ReportInToto    = "application/vnd.in-toto+json"   // provenance
)

// Annotations of a scan report.
const (
	annScanTool     = "vnd.okara.scan.tool"
	annScanTime     = "vnd.okara.scan.time"
	annScanCritical = "vnd.okara.scan.critical"
	annScanHigh     = "vnd.okara.scan.high"
	annScanMedium   = "vnd.okara.scan.medium"
	annScanLow      = "vnd.okara.scan.low"
	annScanSource   = "vnd.okara.scan.source" // only if a source repository was scanned instead of the artifact
)

// ScanSummary is the content of a scan report's annotations.
type ScanSummary struct {
	Tool                        string
	Time                        time.Time
	Critical, High, Medium, Low int
	Source                      string // address of the source repository that was scanned; "": the artifact itself
}

func (s ScanSummary) scanAnnotations() map[string]string {
	all := map[string]string{
		annScanTool: s.Tool, annScanTime: s.Time.UTC().Format(time.RFC3339),
		annScanCritical: strconv.Itoa(s.Critical), annScanHigh: strconv.Itoa(s.High),
		annScanMedium: strconv.Itoa(s.Medium), annScanLow: strconv.Itoa(s.Low),
	}
	if s.Source != "" {
		all[annScanSource] = s.Source
	}
	return all
}

// worseOf returns the higher counts of two scans of one version, with the newer time.
func (s ScanSummary) worseOf(o ScanSummary) ScanSummary {
	if o.Time.After(s.Time) {
		s.Tool = o.Tool
		s.Time = o.Time
	}
	s.Critical = max(s.Critical, o.Critical)
	s.High = max(s.High, o.High)
	s.Medium = max(s.Medium, o.Medium)
	s.Low = max(s.Low, o.Low)
	return s
}

// parseScanSummary reads the annotations of a scan report; false if they are of anything else.
func parseScanSummary(annotations map[string]string) (ScanSummary, bool) {
	at, err := time.Parse(time.RFC3339, annotations[annScanTime])
	s := ScanSummary{Tool: annotations[annScanTool], Time: at, Source: annotations[annScanSource]}
	ok := err == nil
	for key, n := range map[string]*int{annScanCritical: &s.Critical, annScanHigh: &s.High, annScanMedium: &s.Medium, annScanLow: &s.Low} {
		v, err := strconv.Atoi(annotations[key])
		*n = v
		ok = ok && err == nil && v >= 0
	}
	return s, ok
}

// ReportType returns a document's media type: SPDX, CycloneDX or in-toto, maybe in an envelope.
func ReportType(document []byte) (mediaType string, err error) {
	var doc struct {
		SPDX    string `json:"spdxVersion"`
		Bom     string `json:"bomFormat"`
		Type    string `json:"_type"`
		Payload string `json:"payloadType"` // of a signed envelope
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return "", errors.New("not a JSON object")
	}
	switch {
	case doc.SPDX != "":
		return ReportSPDX, nil
	case doc.Bom == "CycloneDX":
		return ReportCycloneDX, nil
	case doc.Type != "" || doc.Payload == ReportInToto:
		return ReportInToto, nil
	}
	return "", errors.New("not SPDX, CycloneDX or an in-toto statement")
}

// AttachReport stores a document as a referrer of subject. mediaType is one of the Report
// constants; scan goes with ReportSARIF and is nil otherwise.
func AttachReport(ctx context.Context, r *oci.Repo, subject oci.Descriptor, mediaType string, document []byte, scan *ScanSummary) (oci.Descriptor, error) {
	blob := oci.BytesBlob(mediaType, document)
	image := ocispec.Manifest{
		ArtifactType: mediaType, Config: artifact.EmptyConfig(), Layers: []oci.Descriptor{blob.Descriptor},
		Subject: &oci.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	}
	if scan != nil {
		image.Annotations = scan.scanAnnotations()
	}
	m, err := oci.NewManifest(image)
	if err != nil {
		return oci.Descriptor{}, err
	}
	if err := artifact.EnsureBlobs(ctx, r, blob); err != nil {
		return oci.Descriptor{}, fmt.Errorf("attach %s: %w", mediaType, err)
	}
	return m.Descriptor, r.PutReferrer(ctx, m, *image.Subject)
}

// Report is an attestation of a manifest.
type Report struct {
	MediaType string         // one of the Report constants
	Document  oci.Descriptor // in the repository of the manifest
	Scan      *ScanSummary   // set for ReportSARIF; nil: the annotations have no summary
}

// maxReports bounds the reports read for one manifest; each rescan adds one.
const maxReports = 50

// Referred holds the attestations that refer to a manifest.
type Referred struct {
	Reports []Report // scan reports newest first, then the others in the registry's order
	More    int      // number of attestations that were not read
}

// ReadReferred lists the attestations of subject, and reads each: a list may have wrong types.
func ReadReferred(ctx context.Context, refs *Referrers) (Referred, error) {
	out, listed, err := refs.reportReferrers(ctx)
	if err == nil {
		err = out.readReports(ctx, refs.Repo, listed)
	}
	if err != nil {
		return Referred{}, err
	}
	return out, nil
}

// ReadNewest reads the newest scan report of subject and, if there is one, that of its source
// repository, with two or three requests if the list has types and annotations, as the
// specification requires. It trusts the list for what it skips, but reads a scan from its manifest.
// Other attestations are omitted, except those without listed type.
func ReadNewest(ctx context.Context, refs *Referrers) (Referred, error) {
	r := refs.Repo
	out, all, err := refs.reportReferrers(ctx)
	if err != nil {
		return Referred{}, err
	}
	var scans, unknown []oci.Descriptor
	for _, d := range all {
		switch _, ok := parseScanSummary(d.Annotations); {
		case d.ArtifactType == ReportSARIF && ok:
			scans = append(scans, d)
		case !slices.Contains([]string{ReportCycloneDX, ReportSPDX, ReportInToto, artifactBundle}, d.ArtifactType):
			unknown = append(unknown, d)
		}
	}
	if err := out.readReports(ctx, r, unknown); err != nil {
		return Referred{}, err
	}
	listed := func(d oci.Descriptor) ScanSummary {
		s, _ := parseScanSummary(d.Annotations)
		return s
	}
	slices.SortStableFunc(scans, func(a, b oci.Descriptor) int { return listed(b).Time.Compare(listed(a).Time) })
	for i, d := range scans {
		is := listed(d)
		if slices.ContainsFunc(out.Reports, func(has Report) bool {
			return has.Scan != nil && has.Scan.Source == is.Source && !has.Scan.Time.Before(is.Time)
		}) {
			continue // no newer one is listed; otherwise the list is outdated or wrong
		}
		if err := out.readReports(ctx, r, scans[i:i+1]); err != nil {
			return Referred{}, err
		}
	}
	return out, nil
}

// Referrers provides the referrers of a manifest, listed by the first call for all callers that
// share it. It is not safe for concurrent use.
type Referrers struct {
	Repo    *oci.Repo
	Subject oci.Descriptor

	listed bool
	all    []oci.Descriptor
}

func (f *Referrers) list(ctx context.Context) ([]oci.Descriptor, error) {
	if f.listed {
		return f.all, nil
	}
	all, err := f.Repo.Referrers(ctx, f.Subject, "")
	if err != nil {
		return nil, err
	}
	f.all = all
	f.listed = true
	return all, nil
}

// reportReferrers returns the referrers to read as attestations, without signatures.
func (f *Referrers) reportReferrers(ctx context.Context) (out Referred, refs []oci.Descriptor, err error) {
	if refs, err = f.list(ctx); err != nil {
		return out, nil, err
	}
	refs = slices.DeleteFunc(slices.Clone(refs), isSignature)
	if len(refs) > maxReports {
		out.More = len(refs) - maxReports
		refs = refs[len(refs)-maxReports:]
	}
	return out, refs, nil
}

func (out *Referred) readReports(ctx context.Context, r *oci.Repo, refs []oci.Descriptor) error {
	for _, d := range refs {
		report, err := readReport(ctx, r, d)
		switch {
		case errors.Is(err, oci.ErrNotFound): // the list is outdated
		case err != nil:
			return err
		case report.MediaType != "":
			out.Reports = append(out.Reports, report)
		}
	}
	slices.SortStableFunc(out.Reports, func(a, b Report) int { return b.scanTime().Compare(a.scanTime()) })
	return nil
}

// scanTime returns when a scan was made; the zero time for other reports.
func (r Report) scanTime() time.Time {
	if r.Scan == nil {
		return time.Time{}
	}
	return r.Scan.Time
}

// readReport reads a referrer. If it is no attestation, the result is the zero Report.
func readReport(ctx context.Context, r *oci.Repo, d oci.Descriptor) (Report, error) {
	m, err := r.Fetch(ctx, d.Digest.String())
	if err != nil {
		return Report{}, err
	}
	image, err := m.Image()
	if err != nil {
		return Report{}, nil // not a readable image manifest
	}
	kind := image.ArtifactType
	if kind == artifactBundle && !signs(image.Annotations) {
		kind = ReportInToto // an attestation in an envelope
	}
	known := slices.Contains([]string{ReportSARIF, ReportCycloneDX, ReportSPDX, ReportInToto}, kind)
	if !known || len(image.Layers) != 1 || artifact.CheckSHA256(image.Layers[0]) != nil {
		return Report{}, nil
	}
	out := Report{MediaType: kind, Document: image.Layers[0]}
	if s, ok := parseScanSummary(image.Annotations); ok && kind == ReportSARIF {
		out.Scan = &s
	}
	return out, nil
}

// NewestScan returns the newest scan report, combined with its source repository's; false if none.
func NewestScan(ctx context.Context, refs *Referrers) (ScanSummary, bool, error) {
	all, err := refs.list(ctx)
	if err != nil {
		return ScanSummary{}, false, err
	}
	newest := map[string]ScanSummary{} // by source
	for _, d := range all {
		if d.ArtifactType != ReportSARIF {
			continue
		}
		report, err := readReport(ctx, refs.Repo, d)
		if err != nil {
			return ScanSummary{}, false, err
		}
		if s := report.Scan; s != nil && !s.Time.Before(newest[s.Source].Time) {
			newest[s.Source] = *s
		}
	}
	sources := slices.Sorted(maps.Keys(newest))
	if len(sources) == 0 {
		return ScanSummary{}, false, nil
	}
	worst := newest[sources[0]]
	for _, source := range sources[1:] {
		worst = worst.worseOf(newest[source])
	}
	return worst, true, nil
}
