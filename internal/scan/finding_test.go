// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/scan"
)

const twoFindings = `{"version":"2.1.0","runs":[{"tool":{"driver":{"rules":[
  {"id":"AVD-1","helpUri":"https://avd.example.com/1","shortDescription":{"text":"Open to all"},"properties":{"security-severity":"5.5"}},
  {"id":"CVE-2","shortDescription":{"text":"Overflow"},"properties":{"security-severity":"9.8"}}]}},
 "results":[
  {"ruleId":"AVD-1","ruleIndex":0,"message":{"text":"Artifact: main.tf"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"main.tf"},"region":{"startLine":3}}}]},
  {"ruleId":"PASSED","kind":"pass","message":{"text":"fine"}},
  {"ruleId":"CVE-2","ruleIndex":1,"message":{"text":"Package: golang.org/x/net\nInstalled Version: v0.1.0\nVulnerability CVE-2\nFixed Version: 0.2.0\nLink: [CVE-2](x)"}}]}]}`

func TestFindings(t *testing.T) {
	got, counts := must.GetBoth(scan.Findings([]byte(twoFindings), 500))(t)
	want := []scan.Finding{
		{Level: "critical", Rule: "CVE-2", Title: "Overflow", Package: "golang.org/x/net v0.1.0", Fixed: "0.2.0"},
		{Level: "medium", Rule: "AVD-1", Link: "https://avd.example.com/1", Title: "Open to all", File: "main.tf", Line: 3},
	}
	must.Match(t, "value", got, want)
	must.Equal(t, "counts", counts, (scan.Counts{Critical: 1, Medium: 1}))
	if cut, counts, err := scan.Findings([]byte(twoFindings), 1); err != nil || len(cut) != 1 || cut[0].Level != "critical" || counts.Medium != 1 {
		t.Errorf("one of two: %v, %v, %v", cut, counts, err)
	}
	if _, _, err := scan.Findings([]byte("{}"), 1); err == nil {
		t.Error("an empty object is a report")
	}
	long, _, err := scan.Findings([]byte(strings.Replace(twoFindings, "Overflow", strings.Repeat("ä", 10_000), 1)), 1)
	if err != nil || len([]rune(long[0].Title)) != 301 {
		t.Errorf("a title of %d characters, %v", len([]rune(long[0].Title)), err)
	}
}

func FuzzFindings(f *testing.F) {
	f.Add([]byte(twoFindings))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, counts, err := scan.Findings(b, 10)
		if n := counts.Critical + counts.High + counts.Medium + counts.Low; err == nil && len(all) != min(n, 10) {
			t.Errorf("%d findings of %d", len(all), n)
		}
	})
}
