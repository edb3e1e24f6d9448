// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

func TestPruneVersions(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, _ := depottest.NewDepot(t, host, oci.Options{})
		for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
			must.Get(d.PublishModule(t.Context(), depottest.NewModule("# "+version), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))(t)
		}
		l := must.Get(d.Versions(t.Context(), depottest.VPC().Item()))(t)
		pin := depottest.MustVersion(t, "1.0.0")
		prunable := l.Prunable(depot.Retention{Keep: 1, Pinned: func(v addr.Version) bool { return v == pin }})
		if len(prunable) != 1 || prunable[0].String() != "1.1.0" {
			t.Fatalf("prunable %v", prunable)
		}
		err := depot.PruneVersions(t.Context(), l, prunable)
		if err != nil && !errors.Is(err, oci.ErrUnsupported) {
			t.Fatal(err)
		}
		after, verr := d.Versions(t.Context(), depottest.VPC().Item())
		if verr != nil {
			t.Fatal(verr)
		}
		gone := !slices.Contains(after.Versions, prunable[0])
		if yanked := after.Status(prunable[0]).Yanked != nil; !yanked || gone != (err == nil) {
			t.Errorf("yanked %v, gone %v, error %v", yanked, gone, err)
		}
		if !slices.Contains(after.Versions, pin) || after.Status(pin).Yanked != nil {
			t.Error("the pinned version is affected")
		}
	})
}

func TestAnnounceKeepsTheOrderOfEvents(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
	must.Get(d.PublishModule(t.Context(), depottest.NewModule(""), m, depot.ModuleOptions{}))(t)
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	event := must.Get(evidence.PutStatusEvent(t.Context(), r, evidence.StatusEvent{Action: evidence.ActionYank, Version: "1.0.0", Time: time.Now()}))(t)
	forged := depottest.MustFetch(t, r, event.Tag)
	must.Succeed(t, r.PutTag(t.Context(), "okara-status-9999999999999-0123456789abcdef", forged)) // nothing could take it back
	must.Succeed(t, r.PutTag(t.Context(), fmt.Sprintf("okara-status-%d-0123456789abcdef", time.Now().Add(time.Hour).UnixMilli()), forged))
	for i := range 6 { // faster than a millisecond each
		action := []string{evidence.ActionYank, evidence.ActionUnyank}[i%2]
		if _, _, err := d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: action, Version: "1.0.0"}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := d.Versions(t.Context(), depottest.VPC().Item())
	if err != nil || l.Status(m.Version).Yanked != nil {
		t.Errorf("%v, %+v", err, l.Status(m.Version))
	}
}
