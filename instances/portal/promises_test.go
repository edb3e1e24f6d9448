// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/driver"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestHidden leaves a template that is launched by name out of the list, and refuses to
// launch one that is disabled.
//
// Shows: platform 2
// Shows: instances 8
func TestHidden(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	anna := s.Issuer.Token(t, "anna", "use")
	s.Catalog.Change("lab/vpc", func(e *template.Entry) { e.Template.Visible = false })
	s.Catalog.Change("lab/one", func(e *template.Entry) { e.Template.Enabled = false })
	var list api.Templates
	s.Want(t, 200, &list, anna, "GET", "templates", "")
	for _, listed := range list.Templates {
		if listed.Name == "lab/vpc" || listed.Name == "lab/one" && listed.Enabled {
			t.Errorf("listed: %+v", listed)
		}
	}
	s.Want(t, 200, nil, anna, "GET", "templates/lab/vpc", "")
	create(t, s, anna, `{"template":"lab/vpc"}`, 201)
	s.Want(t, 409, nil, anna, "POST", "instances", `{"template":"lab/one"}`)
	s.Want(t, 409, nil, anna, "POST", "run/lab/one", "{}")
}

// TestOffered: versions for launchers, ignored limits for admins.
func TestOffered(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	for _, c := range []struct {
		who, name string
		versions  []string
		force     bool
	}{
		{"anna", "lab/vpc", []string{"1.1.0", "1.0.0"}, false}, {"anna", "lab/pool", nil, false},
		{"both", "lab/vpc", []string{"1.1.0", "1.0.0"}, true},
	} {
		var doc api.Template
		token := all[c.who]
		if c.who == "both" {
			token = s.Issuer.Token(t, "both", "use", "admin")
		}
		s.Want(t, 200, &doc, token, "GET", "templates/"+c.name, "")
		if !slices.Equal(doc.Versions, c.versions) || doc.Force != c.force {
			t.Errorf("%s is offered versions %q of %s, force %t", c.who, doc.Versions, c.name, doc.Force)
		}
	}
	var list api.Templates
	s.Want(t, 200, &list, all["anna"], "GET", "templates", "")
	for _, listed := range list.Templates {
		if len(listed.Versions) > 0 {
			t.Errorf("a list has versions of %s", listed.Name)
		}
	}
}

// TestClaimOwner shares an instance among all callers with the same value of a claim,
// compared exactly as the issuer states it.
//
// Shows: platform 3
func TestClaimOwner(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	s.Catalog.Change("lab/one", func(e *template.Entry) { e.Template.Owner = "claim:department" })
	who := func(subject, department string) string {
		claims := map[string]any{
			"iss": s.Issuer.URL, "aud": "okara", "sub": subject, "groups": []string{"use"}, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		}
		if department != "" {
			claims["department"] = department
		}
		return s.Issuer.Sign(t, claims)
	}
	anna, ben, carla, dora := who("anna", "R&D"), who("ben", "R&D"), who("carla", "r&d"), who("dora", "")
	instance := create(t, s, anna, `{"template":"lab/one"}`, 201)
	if instance.Owner == nil || instance.Owner.Kind != "claim" || instance.Owner.ID != "R&D" {
		t.Errorf("owner %+v", instance.Owner)
	}
	if again := create(t, s, ben, `{"template":"lab/one"}`, 200); again.ID != instance.ID { // one instance for each owner
		t.Errorf("%s beside %s", again.ID, instance.ID)
	}
	s.Want(t, 404, nil, carla, "GET", "instances/"+instance.ID, "")
	if other := create(t, s, carla, `{"template":"lab/one"}`, 201); other.ID == instance.ID {
		t.Error("another value of the claim is the same owner")
	}
	s.Want(t, 403, nil, dora, "POST", "instances", `{"template":"lab/one"}`)
	s.Want(t, 404, nil, dora, "GET", "instances/"+instance.ID, "")
	s.Want(t, 202, nil, ben, "DELETE", "instances/"+instance.ID, "")
}

// TestCounts shows the same number wherever it is reported.
//
// Shows: platform 11
// Shows: platform 18
// Shows: platform-mistakes 10 | a count is kept in two places
func TestCounts(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	anna := s.Issuer.Token(t, "anna", "use")
	s.Store.Machine.Limits.Quotas = []lifecycle.Quota{{User: 5}}
	for n := range 4 {
		var me api.Me
		var list api.Instances
		var tpl api.Template
		s.Want(t, 200, &me, anna, "GET", "me", "")
		s.Want(t, 200, &list, anna, "GET", "instances", "")
		s.Want(t, 200, &tpl, anna, "GET", "templates/lab/vpc", "")
		v := must.Get(s.Store.View(t.Context()))(t)
		got := []int{len(v.Document.Records), list.Count, list.Used, list.Limit, me.Quota.Used, me.Quota.Limit}
		must.Match(t, "of ledger, list, its use and limit, and what I am told", got, []int{n, n, n, 5, n, 5})
		if tpl.Quota == nil || tpl.Quota.Used != n || tpl.Quota.Limit != 3 {
			t.Errorf("of the template: %+v, want %d of 3", tpl.Quota, n)
		}
		var refused api.Error
		if n == 3 {
			s.Want(t, 403, &refused, anna, "POST", "instances", `{"template":"lab/vpc"}`)
			if refused.Used != 3 || refused.Limit != 3 || !strings.Contains(strings.Join(refused.Errors, ""), "3 of 3") {
				t.Errorf("refused with %+v", refused)
			}
			continue
		}
		create(t, s, anna, `{"template":"lab/vpc"}`, 201)
	}
}

// TestMetrics shows the metrics for administrators, on the leader only.
//
// Shows: platform 19 | metrics | on the leader
func TestMetrics(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	e, _ := s.Catalog.Current("lab/pool")
	s.Store.Serve(t, lifecycle.Fill{Name: e.Template.Name, Template: e.Template, Digest: e.Digest, Source: e.Source})
	v, _ := s.Store.View(t.Context())
	for id := range v.Document.Records {
		s.Store.Finish(t, id, done())
	}
	ready(t, s, all["anna"], `{"template":"lab/vpc"}`)
	create(t, s, all["anna"], `{"template":"lab/one"}`, 201)
	s.Want(t, 200, nil, all["admin"], "POST", "templates/lab/team/pause", `{"reason":"moving"}`)
	leads, late := true, time.Duration(0)
	to := prometheus.NewRegistry()
	m := driver.NewMetrics(to, func(ctx context.Context) (lifecycle.View, error) {
		v, err := s.Store.View(ctx)
		v.Leading, v.AsOf = leads, v.AsOf.Add(late)
		return v, err
	})
	m.Committed(30 * time.Millisecond)
	want := map[string]float64{
		`okara_instances lab/pool available`: 2, `okara_instances lab/vpc ready`: 1, `okara_instances lab/one provisioning`: 1,
		`okara_instance_queue`: 1, `okara_pool_available lab/pool`: 2, `okara_pool_paused lab/pool`: 0, `okara_pool_paused lab/team`: 1,
		`okara_leader`: 1, `okara_expiry_lag_seconds`: 0, `okara_ledger_commit_seconds`: 1,
	}
	must.Match(t, "metrics", gathered(t, to), want)
	late = 8*time.Hour + time.Minute
	if got := gathered(t, to)["okara_expiry_lag_seconds"]; got != 60 {
		t.Errorf("a minute after the end of one: %v seconds", got)
	}
	leads = false
	must.Match(t, "of who does not lead", gathered(t, to), map[string]float64{"okara_leader": 0, "okara_ledger_commit_seconds": 1})
}

// gathered returns metrics by name and labels.
func gathered(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families := must.Get(from.Gather())(t)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var name strings.Builder
			name.WriteString(f.GetName())
			for _, phase := range []string{"template", "phase"} {
				for _, l := range m.GetLabel() {
					if l.GetName() == phase {
						name.WriteString(" " + l.GetValue())
					}
				}
			}
			got[name.String()] = m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return got
}
