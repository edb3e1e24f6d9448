// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestPruneByDigest deletes manifests where tags cannot be, unless another tag has them, and says
// how many were kept.
//
// Shows: rules 5 | without DELETE by tag, manifests that nothing else needs are deleted; a yank
// reports what is kept
func TestPruneByDigest(t *testing.T) {
	g := ocitest.NewRefusing(t, ocitest.Refusals{NoUntag: true})
	d, client := depottest.NewDepot(t, g.Host, oci.Options{})
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
		must.Get(d.PublishModule(t.Context(), depottest.NewModule("# "+version), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))(t)
	}
	r := depottest.MustRepo(t, client, "p/modules/net/vpc/aws")
	must.Succeed(t, r.PutTag(t.Context(), "stable", depottest.MustFetch(t, r, "1.1.0")))
	prune := func(keep int) (*depot.Listing, error) {
		l := must.Get(d.Versions(t.Context(), depottest.VPC().Item()))(t)
		err := depot.PruneVersions(t.Context(), l, l.Prunable(depot.Retention{Keep: keep}))
		if l, lerr := d.Versions(t.Context(), depottest.VPC().Item()); lerr == nil {
			return l, err
		}
		t.Fatal("the listing is gone")
		return nil, nil
	}
	l, err := prune(2)
	kept, ok := errors.AsType[*depot.KeptError](err)
	if !ok || len(kept.Kept) != 1 || kept.Kept[0].String() != "1.1.0" || kept.Of != 2 || !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("prune: %v", err)
	}
	want := []string{"1.3.0", "1.2.0", "1.1.0"}
	for i, v := range l.Versions {
		if i >= len(want) || v.String() != want[i] {
			t.Fatalf("versions %v, want %v", l.Versions, want)
		}
	}
	if l.Status(kept.Kept[0]).Yanked == nil {
		t.Error("what stays is not yanked")
	}
	g.Refuse(ocitest.Refusals{NoUntag: true, Immutable: []string{"*"}})
	l, err = prune(1)
	if kept, ok := errors.AsType[*depot.KeptError](err); !ok || len(kept.Kept) != 2 || len(l.Versions) != 3 {
		t.Errorf("prune of immutable versions: %v, %v", err, l.Versions)
	}
}

// TestKeptTags: a yank, or prune, whose tag stays is recorded, and tells what remains and why.
//
// Shows: rules 5
func TestKeptTags(t *testing.T) {
	for name, tt := range map[string]struct {
		rules ocitest.Refusals
		why   string
	}{
		"no delete by tag":   {ocitest.Refusals{NoUntag: true}, "400"},
		"no right to delete": {ocitest.Refusals{NoDelete: true}, "403"},
		"immutable":          {ocitest.Refusals{Immutable: []string{"*"}}, "configured as immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			g := ocitest.NewRefusing(t, tt.rules)
			d, _ := depottest.NewDepot(t, g.Host, oci.Options{})
			for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
				must.Get(d.PublishModule(t.Context(), depottest.NewModule("# "+version), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))(t)
			}
			e, warnings, err := d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionYank, Version: "1.1.0", DeleteTag: true})
			// where tags are immutable, latest stays as well
			if err != nil || e.Tag == "" || len(warnings) != map[bool]int{false: 1, true: 2}[name == "immutable"] || !strings.Contains(warnings[0], tt.why) || !strings.Contains(warnings[0], "okara admin prune") {
				t.Errorf("yank: %+v, %q, %v", e, warnings, err)
			}
			if _, _, err := d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionUnyank, Version: "1.1.0"}); err != nil {
				t.Errorf("unyank: %v", err)
			}
			l := must.Get(d.Versions(t.Context(), depottest.VPC().Item()))(t)
			err = depot.PruneVersions(t.Context(), l, l.Prunable(depot.Retention{Keep: 1}))
			kept, ok := errors.AsType[*depot.KeptError](err)
			if byDigest := name == "no delete by tag"; byDigest && err != nil || !byDigest && (!ok || len(kept.Kept) != 2 || !strings.Contains(err.Error(), tt.why)) {
				t.Errorf("prune: %v", err)
			}
		})
	}
}

// TestContentTrust checks that a manifest that the registry serves to no client
// gets no tag, and that an announcement does not damage existing versions.
//
// Shows: rules 4 | content trust refuses versions that could not be pulled, before a tag is written
func TestContentTrust(t *testing.T) {
	g := ocitest.NewRefusing(t, ocitest.Refusals{ContentTrust: true})
	d, client := depottest.NewDepot(t, g.Host, oci.Options{})
	publish := func() error {
		_, err := d.PublishModule(t.Context(), depottest.NewModule(""), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{})
		return err
	}
	provide := func() error {
		_, err := d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t)})
		return err
	}
	for _, err := range []error{publish(), provide()} {
		if !errors.Is(err, oci.ErrDenied) || !oci.WithheldByPolicy(err) {
			t.Errorf("publish: %v", err)
		}
	}
	for _, name := range []string{"p/modules/net/vpc/aws", "p/providers/acme/dns"} {
		if l, err := depottest.MustRepo(t, client, name).Snapshot(t.Context()); err == nil && len(l.Tags) > 0 {
			t.Errorf("%s has %v", name, l.Tags)
		}
	}
	g.Refuse(ocitest.Refusals{})
	must.Succeed(t, publish())
	r := depottest.MustRepo(t, client, "p/modules/net/vpc/aws")
	before := must.Get(r.Snapshot(t.Context()))(t)
	g.Refuse(ocitest.Refusals{ContentTrust: true})
	for _, action := range []string{evidence.ActionDeprecate, evidence.ActionYank} {
		if _, _, err := d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: action, Version: "1.0.0"}); !errors.Is(err, oci.ErrDenied) {
			t.Errorf("%s: %v", action, err)
		}
	}
	g.Refuse(ocitest.Refusals{})
	if after, err := r.Snapshot(t.Context()); err != nil || !slices.Equal(after.Tags, before.Tags) {
		t.Errorf("tags %v, before %v, %v", after.Tags, before.Tags, err)
	}
}

// TestEqualZips: equal platforms have different manifests; a version without them has its old form.
//
// Shows: rules 9 | platforms with equal zips have separate manifests
func TestEqualZips(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	zip := depottest.NewZip(t, depottest.File("terraform-provider-dns_v1.2.3", "for all", 0o755))
	dist := fstest.MapFS{}
	for _, platform := range []string{"darwin_amd64", "linux_amd64", "linux_arm64"} {
		dist["terraform-provider-dns_1.2.3_"+platform+".zip"] = &fstest.MapFile{Data: zip}
	}
	v := depottest.MustVersion(t, "1.2.3")
	for i := range 2 {
		out, err := d.PublishProvider(t.Context(), dist, depottest.DNS(), v, depot.ProviderOptions{SignKey: mustKey(t)})
		if err != nil || out.Existing != (i == 1) {
			t.Fatalf("publish %d: %+v, %v", i, out, err)
		}
	}
	index := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, depottest.MustRepo(t, client, "p/providers/acme/dns"), "1.2.3")))(t)
	seen := map[string]bool{}
	for _, p := range index.Platforms {
		seen[p.Manifest.Digest.String()] = true
	}
	if len(index.Platforms) != 3 || len(seen) != 3 {
		t.Errorf("%d platforms with %d manifests", len(index.Platforms), len(seen))
	}
}
