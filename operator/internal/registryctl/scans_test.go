// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// newScanner writes a scanner that finds one high problem in files that contain "insecure".
func newScanner(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scanner")
	script := `#!/bin/sh
results=
if grep -qr insecure "$1"; then results='{"ruleId":"X","level":"error","message":{"text":"it says so"}}'; fi
printf '{"version":"2.1.0","runs":[{"tool":{"driver":{"rules":[]}},"results":[%s]}]}' "$results"
`
	must.Succeed(t, os.WriteFile(file, []byte(script), 0o700))
	return file
}

// TestScans checks that a version is scanned before it is published, and that findings hold
// one back. Without a scanner nothing is published.
//
// Shows: operator 7 | a version is scanned before it is published; without a scanner nothing is
// published
func TestScans(t *testing.T) {
	s := newNet(t, "1.0.0")
	must.Get(s.from.PublishModule(t.Context(), depottest.NewModule("# insecure"), depottest.MustModule(t, vpc, "1.1.0"), depot.ModuleOptions{}))(t)
	m := s.module(s.ns, "m", func(m *v1alpha1.Module) { m.Spec.Scan = &v1alpha1.ScanPolicy{Block: "High"} })
	if message := s.says(m, false, v1alpha1.ReasonScannerMissing); !stalled(m) || !strings.Contains(message, "--scanner") {
		t.Errorf("%q, stalled %t", message, stalled(m))
	}
	s.stop()
	s.scanner.Command = filepath.Join(t.TempDir(), "none")
	s.start()
	s.until("looked for", func() (bool, any) {
		return strings.Contains(s.says(m, false, v1alpha1.ReasonScannerMissing), "scanner not found"), m.Status
	})
	if l := s.listing(); len(l.Versions) != 0 || !stalled(m) {
		t.Errorf("without a scanner there is %v, stalled %t", l.Versions, stalled(m))
	}
	s.stop()
	s.scanner.Command = newScanner(t)
	s.start()
	s.says(m, true, v1alpha1.ReasonSynced)
	if states(m) != "1.1.0 Blocked, 1.0.0 Published" || m.Status.Latest != "1.0.0" {
		t.Errorf("%s, latest %s", states(m), m.Status.Latest)
	}
	good, bad := s.version("1.0.0"), s.version("1.1.0")
	s.says(good, true, v1alpha1.ReasonSynced)
	s.says(bad, false, v1alpha1.ReasonHeld)
	if len(good.Status.Scans) != 1 || good.Status.Scans[0].High != 0 || good.Status.Scans[0].Tool != "scanner" || len(good.Status.Scans[0].Findings) != 0 {
		t.Errorf("the good one: %+v", good.Status)
	}
	if len(bad.Status.Scans) != 1 || bad.Status.Scans[0].High != 1 || len(bad.Status.Scans[0].Findings) != 1 || bad.Status.Scans[0].Findings[0].Rule != "X" || bad.Status.Scans[0].Findings[0].Level != "High" || bad.Status.Truncated {
		t.Errorf("the bad one: %+v", bad.Status)
	}
	writes, before := s.in.writes.Load(), s.revisions()
	s.again(m)
	delete(before, string(m.UID)+" m")
	after := s.revisions()
	for name, revision := range before {
		if after[name] != revision {
			t.Errorf("%s was written again", name)
		}
	}
	must.Equal(t, "writes to the registry", s.in.writes.Load()-writes, 0)
}

// TestScanOfTheSourceRepository has a clean provider whose source repository is not clean.
func TestScanOfTheSourceRepository(t *testing.T) {
	s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "mirror:registry.opentofu.org/hashicorp/null"})
	f := newForge(t)
	f.text = "insecure"
	s.out.close(f.answer)
	s.scanner.Command = newScanner(t)
	s.start()
	p := &v1alpha1.Provider{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "null"}}
	p.Spec.Address, p.Spec.Versions = "hashicorp/null", "1.1.0"
	p.Spec.Scan = &v1alpha1.ScanPolicy{SourceRepository: "github.com/acme/terraform-provider-null"}
	must.Succeed(t, s.Create(t.Context(), p))
	s.says(p, true, v1alpha1.ReasonSynced)
	v := s.version("1.1.0")
	s.says(v, true, v1alpha1.ReasonSynced)
	var subjects []string
	for _, one := range v.Status.Scans {
		subjects = append(subjects, fmt.Sprint(one.Subject, " ", one.High))
	}
	must.Equal(t, "scans", strings.Join(subjects, ", "), "source 1, darwin_arm64 0")
	if len(v.Status.Scans) == 2 && len(v.Status.Scans[0].Findings) != 1 {
		t.Errorf("findings %+v", v.Status.Scans[0].Findings)
	}
	s.change(p, func() { p.Spec.Scan.Block, p.Spec.Versions = "High", "1.2.0" })
	s.until("blocked", func() (bool, any) {
		s.read(p)
		return len(p.Status.Versions) > 0 && p.Status.Versions[0] == (v1alpha1.VersionSummary{
			Version: "1.2.0", Digest: p.Status.Versions[0].Digest, State: v1alpha1.StateBlocked,
		}), p.Status
	})
}
