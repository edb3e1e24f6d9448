// SPDX-License-Identifier: Apache-2.0

package artifact

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
)

// Types of attestations. Each is a referrer with one layer of the same type.
const (
	ReportSARIF     = "application/sarif+json"         // scan report; no findings means scanned and clean
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
	annScanSource   = "vnd.okara.scan.source" // only where a source repository was scanned, in place of the artifact
)

// ScanSummary is what a scan report's annotations say.
type ScanSummary struct {
	Tool                        string
	Time                        time.Time
	Critical, High, Medium, Low int
	Source                      string // address of the source repository that was scanned; "": the artifact itself
}

func (s ScanSummary) annotations() map[string]string {
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

// worse joins the summaries of two scans of one version.
func (s ScanSummary) worse(o ScanSummary) ScanSummary {
	if o.Time.After(s.Time) {
		s.Tool, s.Time = o.Tool, o.Time
	}
	s.Critical, s.High, s.Medium, s.Low = max(s.Critical, o.Critical), max(s.High, o.High), max(s.Medium, o.Medium), max(s.Low, o.Low)
	return s
}

// parseScanSummary reads the annotations of a scan report; false if they are
// not those of one.
func parseScanSummary(annotations map[string]string) (ScanSummary, bool) {
	at, err := time.Parse(time.RFC3339, annotations[annScanTime])
	s := ScanSummary{Tool: annotations[annScanTool], Time: at, Source: annotations[annScanSource]}
	ok := err == nil
	for key, n := range map[string]*int{annScanCritical: &s.Critical, annScanHigh: &s.High, annScanMedium: &s.Medium, annScanLow: &s.Low} {
		v, err := strconv.Atoi(annotations[key])
		*n, ok = v, ok && err == nil && v >= 0
	}
	return s, ok
}

// ReportType tells what a document is: SPDX, CycloneDX or an in-toto statement,
// also in a signed envelope.
func ReportType(document []byte) (mediaType string, err error) {
	var doc struct {
		SPDX    string `json:"spdxVersion"`
		Bom     string `json:"bomFormat"`
		Type    string `json:"_type"`
		Payload string `json:"payloadType"` // of a signed envelope
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return "", fmt.Errorf("not a JSON object: %w", err)
	}
	switch {
	case doc.SPDX != "":
		return ReportSPDX, nil
	case doc.Bom == "CycloneDX":
		return ReportCycloneDX, nil
	case doc.Type != "" || doc.Payload == ReportInToto:
		return ReportInToto, nil
	}
	return "", errors.New("neither SPDX nor CycloneDX nor an in-toto statement")
}

// AttachReport stores a document as a referrer of subject. mediaType is one of the
// Report constants; scan goes with ReportSARIF and is nil otherwise.
func AttachReport(ctx context.Context, r *oci.Repo, subject oci.Descriptor, mediaType string, document []byte, scan *ScanSummary) (oci.Descriptor, error) {
	blob := oci.BytesBlob(mediaType, document)
	image := ocispec.Manifest{
		ArtifactType: mediaType, Config: EmptyConfig(), Layers: []oci.Descriptor{blob.Descriptor},
		Subject: &oci.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	}
	if scan != nil {
		image.Annotations = scan.annotations()
	}
	m, err := oci.NewManifest(image)
	if err != nil {
		return oci.Descriptor{}, err
	}
	for _, b := range []oci.Blob{oci.EmptyBlob(), blob} {
		if _, err := r.EnsureBlob(ctx, b); err != nil {
			return oci.Descriptor{}, fmt.Errorf("attach %s: %w", mediaType, err)
		}
	}
	return m.Descriptor, r.PutReferrer(ctx, m, *image.Subject)
}

// Report is an attestation of a manifest.
type Report struct {
	MediaType string         // one of the Report constants
	Document  oci.Descriptor // in the repository of the manifest
	Scan      *ScanSummary   // of ReportSARIF; nil: its annotations say nothing
}

// maxReports bounds what is read about one manifest. A rescan adds a report, so
// there may be many.
const maxReports = 50

// Referred is what refers to a manifest.
type Referred struct {
	Reports []Report // scan reports newest first, then the others as the registry has them
	Bundles int      // signatures in a form that okara does not check
	More    int      // of both, that were not read
}

// ReadReferred reads the attestations of subject, at one request and one more for
// each. A list may be wrong about types, so each manifest tells its own.
func ReadReferred(ctx context.Context, r *oci.Repo, subject oci.Descriptor) (Referred, error) {
	out, refs, err := referrers(ctx, r, subject)
	if err == nil {
		err = out.read(ctx, r, refs)
	}
	if err != nil {
		return Referred{}, err
	}
	return out, nil
}

// ReadNewest reads the newest scan report of subject, and that of its source repository
// if there is one, and counts the bundles: two requests, or three, where the list has
// types and annotations, as the specification asks for.
// A list is believed where it says what something is that nobody wants to read here;
// of the scan, its own manifest tells. Other attestations are left out, but for those
// whose type the list does not know.
func ReadNewest(ctx context.Context, r *oci.Repo, subject oci.Descriptor) (Referred, error) {
	out, refs, err := referrers(ctx, r, subject)
	if err != nil {
		return Referred{}, err
	}
	var scans, unknown []oci.Descriptor
	for _, d := range refs {
		switch _, ok := parseScanSummary(d.Annotations); {
		case d.ArtifactType == ReportSARIF && ok:
			scans = append(scans, d)
		case d.ArtifactType == ArtifactSigstoreBundle:
			out.Bundles++
		case !slices.Contains([]string{ReportCycloneDX, ReportSPDX, ReportInToto}, d.ArtifactType):
			unknown = append(unknown, d)
		}
	}
	if err := out.read(ctx, r, unknown); err != nil {
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
			continue // none is newer; else the list is behind, or wrong about one
		}
		if err := out.read(ctx, r, scans[i:i+1]); err != nil {
			return Referred{}, err
		}
	}
	return out, nil
}

// referrers lists what is read about subject: signatures have a tag of their own.
func referrers(ctx context.Context, r *oci.Repo, subject oci.Descriptor) (out Referred, refs []oci.Descriptor, err error) {
	if refs, err = r.Referrers(ctx, subject, ""); err != nil {
		return out, nil, err
	}
	refs = slices.DeleteFunc(refs, func(d oci.Descriptor) bool { return d.ArtifactType == ArtifactCosign })
	if len(refs) > maxReports {
		out.More, refs = len(refs)-maxReports, refs[len(refs)-maxReports:]
	}
	return out, refs, nil
}

// read adds what refs are.
func (out *Referred) read(ctx context.Context, r *oci.Repo, refs []oci.Descriptor) error {
	for _, d := range refs {
		report, kind, err := readReport(ctx, r, d)
		switch {
		case errors.Is(err, oci.ErrNotFound): // a list that is behind
		case err != nil:
			return err
		case kind == ArtifactSigstoreBundle:
			out.Bundles++
		case report.MediaType != "":
			out.Reports = append(out.Reports, report)
		}
	}
	slices.SortStableFunc(out.Reports, func(a, b Report) int { return b.time().Compare(a.time()) })
	return nil
}

// time is when a scan was made, and long ago for everything else.
func (r Report) time() time.Time {
	if r.Scan == nil {
		return time.Time{}
	}
	return r.Scan.Time
}

// readReport reads a referrer, and of which type it is. One that is no attestation
// is the zero Report.
func readReport(ctx context.Context, r *oci.Repo, d oci.Descriptor) (Report, string, error) {
	m, err := r.Fetch(ctx, d.Digest.String())
	if err != nil {
		return Report{}, "", err
	}
	image, err := m.Image()
	if err != nil {
		return Report{}, "", nil // not one that anybody can read
	}
	kind := image.ArtifactType
	known := slices.Contains([]string{ReportSARIF, ReportCycloneDX, ReportSPDX, ReportInToto}, kind)
	if !known || len(image.Layers) != 1 || CheckSHA256(image.Layers[0]) != nil {
		return Report{}, kind, nil
	}
	out := Report{MediaType: kind, Document: image.Layers[0]}
	if s, ok := parseScanSummary(image.Annotations); ok && kind == ReportSARIF {
		out.Scan = &s
	}
	return out, kind, nil
}

// NewestScan returns the newest scan report of subject, joined with that of its source
// repository if there is one; false if there is none.
func NewestScan(ctx context.Context, r *oci.Repo, subject oci.Descriptor) (ScanSummary, bool, error) {
	refs, err := r.Referrers(ctx, subject, ReportSARIF)
	if err != nil {
		return ScanSummary{}, false, err
	}
	return NewestScanAmong(ctx, r, refs)
}

// NewestScanAmong is NewestScan for referrers that are listed already, whatever else
// there is among them.
func NewestScanAmong(ctx context.Context, r *oci.Repo, refs []oci.Descriptor) (ScanSummary, bool, error) {
	newest := map[string]ScanSummary{} // by source
	for _, d := range refs {
		if d.ArtifactType != ReportSARIF {
			continue
		}
		report, _, err := readReport(ctx, r, d)
		if err != nil {
			return ScanSummary{}, false, err
		}
		if s := report.Scan; s != nil && !s.Time.Before(newest[s.Source].Time) {
			newest[s.Source] = *s
		}
	}
	all := slices.Sorted(maps.Keys(newest))
	if len(all) == 0 {
		return ScanSummary{}, false, nil
	}
	worst := newest[all[0]]
	for _, source := range all[1:] {
		worst = worst.worse(newest[source])
	}
	return worst, true, nil
}
