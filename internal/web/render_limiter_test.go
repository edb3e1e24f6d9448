// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"maps"
	"net/http"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// TestRenderLimiterRequests counts the requests to the registry of a page that is not
// cached, for a version that is signed and has two scan reports and an SBOM.
//
// Shows: pages 11
func TestRenderLimiterRequests(t *testing.T) {
	const list, manifest, blob, referrers = "GET tags", "GET manifest", "GET blob", "GET referrers"
	const fallback = 1      // the registry of this test has no referrers API, so the fallback tag is requested too
	head := map[string]int{ // six: the list, the manifest, the description, the signatures, the referrers, the newest report
		list: 1, manifest: 3 + fallback, blob: 1, referrers: 1,
	}
	for path, want := range map[string]map[string]int{
		"":                head,
		"/1.0.0":          head,
		"/1.0.0/inputs":   head,
		"/1.0.0/usage":    head,
		"/versions":       {list: 1, manifest: 1},                                   // of each version, at most 20
		"/1.0.0/security": {list: 1, manifest: 5 + fallback, blob: 2, referrers: 1}, // nine: also two more reports, and the findings of the newest
	} {
		t.Run(path, func(t *testing.T) {
			s := New(t, rights.AnonymousRead()...)
			s.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": `variable "cidr" { type = string }`, "README.md": "# A network\n"})
			s.vouch(t, "net/vpc/aws", "1.0.0")
			must.Get(s.protocols.Catalog().Published(t.Context()))(t)
			s.count.Take()
			status, _, _ := s.as(t, "", "/ui/modules/net/vpc/aws"+path)
			got := s.count.Take()
			t.Log(got)
			if status != http.StatusOK || !maps.Equal(got, want) {
				t.Errorf("status %d, asks %v, want %v", status, got, want)
			}
		})
	}
}
