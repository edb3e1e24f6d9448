// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// asksFor makes launches of lab/vpc need approval.
func asksFor(t *testing.T, s *portaltest.Server, approval string) {
	t.Helper()
	s.Catalog.Change("lab/vpc", func(e *template.Entry) {
		changed := *e.Template
		changed.Approval = approval
		digest := must.Get(changed.Digest())(t)
		e.Template, e.Digest = &changed, digest
	})
}

// TestApproverSees shows an approver all that an approval covers, and the output of the tool;
// secrets stay hidden, and outputs are for the owner only.
//
// Shows: platform 9
func TestApproverSees(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	asksFor(t, s, "request")
	instance := create(t, s, all["anna"], `{"template":"lab/vpc","parameters":{"secret":"hunter2","size":"small"},"reason":"a course"}`, 202)
	path := "instances/" + instance.ID
	see := func(who string) api.Instance {
		t.Helper()
		var seen api.Instance
		s.Want(t, 200, &seen, all[who], "GET", path, "")
		return seen
	}
	approve := func() {
		t.Helper()
		s.Want(t, 200, nil, all["approver"], "POST", path+"/approve", `{"plan":"`+see("approver").Plan+`"}`)
	}
	text := func(v string) json.RawMessage { return json.RawMessage(v) }
	p := see("approver").Pending
	if p == nil || p.What != api.PendingLaunch || p.By.Subject != "anna" || p.Reason != "a course" || p.Was != nil || p.Source.Digest != "sha256:1" || time.Duration(p.TTL) != 8*time.Hour {
		t.Fatalf("launch: %+v", p)
	}
	if diff := cmp.Diff([]api.ValueChange{{Name: "secret", New: text(`"(sensitive)"`), Changed: true}, {Name: "size", New: text(`"small"`), Changed: true}}, p.Values); diff != "" {
		t.Errorf("values:\n%s", diff)
	}
	if see("reader").Pending != nil {
		t.Error("a reader sees what is asked for")
	}
	approve()
	s.Store.Finish(t, instance.ID, done())

	s.Want(t, 202, nil, all["anna"], "POST", path+"/update", `{"parameters":{"size":"large"},"version":"1.1.0","reason":"more load"}`)
	seen := see("approver")
	p = seen.Pending
	if seen.Phase != "ready" || p == nil || p.What != api.PendingUpdate || p.Reason != "more load" || p.Was.Version != "1.0.0" || p.Source.Version != "1.1.0" || p.Source.Digest != "sha256:2" || seen.Outputs != nil {
		t.Fatalf("update: %s %+v", seen.Phase, p)
	}
	want := []api.ValueChange{{Name: "secret", Old: text(`"(sensitive)"`), New: text(`"(sensitive)"`)}, {Name: "size", Old: text(`"small"`), New: text(`"large"`), Changed: true}}
	if diff := cmp.Diff(want, p.Values); diff != "" {
		t.Errorf("values:\n%s", diff)
	}
	var list api.Instances
	s.Want(t, 200, &list, all["approver"], "GET", "instances?phase=approval", "")
	if list.Count != 1 || list.Instances[0].Pending.By.Subject != "anna" || list.Instances[0].Pending.Values != nil {
		t.Errorf("%+v", list)
	}
	s.Want(t, 422, nil, all["anna"], "POST", path+"/extend", `{"reason":"line\tline"}`)
	approve()
	s.Results.Append("the tool said this")
	s.Want(t, 200, nil, all["approver"], "GET", path+"/runs/2/log", "")
	s.Store.Finish(t, instance.ID, done())

	s.Want(t, 202, nil, all["anna"], "POST", path+"/extend", `{"reason":"the course is longer"}`)
	if p = see("approver").Pending; p.What != api.PendingExtend || p.Until.Sub(p.Ends) != 2*time.Hour || p.Reason != "the course is longer" {
		t.Errorf("extend: %+v", p)
	}
	approve()
	if i := see("anna"); i.Extends != 1 || i.Pending != nil || i.Plan != "" {
		t.Errorf("extended: %+v", i)
	}
	var run api.Run
	s.Want(t, 200, &run, all["approver"], "GET", path+"/runs/2", "")
	if run.By.Subject != "anna" || run.Approved.Subject != "approver" || run.Reason != "more load" {
		t.Errorf("run: %+v", run)
	}
}

// TestApproverSeesThePlan shows the new values of an update whose plan waits, not the old
// ones.
//
// Shows: platform 9
func TestApproverSeesThePlan(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	asksFor(t, s, "plan")
	instance := create(t, s, all["anna"], `{"template":"lab/vpc"}`, 201)
	path := "instances/" + instance.ID
	for n, body := range []string{"", `{"parameters":{"size":"large"}}`} {
		if body != "" {
			s.Want(t, 200, nil, all["anna"], "POST", path+"/update", body)
		}
		s.Store.Finish(t, instance.ID, lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:plan", Counts: &lifecycle.Counts{Add: 1}, Resources: -1})
		var seen api.Instance
		s.Want(t, 200, &seen, all["approver"], "GET", path, "")
		p := seen.Pending
		if p == nil || p.What != api.PendingPlan || p.Run != n+1 || p.By.Subject != "anna" {
			t.Fatalf("%+v", p)
		}
		if n == 1 && (len(p.Values) != 2 || string(p.Values[1].New) != `"large"` || !p.Values[1].Changed) {
			t.Errorf("values %+v", p.Values)
		}
		s.Want(t, 200, nil, all["approver"], "POST", path+"/approve", `{"plan":"sha256:plan"}`)
		s.Store.Finish(t, instance.ID, done())
	}
}
