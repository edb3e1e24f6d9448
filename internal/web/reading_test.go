// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestReading checks that pages say that the catalog is being read, and show the progress
// to administrators only: the numbers include items that other callers may not see.
//
// Shows: page-mistakes 14
func TestReading(t *testing.T) {
	s := newSiteOf(t, nil, access.Policy{Tokens: callers()})
	catalog := must.Get(s.client.Repo(s.layout.CatalogRepo()))(t)
	for i := range 20 {
		m := addr.Module{Namespace: "open", Name: fmt.Sprint("thing", i), System: "aws"}
		must.Succeed(t, artifact.AddCatalogEntry(t.Context(), catalog, artifact.CatalogEntry{Kind: addr.KindModule, Address: m.String(), Repository: s.layout.Module(m)}))
	}
	release := make(chan struct{})
	s.count.Base = &ocitest.Fault{
		Nth: 13, Times: -1, // after twelve entries
		Match: func(r *http.Request) bool {
			return strings.Contains(r.URL.Path, "/"+s.layout.CatalogRepo()+"/manifests/") && !strings.HasSuffix(r.URL.Path, "/"+"okara-index")
		},
		Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return next.RoundTrip(r)
		},
	}
	for s.protocols.Catalog().Progress().Read < 12 { // a page waits two seconds
		s.as(t, "admin", "/ui/")
	}
	t.Run("pages", func(t *testing.T) {
		const own, others = "The catalog is being read: 12 of 20 entries.", "The catalog is being read. Reload"
		for _, c := range [][3]string{{"admin", "", own}, {"admin", "search?q=thing", own}, {"admin", "modules/open", own}, {"reader", "", others}} {
			t.Run(c[0]+" "+c[1], func(t *testing.T) {
				t.Parallel()
				if status, body, _ := s.as(t, c[0], "/ui/"+c[1]); status != http.StatusOK || !strings.Contains(body, c[2]) {
					t.Errorf("status %d, want %q in\n%s", status, c[2], body)
				}
			})
		}
	})
	close(release)
	must.Get(s.protocols.Catalog().Published(t.Context()))(t)
	if _, body, _ := s.as(t, "admin", "/ui/"); strings.Contains(body, "being read") || !strings.Contains(body, "20</span>") {
		t.Errorf("once it is read:\n%s", body)
	}
}
