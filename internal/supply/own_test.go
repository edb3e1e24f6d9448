// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const vpcKey = "module net/vpc/aws"

// recordTagOf returns the tag of the record of one entry.
func recordTagOf(entry string) string {
	return fmt.Sprintf("depot-%.16x", sha256.Sum256([]byte(entry)))
}

// own runs one entry with a separate record.
func (r *runner) own(o *origin, own supply.OwnRecord) (*supply.Plan, []string, error) {
	r.t.Helper()
	e := must.Get(supply.ModuleSpec{
		Address: "net/vpc/aws", Source: o.url, EntrySpec: supply.EntrySpec{Versions: "~> 1.0"},
	}.Entry("Module net/vpc"))(r.t)
	from := supply.Origins{Client: &upstream.Client{}, Git: &upstream.Git{}}
	s := supply.NewSyncer(r.depot, supply.SyncOptions{
		Set: &supply.Set{Modules: []supply.ModuleEntry{e}}, Own: &own, Examined: r.examined, Now: func() time.Time { return r.now },
		Origins: func(string) (supply.Origins, error) { return from, nil },
	})
	p := must.Get(s.Plan(r.t.Context()))(r.t)
	results := must.Get(s.Apply(r.t.Context(), p, nil))(r.t)
	var lines []string
	for _, res := range results {
		if err := res.Err(); err != nil {
			return p, nil, err
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", res.Action, res.Version, res.State)))
	}
	return p, lines, nil
}

func (r *runner) digests() (all []string) {
	r.t.Helper()
	repo := depottest.MustRepo(r.t, r.client, "p/modules/net/vpc/aws")
	for _, tag := range r.versions() {
		all = append(all, tag+" "+depottest.MustFetch(r.t, repo, tag).Digest.String())
	}
	return all
}

// TestOwnRecordPublishesTheSame: entry, depot file and hand publish the same bytes.
func TestOwnRecordPublishesTheSame(t *testing.T) {
	o := newOrigin(t, "v1.0.0", "v1.1.0")
	file := moduleEntry(o, "")
	byFile, byEntry := newRunner(t), newRunner(t)
	byFile.want(byFile.apply(file), "publish 1.1.0 published", "publish 1.0.0 published")
	_, got, err := byEntry.own(o, supply.OwnRecord{Owner: "a"})
	if err != nil {
		t.Fatal(err)
	}
	byEntry.want(got, "publish 1.1.0 published", "publish 1.0.0 published")
	byEntry.want(byEntry.digests(), byFile.digests()...)

	byEntry.want(byEntry.apply(file), "adopt 1.1.0 published", "adopt 1.0.0 published")
	if _, got, err = byFile.own(o, supply.OwnRecord{Owner: "a"}); err != nil {
		t.Fatal(err)
	}
	byFile.want(got, "present 1.1.0", "present 1.0.0") // they are in the common record
	common, own := must.GetBoth(supply.ReadRecords(t.Context(), byFile.depot))(t)
	if len(own) != 1 || own[0].Owner != "a" || len(own[0].Entries[vpcKey]) != 2 || len(common.Entries[vpcKey]) != 2 {
		t.Errorf("common %v, own %v", common, own)
	}

	byHand := newRunner(t)
	tree := fstest.MapFS{"main.tf": {Data: []byte("# v1.0.0\n"), Mode: 0o600}}
	out := must.Get(byHand.depot.PublishModule(t.Context(), tree, depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{}))(t)
	if _, got, err = byHand.own(o, supply.OwnRecord{Owner: "a"}); err != nil {
		t.Fatal(err)
	}
	byHand.want(got, "publish 1.1.0 published", "adopt 1.0.0 published")
	parsed := must.Get(artifact.ParseModule(depottest.MustFetch(t, depottest.MustRepo(t, byFile.client, "p/modules/net/vpc/aws"), "1.0.0")))(t)
	if parsed.ContentDigest != out.ContentDigest {
		t.Errorf("the content is %s by hand and %s by a run", out.ContentDigest, parsed.ContentDigest)
	}
}

// TestOwnRecordRestsWhenNothingChanges counts an idle run's requests.
func TestOwnRecordRestsWhenNothingChanges(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	p, _ := must.GetBoth(r.own(o, supply.OwnRecord{Owner: "a"}))(t)
	if vr := p.Known(vpcKey)["1.0.0"]; vr.State != supply.StatePublished || vr.Digest == "" {
		t.Errorf("known after the first run: %+v", p.Known(vpcKey))
	}
	r.count.Take()
	p, got := must.GetBoth(r.own(o, supply.OwnRecord{Owner: "a"}))(t)
	r.want(got, "present 1.0.0")
	if n := r.writes(); n != 0 {
		t.Errorf("an unchanged run wrote %d times", n)
	}
	if len(p.Known(vpcKey)) != 1 || p.Known("module x/y/z") != nil {
		t.Errorf("known: %+v", p.Known(vpcKey))
	}
	tags := depottest.MustTags(t, depottest.MustRepo(t, r.client, "p/catalog"))
	if !slices.Contains(tags, recordTagOf(vpcKey)) || slices.Contains(tags, "okara-depot") {
		t.Errorf("the catalogue has %v", tags)
	}
}

// TestOwnRecordHasAnOwner: a recreated namespace inherits nothing, but by takeover.
func TestOwnRecordHasAnOwner(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	if _, _, err := r.own(o, supply.OwnRecord{Owner: "old"}); err != nil {
		t.Fatal(err)
	}
	r.count.Take()
	o.tag("v1.1.0", "# theirs")
	p, _, err := r.own(o, supply.OwnRecord{Owner: "new"})
	if taken, ok := errors.AsType[*supply.OwnerError](err); !ok || taken.Owner != "old" || taken.Entry != vpcKey || p.Known(vpcKey) != nil {
		t.Errorf("got %v, known %v", err, p.Known(vpcKey))
	}
	if n := r.writes(); n != 0 {
		t.Errorf("a refused run wrote %d times", n)
	}
	if _, _, err := r.own(o, supply.OwnRecord{Owner: "new", TakeOver: func(owner string) bool { return owner == "older" }}); err == nil {
		t.Error("a consent to another owner's end counts")
	}
	for range 2 { // in the second run it is already the owner
		if _, _, err := r.own(o, supply.OwnRecord{Owner: "new", TakeOver: func(owner string) bool { return owner == "old" }}); err != nil {
			t.Fatal(err)
		}
	}
	r.want(r.versions(), "1.0.0", "1.1.0")
	rec, err := supply.ReadEntryRecord(t.Context(), r.depot, vpcKey)
	if err != nil || rec.Owner != "new" {
		t.Errorf("the record's owner is %q, %v", rec.Owner, err)
	}
	if _, _, err = r.own(o, supply.OwnRecord{Owner: "old"}); err == nil {
		t.Error("the owner of before was not refused")
	}
	if _, _, err = r.own(o, supply.OwnRecord{Owner: "third", TakeOver: func(owner string) bool { return owner == "old" }}); err == nil {
		t.Error("the consent was used twice")
	}
}

// TestOwnRecordIsOfItsEntry refuses a record that was moved to another tag.
func TestOwnRecordIsOfItsEntry(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0")
	if _, _, err := r.own(o, supply.OwnRecord{Owner: "a"}); err != nil {
		t.Fatal(err)
	}
	repo := depottest.MustRepo(t, r.client, "p/catalog")
	moved := recordTagOf("module x/y/z")
	must.Succeed(t, repo.PutTag(t.Context(), moved, depottest.MustFetch(t, repo, recordTagOf(vpcKey))))
	if _, err := supply.ReadEntryRecord(t.Context(), r.depot, "module x/y/z"); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if _, _, err := supply.ReadRecords(t.Context(), r.depot); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}
