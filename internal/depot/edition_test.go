// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"slices"
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
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Shows: aws-registry 4 | duplicate versions | refused by default; `--policy editions` keeps both
func TestEditions(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, client := depottest.NewDepot(t, host, oci.Options{})
		m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
		publish := func(text string, policy depot.Policy) depot.Published {
			t.Helper()
			return must.Get(d.PublishModule(t.Context(), depottest.NewModule(text), m, depot.ModuleOptions{Policy: policy}))(t)
		}
		one := publish("# 1", depot.PolicyImmutable) // has no edition tag yet
		two := publish("# 2", depot.PolicyEditions)
		again := publish("# 2", depot.PolicyEditions)
		if !again.Existing || again.Digest != two.Digest {
			t.Errorf("the same content again: %+v", again)
		}
		r := depottest.MustRepo(t, client, "p/modules/net/vpc/aws")
		check := func(current depot.Published) {
			t.Helper()
			want := []string{"1.0.0", "latest", edition(t, one), edition(t, two)}
			slices.Sort(want)
			if diff := cmp.Diff(depottest.MustTags(t, r), want); diff != "" {
				t.Errorf("tags (-got +want)\n%s", diff)
			}
			for tag, want := range map[string]string{"1.0.0": current.Digest, edition(t, one): one.Digest, edition(t, two): two.Digest} {
				if got := depottest.MustFetch(t, r, tag).Digest.String(); got != want {
					t.Errorf("%s is %s, want %s", tag, got, want)
				}
			}
		}
		check(two)
		// Publishing the older content makes it the version again.
		if back := publish("# 1", depot.PolicyEditions); back.Digest != one.Digest {
			t.Errorf("back: %+v", back)
		}
		check(one)
		// The names of editions do not move, and take no other content beforehand.
		named := depottest.MustModule(t, "net/vpc/aws", must.Get(addr.ParseVersion(edition(t, two)))(t).String())
		if _, err := d.PublishModule(t.Context(), depottest.NewModule("# 3"), named, depot.ModuleOptions{Policy: depot.PolicyEditions}); !errors.Is(err, oci.ErrExists) {
			t.Errorf("other content as the edition: %v", err)
		}
		check(one)
	})
}

// TestNamesOfEditionsAreUsedOnce takes a coming edition's name for other content, and removes it.
func TestNamesOfEditionsAreUsedOnce(t *testing.T) {
	dates := map[string]string{artifact.AnnCreated: "2026-01-02T03:04:05Z"}
	publish := func(d *depot.Depot, version, text string, policy depot.Policy) (depot.Published, error) {
		return d.PublishModule(t.Context(), depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{Policy: policy, Annotations: dates})
	}
	elsewhere, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	name := edition(t, must.Get(publish(elsewhere, "1.0.0", "# 2", ""))(t))
	for _, removed := range []bool{false, true} {
		d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
		must.Get(publish(d, "1.0.0", "# 1", ""))(t)
		must.Get(publish(d, name, "# 3", ""))(t)
		if removed {
			must.GetBoth(d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionYank, Version: name, DeleteTag: true}))(t)
		}
		if out, err := publish(d, "1.0.0", "# 2", depot.PolicyEditions); !errors.Is(err, oci.ErrExists) {
			t.Errorf("removed: %t: %+v, %v", removed, out, err)
		}
	}
}

func edition(t *testing.T, p depot.Published) string {
	t.Helper()
	v := must.Get(depottest.MustVersion(t, "1.0.0").WithEdition(strings.TrimPrefix(p.Digest, "sha256:")))(t)
	return v.Tag()
}

// TestEditionsAreSelectedExactly checks the reason for the form of the name.
//
// Shows: aws-registry 4
func TestEditionsAreSelectedExactly(t *testing.T) {
	e := depottest.MustVersion(t, "1.0.0-e9d6a0c4471b2")
	for constraint, want := range map[string]bool{"~> 1.0": false, ">= 0.1": false, "1.0.0-e9d6a0c4471b2": true, "": false} {
		c := must.Get(addr.ParseConstraint(constraint))(t)
		if got := c.Allows(e); got != want {
			t.Errorf("%q selects the edition: %v", constraint, got)
		}
	}
}
