// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

// TestPublishAgainRestores removes what only an index names, with its zips, as
// distribution 2.8 does, and layers of a module: publishing the same bytes again
// brings it back.
func TestPublishAgainRestores(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	all := numbers(t)
	for _, tt := range []number{all[0], all[2], all[3]} {
		t.Run(tt.name, func(t *testing.T) {
			d, client := depottest.NewDepot(t, host, oci.Options{})
			first := must.Get(tt.publish(d, "1.2.3", "# one"))(t)
			r := depottest.MustRepo(t, client, tt.item.Repository(d.Options().Layout))
			m := depottest.MustFetch(t, r, "1.2.3")
			remove := func(path string, parts []oci.Descriptor) {
				for _, part := range parts {
					req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+host+"/v2/"+r.Name()+"/"+path+"/"+part.Digest.String(), nil))(t)
					resp, err := http.DefaultClient.Do(req)
					if err != nil || resp.StatusCode != http.StatusAccepted {
						t.Fatal(resp, err)
					}
					resp.Body.Close()
				}
			}
			var parts []oci.Descriptor
			if index, err := m.Index(); err == nil {
				parts = index.Manifests
				for _, part := range parts {
					image := must.Get(depottest.MustFetch(t, r, part.Digest.String()).Image())(t)
					remove("blobs", image.Layers)
				}
				remove("manifests", parts)
			} else if image, err := m.Image(); err == nil {
				parts = image.Layers[:2]
				remove("blobs", parts)
			}
			d, client = depottest.NewDepot(t, host, oci.Options{}) // another process
			r = depottest.MustRepo(t, client, r.Name())
			if lost, err := depot.LostParts(t.Context(), r, m); err != nil || len(lost) != len(parts) {
				t.Fatalf("%d of %d parts are lost, %v", len(lost), len(parts), err)
			}
			again, err := tt.publish(d, "1.2.3", "# one")
			if err != nil || again.Digest != first.Digest || !strings.Contains(strings.Join(again.Warnings, "\n"), "pushed again") {
				t.Errorf("got %+v, %v", again, err)
			}
			if lost, err := depot.LostParts(t.Context(), r, m); err != nil || len(lost) > 0 {
				t.Errorf("%d parts are lost, %v", len(lost), err)
			}
			if _, err := d.Verify(t.Context(), tt.item, depottest.MustVersion(t, "1.2.3"), trust.Policy{Deep: true}); err != nil {
				t.Error(err)
			}
		})
	}
}
