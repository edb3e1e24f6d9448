// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/supply"
)

// idle runs the entry some hours after a run that examined its part.
func (r *runner) idle(o *origin, hours int) (*supply.Plan, []string) {
	r.t.Helper()
	r.examined = r.now
	r.now = r.now.Add(time.Duration(hours) * time.Hour)
	r.count.Take()
	return must.GetBoth(r.own(o, supply.OwnRecord{Owner: "a"}))(r.t)
}

// TestIdleRunsAskLittle: tags, record, newest version; others once a day.
func TestIdleRunsAskLittle(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0", "v1.1.0", "v1.2.0", "v1.3.0")
	p, _ := must.GetBoth(r.own(o, supply.OwnRecord{Owner: "a"}))(t)
	if p.Listing(vpcKey) != nil {
		t.Error("the list of before is given for that of after a change")
	}
	p, got := r.idle(o, 0)
	r.want(got, "present 1.3.0", "present 1.2.0", "present 1.1.0", "present 1.0.0")
	must.Match(t, "an idle run asks", r.count.Take(), map[string]int{"GET tags": 1, "GET manifest": 1, "HEAD manifest": 1})
	if l := p.Listing(vpcKey); l == nil || len(l.Versions) != 4 {
		t.Errorf("the listing is %+v", l)
	}

	examined, runs := 0, 8
	for range runs {
		r.idle(o, 24/runs)
		examined += r.count.Take()["HEAD manifest"]
	}
	if examined != runs+3 {
		t.Errorf("in a day %d runs examined %d versions, not the newest each time and the others once", runs, examined)
	}
	r.idle(o, 24)
	if n := r.count.Take()["HEAD manifest"]; n != 4 {
		t.Errorf("the first run in a day examines %d versions", n)
	}
}

// TestMovedTagIsFoundWithinADay by runs that examine a part each.
func TestMovedTagIsFoundWithinADay(t *testing.T) {
	r, o := newRunner(t), newOrigin(t, "v1.0.0", "v1.1.0", "v1.2.0")
	if _, _, err := r.own(o, supply.OwnRecord{Owner: "a"}); err != nil {
		t.Fatal(err)
	}
	repo := depottest.MustRepo(t, r.client, "p/modules/net/vpc/aws")
	was, other := depottest.MustFetch(t, repo, "1.0.0"), depottest.MustFetch(t, repo, "1.1.0")
	must.Succeed(t, repo.PutTag(t.Context(), "1.0.0", other))
	found := false
	for hours := 0; hours < 24 && !found; hours += 6 {
		_, got := r.idle(o, 6)
		found = slices.Contains(got, "drift 1.0.0 drift")
	}
	if !found {
		t.Fatal("a day of runs did not find it")
	}
	_, got := r.idle(o, 0)
	r.want(got, "present 1.2.0", "present 1.1.0", "drift 1.0.0 drift")
	must.Succeed(t, repo.PutTag(t.Context(), "1.0.0", was))
	_, got = r.idle(o, 0)
	r.want(got, "present 1.2.0", "present 1.1.0", "adopt 1.0.0 published")

	must.Succeed(t, repo.PutTag(t.Context(), "1.2.0", other))
	_, got = r.idle(o, 0)
	r.want(got, "drift 1.2.0 drift", "present 1.1.0", "present 1.0.0")
}
