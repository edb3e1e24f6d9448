// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// number publishes one version of an item, with other content each time.
type number struct {
	name    string
	item    addr.Item
	publish func(d *depot.Depot, version, text string) (depot.Published, error)
}

func numbers(t *testing.T) []number {
	key := mustKey(t)
	return []number{
		{"module", depottest.VPC().Item(), func(d *depot.Depot, version, text string) (depot.Published, error) {
			return d.PublishModule(t.Context(), depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{})
		}},
		{"editions", depottest.VPC().Item(), func(d *depot.Depot, version, text string) (depot.Published, error) {
			return d.PublishModule(t.Context(), depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{Policy: depot.PolicyEditions})
		}},
		{"provider", depottest.DNS().Item(), func(d *depot.Depot, _, text string) (depot.Published, error) {
			platform := "linux_amd64"
			if strings.Contains(text, "other") {
				platform = "windows_amd64"
			}
			dist := depottest.NewDist(t, platform)
			return d.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: key})
		}},
		{"mirror", depottest.UpstreamDNS().Item(), func(d *depot.Depot, _, _ string) (depot.Published, error) {
			return d.MirrorProvider(t.Context(), depottest.NewRelease(t, key, "linux_amd64"), depottest.UpstreamDNS(), depottest.MustVersion(t, "1.2.3"), depot.MirrorOptions{})
		}},
	}
}

// TestANumberIsUsedOnce removes a version and publishes its number again: with
// other content, with the same content, and after an unyank.
func TestANumberIsUsedOnce(t *testing.T) {
	for _, tt := range numbers(t) {
		t.Run(tt.name, func(t *testing.T) {
			d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
			first, err := tt.publish(d, "1.2.3", "# one")
			if err != nil {
				t.Fatal(err)
			}
			announce := func(action string) error {
				_, _, err := d.Announce(t.Context(), tt.item, depot.Announcement{
					Action: action, Version: "1.2.3", Message: "leaks the key", DeleteTag: true,
				})
				return err
			}
			if err := announce(evidence.ActionYank); err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"# one", "# other"} {
				_, err = tt.publish(d, "1.2.3", text)
				conflict, ok := errors.AsType[*depot.ConflictError](err)
				if !ok || !errors.Is(err, oci.ErrExists) || (conflict.Next.String() == "1.2.4") != (tt.name != "mirror") || !strings.Contains(err.Error(), "was withdrawn: leaks the key") {
					t.Errorf("%s: got %v", text, err)
				}
			}
			if tags := depottest.MustTags(t, depottest.MustRepo(t, client, tt.item.Repository(d.Options().Layout))); strings.Contains(strings.Join(tags, " "), "1.2.3 ") {
				t.Errorf("the tag is back: %v", tags)
			}
			if err := announce(evidence.ActionUnyank); err != nil {
				t.Fatal(err)
			}
			again, err := tt.publish(d, "1.2.3", "# one")
			if err != nil || !again.Existing || again.Digest != first.Digest {
				t.Errorf("unyanked: got %+v, %v, want %s", again, err, first.Digest)
			}
		})
	}
}

// TestAYankedVersionSaysSo publishes again a version that exists and is yanked.
func TestAYankedVersionSaysSo(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, _ := depottest.NewDepot(t, host, oci.Options{})
		for _, tt := range numbers(t)[:3] {
			if _, err := tt.publish(d, "1.2.3", "# one"); err != nil {
				t.Fatal(err)
			}
			if _, _, err := d.Announce(t.Context(), tt.item, depot.Announcement{Action: evidence.ActionYank, Version: "1.2.3", Message: "leaks"}); err != nil {
				t.Fatal(err)
			}
			out, err := tt.publish(d, "1.2.3", "# one")
			if err != nil || !out.Existing || !strings.Contains(strings.Join(out.Warnings, "\n"), "1.2.3 was withdrawn: leaks") {
				t.Errorf("%s: got %+v, %v", tt.name, out, err)
			}
			_, err = tt.publish(d, "1.2.3", "# other")
			if !errors.Is(err, oci.ErrExists) || !strings.Contains(err.Error(), "and withdrawn: leaks") {
				t.Errorf("%s: got %v", tt.name, err)
			}
		}
	})
}

// TestAllNumbersAreYanked checks that no version can be published for an item
// that was withdrawn as a whole, because it would be hidden at once.
func TestAllNumbersAreYanked(t *testing.T) {
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	module := numbers(t)[0]
	if _, err := module.publish(d, "1.2.3", "# one"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Announce(t.Context(), module.item, depot.Announcement{Action: evidence.ActionYank, Version: evidence.AllVersions}); err != nil {
		t.Fatal(err)
	}
	_, err := module.publish(d, "2.0.0", "# two")
	conflict, ok := errors.AsType[*depot.ConflictError](err)
	if !ok || conflict.Next != (addr.Version{}) {
		t.Errorf("got %v", err)
	}
}
