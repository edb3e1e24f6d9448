// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// partTime is how long a page waits for a part that it can do without.
const partTime = 2 * time.Second

// vouched is the evidence in the head of a version's page.
type vouched struct {
	evidence *catalog.Evidence // nil: it could not be read
	Unknown  bool              // signatures and scans are missing from this page
	Refused  string            // why the version is not served, for callers that may publish it
}

// evidences reads signatures, attestations and scans of versions.
type evidences struct {
	catalog  *catalog.Catalog
	archives Archives // nil: archives cannot be opened
}

// readEvidence reads the evidence of a version, but waits at most partTime. The tab security
// needs all of it; the heads of other pages need less.
func (s *evidences) readEvidence(r *site.Request, it addr.Item, v addr.Version, manifest oci.Descriptor, l *catalog.Versions) vouched {
	ctx, stop := context.WithTimeout(r.Context(), partTime)
	defer stop()
	look := s.catalog.Brief
	if r.PathValue("tab") == "security" {
		look = s.catalog.Evidence
	}
	e, err := look(ctx, it, v, manifest, l)
	if err != nil {
		r.Log().Warn("page shown without signatures and scans", "address", it.String(), "version", v.String(), "error", err)
		return vouched{Unknown: true}
	}
	return vouched{evidence: e}
}

func (v vouched) evidenceMarks() []site.Mark {
	var all []site.Mark
	if v.Refused != "" {
		all = append(all, site.Mark{Text: "not served", Kind: "bad"})
	}
	if v.evidence == nil {
		return all
	}
	by := func(result string) int {
		return slices.IndexFunc(v.evidence.Signatures, func(s trust.Signature) bool { return s.Result == result })
	}
	switch i := by(trust.Trusted); {
	case i >= 0:
		all = append(all, site.Mark{Text: "verified, signed by " + shortKey(v.evidence.Signatures[i]), Kind: "good"})
	case by(trust.Consistent) >= 0:
		all = append(all, site.Mark{Text: "signed by " + shortKey(v.evidence.Signatures[by(trust.Consistent)]), Kind: "plain"})
	case by(trust.NotChecked) >= 0:
		all = append(all, site.Mark{Text: "signed, not checked", Kind: "plain"})
	}
	if by(trust.Invalid) >= 0 {
		all = append(all, site.Mark{Text: "invalid signature", Kind: "bad"})
	}
	if report, ok := v.evidence.Scan(); ok {
		kind := "good"
		if report.Scan.Critical+report.Scan.High > 0 {
			kind = "bad"
		} else if report.Scan.Medium+report.Scan.Low > 0 {
			kind = "plain"
		}
		all = append(all, site.Mark{Text: fmt.Sprintf("scan %d critical, %d high", report.Scan.Critical, report.Scan.High), Kind: kind})
	}
	return all
}

// shortKey shortens the name of a key: to the ID at the end of a fingerprint, or the
// beginning of a hash.
func shortKey(s trust.Signature) string {
	if hash, ok := strings.CutPrefix(s.Key, "SHA256:"); ok {
		return hash[:min(12, len(hash))]
	}
	return s.Key[max(0, len(s.Key)-16):]
}

// securityBody has the signatures of a version, its scan and its documents.
type securityBody struct {
	Signatures []signatureRow
	Scan       *scanBody
	Older      []reportRow
	Documents  []reportRow // SBOMs and provenance
	More       int         // number of documents that are not shown
	Unknown    bool
}

type signatureRow struct {
	trust.Signature
	Mark site.Mark
}

// reportRow is a document about a version.
type reportRow struct {
	Name   string
	Size   int64
	Href   string // below the root of the server, "" for none
	Scan   *evidence.ScanSummary
	Digest string
}

// scanBody is the newest report of a scanner.
type scanBody struct {
	reportRow
	site.Pages // of the findings of the level
	Levels     []levelChoice
	Level      string // level of the findings shown, "" for all
	Rows       []findingRow
	Hidden     int    // number of findings in the report that no page shows
	Problem    string // why there are no rows
}

type levelChoice struct {
	site.Link
	Count int
	Mark  string
	Here  bool
}

type findingRow struct {
	scan.Finding
	Mark string // good, bad or plain
	Href string // page of the file, "" for none
	Host string // host of the link to the rule, "" if the link is not shown
}

// securityPage returns the security page. The argument page is its address, and files returns the
// page of a file of the version; nil if there are none.
func (s *evidences) securityPage(r *site.Request, repository string, v vouched, page string, files func(path string, line int) string) (securityBody, error) {
	if v.evidence == nil {
		return securityBody{Unknown: true}, nil
	}
	body := securityBody{More: v.evidence.More}
	for _, sig := range v.evidence.Signatures {
		kind := map[string]string{trust.Trusted: "good", trust.Invalid: "bad"}[sig.Result]
		body.Signatures = append(body.Signatures, signatureRow{sig, site.Mark{Text: sig.Result, Kind: cmp.Or(kind, "plain")}})
	}
	newest, scanned := v.evidence.Scan()
	for _, report := range v.evidence.Reports {
		row := s.report(repository, report)
		switch {
		case report.MediaType != evidence.ReportSARIF:
			body.Documents = append(body.Documents, row)
		case !scanned || report.Document.Digest != newest.Document.Digest:
			body.Older = append(body.Older, row)
		}
	}
	if !scanned {
		return body, nil
	}
	body.Scan = &scanBody{reportRow: s.report(repository, newest), Level: r.URL.Query().Get("level")}
	if scan.CheckLevel(body.Scan.Level) != nil {
		return body, site.NotFound("unknown level of findings: %q", body.Scan.Level)
	}
	found, err := s.catalog.Findings(r.Context(), repository, newest)
	switch {
	case errors.Is(err, oci.ErrTooLarge):
		body.Scan.Problem = "The report is too large to be shown here; download it."
	case errors.Is(err, oci.ErrCorrupt):
		body.Scan.Problem = "The report cannot be read; download it to see why."
	case err != nil:
		return body, err
	default:
		body.Scan.fillFindings(r, found, page, files)
	}
	return body, nil
}

// fillFindings adds the findings of the current page.
func (b *scanBody) fillFindings(r *site.Request, found *catalog.Findings, page string, files func(path string, line int) string) {
	c := found.Counts
	total := c.Critical + c.High + c.Medium + c.Low
	b.Hidden = total - len(found.All)
	choose := func(level, text, mark string, n int) {
		href := page
		if level != "" {
			href += "?level=" + level
		}
		b.Levels = append(b.Levels, levelChoice{site.Link{Text: text, Href: href}, n, mark, level == b.Level})
	}
	choose("", "all", "plain", total)
	for _, l := range []struct {
		name string
		n    int
	}{{"critical", c.Critical}, {"high", c.High}, {"medium", c.Medium}, {"low", c.Low}} {
		choose(l.name, l.name, levelMark(l.name), l.n)
	}
	shown := slices.DeleteFunc(slices.Clone(found.All), func(f scan.Finding) bool { return b.Level != "" && f.Level != b.Level })
	shown, b.Pages = site.OnePage(r, "page", shown)
	for _, f := range shown {
		row := findingRow{Finding: f, Mark: levelMark(f.Level), Host: safeHost(f.Link)}
		if f.File != "" && files != nil {
			row.Href = files(f.File, f.Line)
		}
		b.Rows = append(b.Rows, row)
	}
}

func levelMark(level string) string {
	if level == "critical" || level == "high" {
		return "bad"
	}
	return "plain"
}

// safeHost returns the host of a link that is safe to follow, "" otherwise.
func safeHost(href string) string {
	u, err := url.Parse(href)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return ""
	}
	return u.Host
}

// report returns the row of a report, named by its type.
func (s *evidences) report(repository string, report evidence.Report) reportRow {
	names := map[string][2]string{
		evidence.ReportSARIF: {"Scan report, SARIF", "scan.sarif.json"}, evidence.ReportCycloneDX: {"SBOM, CycloneDX", "sbom.cdx.json"},
		evidence.ReportSPDX: {"SBOM, SPDX", "sbom.spdx.json"}, evidence.ReportInToto: {"Provenance, in-toto", "provenance.intoto.json"},
	}
	row := reportRow{Name: names[report.MediaType][0], Size: report.Document.Size, Scan: report.Scan, Digest: report.Document.Digest.String()}
	if s.archives != nil {
		row.Href = s.archives.ArchiveLink(repository, report.Document.Digest.Encoded(), names[report.MediaType][1])
	}
	return row
}
