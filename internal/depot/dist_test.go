// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestPublishTheFolderOfGoReleaser: SHA256SUMS lists a registry manifest that is not there.
func TestPublishTheFolderOfGoReleaser(t *testing.T) {
	key := mustKey(t)
	const listed = depottest.Stem + "manifest.json"
	broken := []byte(`{"version":1,`)
	for _, test := range []struct {
		name   string
		change func(dist fstest.MapFS, o *depot.ProviderOptions)
		want   string // protocols
		err    error
	}{
		{"beside the zips", func(fstest.MapFS, *depot.ProviderOptions) {}, "[5.0 6.0]", nil},
		{"above", func(dist fstest.MapFS, o *depot.ProviderOptions) {
			o.Manifest = dist[listed].Data
			delete(dist, listed)
		}, "[5.0 6.0]", nil},
		{"under its own name", func(dist fstest.MapFS, _ *depot.ProviderOptions) {
			dist["terraform-registry-manifest.json"] = dist[listed]
			delete(dist, listed)
		}, "[5.0 6.0]", nil},
		{"nowhere", func(dist fstest.MapFS, _ *depot.ProviderOptions) { delete(dist, listed) }, "", signing.ErrSums},
		{"another one above", func(dist fstest.MapFS, o *depot.ProviderOptions) {
			o.Manifest = []byte(`{"version":1,"metadata":{"protocol_versions":["6.0"]}}`)
			delete(dist, listed)
		}, "", signing.ErrSums},
		{"another one above, beside the zips its own", func(_ fstest.MapFS, o *depot.ProviderOptions) { o.Manifest = broken }, "[5.0 6.0]", nil},
		{"broken and signed", func(dist fstest.MapFS, _ *depot.ProviderOptions) {
			dist[listed].Data = broken
			depottest.Sign(t, dist, key)
		}, "", depot.ErrManifest},
		{"broken and signed, with protocols", func(dist fstest.MapFS, o *depot.ProviderOptions) {
			dist[listed].Data = broken
			depottest.Sign(t, dist, key)
			o.Protocols = []string{"6.0"}
		}, "[6.0]", nil},
		{"not listed", func(dist fstest.MapFS, o *depot.ProviderOptions) {
			o.Manifest = dist[listed].Data
			delete(dist, listed)
			depottest.Sign(t, dist, key)
		}, "[5.0]", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
			dist := depottest.NewDist(t, "linux_amd64")
			depottest.Sign(t, dist, key)
			o := depot.ProviderOptions{Keys: []signing.PublicKey{depottest.MustPublic(t, key)}}
			test.change(dist, &o)
			v := depottest.MustVersion(t, "1.2.3")
			out, err := d.PublishProvider(t.Context(), dist, depottest.DNS(), v, o)
			if test.err != nil {
				if !errors.Is(err, test.err) {
					t.Errorf("got %v, want %v", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if said := strings.Contains(strings.Join(out.Warnings, "\n"), "terraform-registry-manifest.json above the folder was not used"); said != (test.name == "not listed") {
				t.Errorf("warnings %q", out.Warnings)
			}
			x, err := artifact.ParseProviderIndex(depottest.MustFetch(t, depottest.MustRepo(t, client, depottest.ProviderRepo), "1.2.3"))
			if err != nil || fmt.Sprint(x.Protocols) != test.want {
				t.Errorf("protocols %v, %v", x.Protocols, err)
			}
			if again, err := d.PublishProvider(t.Context(), dist, depottest.DNS(), v, o); err != nil || !again.Existing || again.Digest != out.Digest {
				t.Errorf("again %+v, %v", again, err)
			}
			for _, o.Extend = range []bool{false, true} { // what is described is content, too
				o.Protocols = []string{"4.0"}
				if _, err := d.PublishProvider(t.Context(), dist, depottest.DNS(), v, o); !errors.Is(err, oci.ErrExists) || !strings.Contains(err.Error(), "protocols 4.0") {
					t.Errorf("other protocols: %v", err)
				}
			}
		})
	}
}

func TestPlatformsThatNoToolAsksFor(t *testing.T) {
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	dist := depottest.NewDist(t, "linux_amd64", "darwin_all", "linux_armv6", "linux_riscv", "macos_arm64")
	out := must.Get(d.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t)}))(t)
	want := `no tool requests darwin_all: they request darwin_amd64 and darwin_arm64
no tool requests linux_armv6: they request linux_arm
no tool requests linux_riscv: a platform is GOOS_GOARCH, such as linux_amd64
no tool requests macos_arm64: they request darwin_arm64`
	if got := strings.Join(out.Warnings, "\n"); got != want {
		t.Errorf("got\n%s", got)
	}
}
