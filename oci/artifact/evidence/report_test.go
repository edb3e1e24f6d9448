// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestReadNewest checks that the newest scan report is found in two requests if
// the list is correct, and also if the list is incomplete or wrong.
func TestReadNewest(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	count := &ocitest.Count{}
	r := must.Get(oci.OpenRepo(host+"/test/repo", oci.Options{PlainHTTP: true, Transport: count}))(t)
	subject := oci.BytesBlob("application/octet-stream", []byte("subject")).Descriptor
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	attach := func(kind string, day int) {
		t.Helper()
		var scan *evidence.ScanSummary
		if kind == evidence.ReportSARIF {
			scan = &evidence.ScanSummary{Tool: "test", Time: start.AddDate(0, 0, day), High: day}
		}
		must.Get(evidence.AttachReport(t.Context(), r, subject, kind, fmt.Appendf(nil, "{%q: %d}", kind, day), scan))(t)
	}
	for _, day := range []int{3, 7, 5} {
		attach(evidence.ReportSARIF, day)
		attach(evidence.ReportCycloneDX, day)
	}
	listed := must.Get(r.Referrers(t.Context(), subject, ""))(t)
	for name, c := range map[string]struct {
		change   func(*oci.Descriptor)
		add      oci.Descriptor
		requests int
	}{
		"as it is":          {requests: 2},
		"without types":     {change: func(d *oci.Descriptor) { d.ArtifactType = "" }, requests: 7},
		"with wrong types":  {change: func(d *oci.Descriptor) { d.ArtifactType = "application/vnd.oci.empty.v1+json" }, requests: 7},
		"without the dates": {change: func(d *oci.Descriptor) { d.Annotations = nil }, requests: 4},
		"a date that is not its own": {change: func(d *oci.Descriptor) {
			if d.Annotations["vnd.okara.scan.high"] == "3" {
				d.Annotations["vnd.okara.scan.time"] = start.AddDate(1, 0, 0).Format(time.RFC3339)
			}
		}, requests: 3},
		"one that is gone": {add: oci.Descriptor{
			MediaType: "application/vnd.oci.image.manifest.v1+json", ArtifactType: evidence.ReportSARIF, Size: 7, Digest: oci.BytesBlob("", []byte("missing")).Digest,
			Annotations: map[string]string{"vnd.okara.scan.time": start.AddDate(1, 0, 0).Format(time.RFC3339), "vnd.okara.scan.critical": "0", "vnd.okara.scan.high": "0", "vnd.okara.scan.medium": "0", "vnd.okara.scan.low": "0"},
		}, requests: 3},
		"a bundle": {add: oci.Descriptor{
			MediaType: "application/vnd.oci.image.manifest.v1+json", ArtifactType: "application/vnd.dev.sigstore.bundle.v0.3+json", Size: 7, Digest: oci.BytesBlob("", []byte("bundle")).Digest,
		}, requests: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var list []oci.Descriptor
			for _, d := range listed {
				d.Annotations = maps.Clone(d.Annotations)
				if c.change != nil {
					c.change(&d)
				}
				list = append(list, d)
			}
			if c.add.Digest != "" {
				list = append(list, c.add)
			}
			count.Base = &ocitest.Fault{Times: -1, Match: ocitest.On(http.MethodGet, "referrers"), Do: ocitest.Respond("application/vnd.oci.image.index.v1+json", indexOf(t, list))}
			count.Take()
			got := must.Get(evidence.ReadNewest(t.Context(), &evidence.Referrers{Repo: r, Subject: subject}))(t)
			if n := count.Total(); n != c.requests {
				t.Errorf("%v, want %d requests", count.Take(), c.requests)
			}
			if len(got.Reports) == 0 || got.Reports[0].Scan == nil || got.Reports[0].Scan.High != 7 {
				t.Errorf("the newest is %+v", got.Reports)
			}
		})
	}
}

// indexOf returns a list of referrers in the form of a registry's answer.
func indexOf(t *testing.T, list []oci.Descriptor) string {
	t.Helper()
	m := must.Get(oci.NewIndex(ocispec.Index{Manifests: list}))(t)
	return string(m.Bytes)
}
