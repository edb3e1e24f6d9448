// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestSyncScansTheSourceRepository: a clean module with a bad source is held back.
func TestSyncScansTheSourceRepository(t *testing.T) {
	r, o, source := newRunner(t), newOrigin(t, "v1.0.0"), newOrigin(t, "v1.0.0")
	source.tag("v1.1.0", "# insecure")
	o.tag("v1.1.0", "# secure")
	file := moduleEntry(o, fmt.Sprintf("scan {\n scanner = %q\n block = \"high\"\n source_repository = %q\n}", newScanner(t), source.url))
	r.want(r.apply(file), "publish 1.1.0 blocked", "publish 1.0.0 published")
	repo := depottest.MustRepo(t, r.client, "p/modules/net/vpc/aws")
	good := depottest.MustFetch(t, repo, "1.0.0")
	refs, err := evidence.ReadNewest(t.Context(), &evidence.Referrers{Repo: repo, Subject: good.Descriptor})
	if err != nil || len(refs.Reports) != 2 {
		t.Fatalf("%+v, %v", refs, err)
	}
	sources := []string{refs.Reports[0].Scan.Source, refs.Reports[1].Scan.Source}
	if slices.Sort(sources); sources[0] != "" || "git::"+sources[1] != source.url {
		t.Errorf("sources %q", sources)
	}
	candidates, err := depot.Candidates(t.Context(), repo)
	if err != nil || len(candidates) != 1 {
		t.Fatalf("candidates %+v, %v", candidates, err)
	}
	bad := depottest.MustFetch(t, repo, candidates[0].Tag)
	if s, ok, err := evidence.NewestScan(t.Context(), &evidence.Referrers{Repo: repo, Subject: bad.Descriptor}); err != nil || !ok || s.High != 1 {
		t.Errorf("what counts of the two reports: %+v, %v, %v", s, ok, err)
	}
	o.tag("v1.2.0", "# secure")
	r.want(r.apply(file), "publish 1.2.0 published error", "blocked 1.1.0", "present 1.0.0")
}
