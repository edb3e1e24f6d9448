// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// TestFindUsers: who may list an instance learns which version of a module it has; others that there is one.
func TestFindUsers(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	id := ready(t, s, all["anna"], `{"template":"lab/vpc"}`).ID
	d := must.Get(s.Store.View(t.Context()))(t).Document
	is := d.Records[id].Source
	find := func(who string) [2]int {
		r := httptest.NewRequest("GET", "/v1/used-by", nil)
		r.Header.Set("Authorization", "Bearer "+all[who])
		g := must.Get(s.Kit.Guard.Allow(r, rights.Right{Action: rights.List, Kind: rights.AnyKind}))(t)
		seen, others := portal.FindUsers(d, g, time.Hour, is.Module)
		for _, u := range seen {
			if u.Instance != id || u.Source != is.Module || u.Since.IsZero() || u.Address() == "" || u.By == "" {
				t.Errorf("%s sees %+v", who, u)
			}
		}
		return [2]int{len(seen), others}
	}
	want := map[string][2]int{"stranger": {0, 1}, "anna": {1, 0}, "ben": {0, 1}, "reader": {1, 0}, "approver": {1, 0}, "admin": {1, 0}}
	got := map[string][2]int{}
	for who := range want {
		got[who] = find(who)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seen and others (-want +got):\n%s", diff)
	}
	// A run that failed after it had changed something leaves two versions in use.
	later := d.Records[id]
	later.Runs = append([]lifecycle.Run{{Kind: lifecycle.RunApply, Applied: true, Result: "failed", StartedAt: time.Now(), Source: template.Source{Module: is.Module, Version: "9.9.9"}}}, later.Runs...)
	if n := find("anna"); n != [2]int{2, 0} {
		t.Errorf("after a failed change: %v", n)
	}
	for n, tt := range []struct {
		phase   lifecycle.Phase
		applied bool
		want    [2]int
	}{
		{lifecycle.Destroyed, true, [2]int{}}, {lifecycle.Orphaned, true, [2]int{2, 0}}, {lifecycle.Failed, true, [2]int{2, 0}},
		{lifecycle.Requested, false, [2]int{}}, {lifecycle.Planned, false, [2]int{}}, {lifecycle.Failed, false, [2]int{}}, {lifecycle.Provisioning, false, [2]int{1, 0}},
	} {
		later.Phase, later.Applied = tt.phase, tt.applied
		if !tt.applied {
			later.Runs = nil
		}
		if got := find("admin"); got != tt.want {
			t.Errorf("%d, %s: %v, want %v", n, tt.phase, got, tt.want)
		}
	}
	// Those that one owner hides count once.
	for _, name := range []string{"one", "two"} {
		other := *later
		other.ID = name
		d.Records[name] = &other
	}
	if got := find("stranger"); got != [2]int{0, 1} {
		t.Errorf("three of one owner: %v", got)
	}
}
