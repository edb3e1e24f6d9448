// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func TestExtendProvider(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, client := depottest.NewDepot(t, host, oci.Options{})
		v, o := depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t), Extend: true}
		first := must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), v, o))(t)
		r := depottest.MustRepo(t, client, depottest.ProviderRepo)
		before := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3")))(t)
		second, err := d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64", "darwin_arm64"), depottest.DNS(), v, o)
		if err != nil || second.Existing || second.Digest == first.Digest {
			t.Fatalf("%+v, %v", second, err)
		}
		after, err := artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3"))
		if err != nil || len(after.Platforms) != 2 {
			t.Fatalf("%+v, %v", after, err)
		}
		if diff := cmp.Diff(mustJSON(t, after.Platforms[0].Manifest), mustJSON(t, before.Platforms[0].Manifest)); diff != "" {
			t.Errorf("the old descriptor changed (-got +want)\n%s", diff)
		}
		if _, err := d.Verify(t.Context(), depottest.DNS().Item(), v, trust.Policy{Deep: true}); err != nil {
			t.Error(err)
		}
		tags := depottest.MustTags(t, r)
		i := slices.IndexFunc(tags, func(s string) bool { return strings.HasPrefix(s, "okara-index-") })
		if len(tags) != 2 || i < 0 || depottest.MustFetch(t, r, tags[i]).Digest.String() != first.Digest {
			t.Errorf("tags %v: the old index is not kept", tags)
		}
		again, err := d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64", "darwin_arm64"), depottest.DNS(), v, o)
		if err != nil || !again.Existing || again.Digest != second.Digest {
			t.Errorf("again: %+v, %v", again, err)
		}
	})
}

func TestExtendProviderRefuses(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	v, o := depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t), Extend: true}
	must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), v, o))(t)
	r := depottest.MustRepo(t, client, depottest.ProviderRepo)
	before := depottest.MustFetch(t, r, "1.2.3").Digest
	changed := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
	changed[depottest.Stem+"linux_amd64.zip"].Data = depottest.NewZip(t, depottest.File("terraform-provider-dns", "other", 0o755))
	for name, dist := range map[string]error{
		"another zip": second(d.PublishProvider(t.Context(), changed, depottest.DNS(), v, o)),
		"missing zip": second(d.PublishProvider(t.Context(), depottest.NewDist(t, "darwin_arm64"), depottest.DNS(), v, o)),
	} {
		if !errors.Is(dist, oci.ErrExists) || !strings.Contains(dist.Error(), "linux_amd64") {
			t.Errorf("%s: got %v, want ErrExists", name, dist)
		}
	}
	if after := depottest.MustFetch(t, r, "1.2.3").Digest; after != before {
		t.Error("the version moved")
	}
}

func second(_ depot.Published, err error) error { return err }

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b := must.Get(json.Marshal(v))(t)
	return string(b)
}
