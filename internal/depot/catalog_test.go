// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestRebuildCatalog deletes the catalog and rebuilds it, with addresses as they were written.
func TestRebuildCatalog(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		lost := &ocitest.Fault{Match: inCatalog, Times: -1, Do: ocitest.Status(http.StatusForbidden, -1)}
		d, _ := depottest.NewDepot(t, host, oci.Options{Transport: lost})
		written := depot.ModuleOptions{Annotations: map[string]string{artifact.AnnTitle: "Net/VPC/aws"}}
		must.Get(d.PublishModule(t.Context(), depottest.NewModule(""), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), written))(t)
		must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t)}))(t)
		_, client := depottest.NewDepot(t, host, oci.Options{})
		other := depot.New(depot.Options{Client: client, Layout: addr.Layout{Prefix: "elsewhere"}})
		must.Get(other.PublishModule(t.Context(), depottest.NewModule(""), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{}))(t)
		d, _ = depottest.NewDepot(t, host, oci.Options{})
		if entries, err := d.Catalog(t.Context()); err != nil || len(entries) > 0 {
			t.Fatalf("the catalog that was not written: %v, %v", entries, err)
		}
		module := artifact.CatalogEntry{Kind: addr.KindModule, Address: "net/vpc/aws", Repository: depottest.ModuleRepo, Title: "Net/VPC/aws"}
		provider := artifact.CatalogEntry{Kind: addr.KindProvider, Address: "acme/dns", Repository: depottest.ProviderRepo}
		for _, step := range []struct {
			items []addr.Item
			want  []artifact.CatalogEntry
		}{
			{[]addr.Item{depottest.VPC().Item(), depottest.MustModule(t, "net/none/aws", "1.0.0").Module.Item()}, []artifact.CatalogEntry{module}},
			{nil, []artifact.CatalogEntry{module, provider}},
			{nil, []artifact.CatalogEntry{module, provider}},
		} {
			refused := &ocitest.Fault{Match: ocitest.On(http.MethodGet, "manifest"), Times: -1, Do: ocitest.Status(http.StatusForbidden, -1)}
			broken, _ := depottest.NewDepot(t, host, oci.Options{Transport: refused})
			if n, err := broken.RebuildCatalog(t.Context(), step.items); n != 0 || !errors.Is(err, oci.ErrDenied) {
				t.Errorf("a title that cannot be read: rebuilt %d, %v", n, err)
			}
			n, err := d.RebuildCatalog(t.Context(), step.items)
			if err != nil || n != len(step.want) {
				t.Errorf("rebuilt %d, %v", n, err)
			}
			entries, err := d.Catalog(t.Context())
			if diff := cmp.Diff(entries, step.want); err != nil || diff != "" {
				t.Errorf("%v (-got +want)\n%s", err, diff)
			}
		}
	})
}

func inCatalog(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && strings.HasPrefix(r.URL.Path, "/v2/p/catalog/")
}

// TestRebuildCatalogUnsupported: a registry without a list of repositories.
func TestRebuildCatalogUnsupported(t *testing.T) {
	none := &ocitest.Fault{Match: func(r *http.Request) bool { return r.URL.Path == "/v2/_catalog" }, Times: -1, Do: ocitest.Status(http.StatusMethodNotAllowed, -1)}
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: none})
	if _, err := d.RebuildCatalog(t.Context(), nil); !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}
