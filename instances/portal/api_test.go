// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/states"
)

// TestSeen shows what each caller may see of an instance, field by field.
//
// Shows: platform 16
func TestSeen(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	id := ready(t, s, all["anna"], `{"template":"lab/vpc","parameters":{"secret":"hunter2","size":"large"}}`).ID
	for who, want := range map[string][]string{
		"anna": {"connection?", "outputs", "parameters", "plan?"}, "admin": {"outputs", "parameters"}, "approver": {"parameters"}, "reader": nil,
	} {
		status, _, body := s.Ask(t, all[who], "GET", "instances/"+id, "")
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(body, &doc); status != 200 || err != nil {
			t.Fatalf("%s: %d %s", who, status, body)
		}
		for _, field := range []string{"outputs", "parameters"} {
			if _, has := doc[field]; has != slices.Contains(want, field) {
				t.Errorf("%s: %s is shown: %t", who, field, has)
			}
		}
		if strings.Contains(string(body), "hunter2") {
			t.Errorf("%s sees a secret: %s", who, body)
		}
	}
	var instance api.Instance
	s.Want(t, 200, &instance, all["anna"], "GET", "instances/"+id, "")
	want := map[string]json.RawMessage{"secret": json.RawMessage(`"(sensitive)"`), "size": json.RawMessage(`"large"`)}
	if diff := cmp.Diff(want, instance.Parameters); diff != "" {
		t.Errorf("parameters:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]json.RawMessage{"url": json.RawMessage(`"https://x.example"`), "password": json.RawMessage(`"(sensitive)"`)}, instance.Outputs); diff != "" {
		t.Errorf("outputs:\n%s", diff)
	}
	s.Catalog.Remove("lab/vpc")
	s.Want(t, 200, &instance, all["anna"], "GET", "instances/"+id, "")
	if diff := cmp.Diff(want, instance.Parameters); diff != "" {
		t.Errorf("parameters without the template:\n%s", diff)
	}
	if audit := s.Audit.String(); strings.Contains(audit, "hunter2") || !strings.Contains(audit, `"action":"create"`) {
		t.Errorf("audit: %s", audit)
	}
}

// TestShowSensitive shows a secret only to the owner, and records that without the secret.
//
// Shows: platform-attacks 15
// Shows: instances 6
func TestShowSensitive(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	id := ready(t, s, all["anna"], `{"template":"lab/vpc"}`).ID
	path := "instances/" + id + "/outputs/reveal"
	s.Want(t, 404, nil, all["anna"], "POST", path, `{"name":"password"}`)
	s.Results.SetOutputs(map[string]states.Output{"password": {Value: json.RawMessage(`"hunter2"`), Sensitive: true}, "other": {Value: json.RawMessage(`1`)}})
	var got api.ShownOutput
	s.Want(t, 200, &got, all["anna"], "POST", path, `{"name":"password"}`)
	if string(got.Value) != `"hunter2"` || !got.Sensitive {
		t.Errorf("%+v", got)
	}
	s.Want(t, 422, nil, all["anna"], "POST", path, `{"name":"other"}`) // not listed by the template
	s.Want(t, 404, nil, all["anna"], "POST", path, `{"name":"url"}`)   // not in the state
	if audit := s.Audit.String(); strings.Contains(audit, "hunter2") || strings.Count(audit, `"action":"reveal"`) != 3 || !strings.Contains(audit, `"version":"password"`) {
		t.Errorf("audit: %s", audit)
	}
}

// TestGroups shares instances among the members of a group.
//
// Shows: platform 3 | owned by a user, a group, a claim | `owner`, `groups`
// Shows: platform-attacks 17 | groups that were read too long ago; an approver who is the requester
// Shows: instances 6
func TestGroups(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	var refused api.Error
	s.Want(t, 422, &refused, all["carla"], "POST", "instances", `{"template":"lab/team"}`)
	if !strings.Contains(refused.Fields["/owner"], "group:team-a, group:team-b") || strings.Contains(refused.Fields["/owner"], "elsewhere") {
		t.Errorf("%+v", refused)
	}
	s.Want(t, 422, nil, all["carla"], "POST", "instances", `{"template":"lab/team","owner":"group:elsewhere"}`)
	s.Want(t, 403, nil, all["anna"], "POST", "instances", `{"template":"lab/team"}`)
	instance := create(t, s, all["ben"], `{"template":"lab/team"}`, 201) // only one group fits
	if instance.Owner == nil || instance.Owner.Kind != "group" || instance.Owner.ID != "team-a" {
		t.Errorf("%+v", instance.Owner)
	}
	s.Want(t, 200, nil, all["carla"], "GET", "instances/"+instance.ID, "")
	s.Want(t, 404, nil, all["anna"], "GET", "instances/"+instance.ID, "")
	var list api.Instances
	s.Want(t, 200, &list, all["carla"], "GET", "instances?owner=mine", "")
	if list.Count != 1 || list.Shared != 1 || list.Used != 0 {
		t.Errorf("%+v", list)
	}
	s.Want(t, 200, &list, all["carla"], "GET", "instances?owner=me", "")
	if list.Count != 0 {
		t.Errorf("%+v", list)
	}
	// An issuer's statement of groups from a day ago does not count.
	old := s.Issuer.Sign(t, map[string]any{
		"iss": s.Issuer.URL, "aud": "okara", "sub": "ben", "groups": []string{"use", "team-a"}, "iat": time.Now().Add(-25 * time.Hour).Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	s.Want(t, 401, nil, old, "GET", "instances/"+instance.ID, "")
	s.Want(t, 401, nil, old, "POST", "instances", `{"template":"lab/team"}`)
	s.Want(t, 201, nil, old, "POST", "instances", `{"template":"lab/vpc"}`) // users need no recent login
	// A list that might omit group instances is refused; one of the caller's own is complete.
	for path, want := range map[string]int{
		"instances": 401, "instances?owner=mine": 401, "instances?owner=group:team-a": 401, "run/lab/team/status": 401,
		"instances?owner=me": 200, "instances?template=lab/vpc": 200, "run/lab/vpc/status": 200,
	} {
		s.Want(t, want, nil, old, "GET", path, "")
	}
	elsewhere := s.Issuer.Sign(t, map[string]any{
		"iss": s.Issuer.URL, "aud": "okara", "sub": "dora", "groups": []string{"use", "team-b"}, "iat": time.Now().Add(-25 * time.Hour).Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	s.Want(t, 404, nil, elsewhere, "GET", "instances/"+instance.ID, "")
	s.Want(t, 200, &list, elsewhere, "GET", "instances", "")
	if list.Count != 0 {
		t.Errorf("who never was in the group sees %+v", list)
	}
}

// TestIdempotent repeats requests: each is done once for its caller and route, even if its
// answer is lost.
//
// Shows: crash K2
// Shows: platform-attacks 4 | an idempotency key of another caller, route, body or hour
func TestIdempotent(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	key := []string{api.IdempotencyKey, "k1"}
	var instance, again api.Instance
	s.Store.Break(nil, true)
	status, header, body := s.Ask(t, all["anna"], "POST", "instances", `{"template":"lab/vpc"}`, key...)
	if status != 503 || header.Get("Retry-After") != "2" || !strings.Contains(string(body), "retry with key k1, it is applied once") {
		t.Errorf("%d %v %s", status, header, body)
	}
	s.Store.Break(nil, false)
	s.Want(t, 201, &instance, all["anna"], "POST", "instances", `{"template":"lab/vpc"}`, key...)
	before := s.Store.Commits()
	s.Want(t, 201, &again, all["anna"], "POST", "instances", `{"template":"lab/vpc"}`, key...)
	if instance.ID != again.ID || s.Store.Commits() != before {
		t.Errorf("%s, then %s", instance.ID, again.ID)
	}
	s.Want(t, 422, nil, all["anna"], "POST", "instances", `{"template":"lab/vpc","name":"x"}`, key...)
	s.Want(t, 422, nil, all["anna"], "POST", "instances?x=1", `{"template":"lab/vpc"}`, key...)
	s.Want(t, 200, &again, all["anna"], "POST", "run/lab/vpc", "{}", key...) // the same key on another route is a different key
	if instance.ID != again.ID {
		t.Errorf("the one instance of hers is %s, and then %s", instance.ID, again.ID)
	}
	s.Want(t, 201, &again, all["ben"], "POST", "instances", `{"template":"lab/vpc"}`, key...)
	if instance.ID == again.ID {
		t.Error("the key of somebody else found his instance")
	}
	s.Catalog.Remove("lab/vpc") // the answer does not depend on the present state
	s.Want(t, 201, &again, all["anna"], "POST", "instances", `{"template":"lab/vpc"}`, key...)
	if instance.ID != again.ID {
		t.Errorf("%s, then %s", instance.ID, again.ID)
	}
	s.Store.Finish(t, instance.ID, done())
	first, second := api.Instance{}, api.Instance{}
	s.Want(t, 200, &first, all["anna"], "POST", "instances/"+instance.ID+"/extend", "", api.IdempotencyKey, "k2")
	s.Want(t, 200, &second, all["anna"], "POST", "instances/"+instance.ID+"/extend", "", api.IdempotencyKey, "k2")
	if first.Extends != 1 || second.Extends != 1 {
		t.Errorf("extended %d, then %d times", first.Extends, second.Extends)
	}
	s.Want(t, 400, nil, all["anna"], "POST", "instances", `{}`, api.IdempotencyKey, strings.Repeat("x", 200))
	s.Want(t, 400, nil, all["anna"], "POST", "instances", `{}`, api.IdempotencyKey, "a b")
}

// TestErrors checks the status and reason of each refusal.
//
// Shows: platform 10
func TestErrors(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	vpc := ready(t, s, all["anna"], `{"template":"lab/vpc"}`).ID
	endless := ready(t, s, all["anna"], `{"template":"lab/one"}`).ID
	asked := create(t, s, all["anna"], `{"template":"lab/asked"}`, 202).ID
	protected := ready(t, s, all["anna"], `{"template":"lab/vpc"}`).ID
	s.Want(t, 200, nil, all["anna"], "POST", "instances/"+protected+"/protect", "")
	s.Want(t, 200, nil, all["admin"], "POST", "templates/lab/team/pause", `{"reason":"moving"}`)
	tests := []struct {
		name, who, method, path, body string
		status                        int
		reason, text                  string
	}{
		{"no end", "anna", "POST", "instances/" + endless + "/extend", "", 400, "no_end", ""},
		{"phase", "anna", "POST", "instances/" + vpc + "/retry", "", 409, "phase", vpc},
		{"stale", "approver", "POST", "instances/" + asked + "/approve", `{"plan":"request@sha256:0"}`, 409, "stale_plan", "the plan changed since you reviewed it"},
		{"no plan", "approver", "POST", "instances/" + asked + "/approve", `{}`, 422, "invalid", "plan"},
		{"protected", "anna", "DELETE", "instances/" + protected, "", 409, "protected", "protected"},
		{"paused", "ben", "POST", "instances", `{"template":"lab/team"}`, 409, "paused", "moving"},
		{"empty pool", "anna", "POST", "instances", `{"template":"lab/pool"}`, 409, "pool_empty", "empty"},
		{"another name", "anna", "POST", "instances", `{"template":"lab/one","name":"second"}`, 409, "exists", "its name is different"},
		{"parameter", "anna", "POST", "instances", `{"template":"lab/vpc","parameters":{"size":"huge"}}`, 422, "invalid", "size"},
		{"unknown parameter", "anna", "POST", "instances", `{"template":"lab/vpc","parameters":{"x":1}}`, 422, "invalid", "x"},
		{"name", "anna", "POST", "instances", `{"template":"lab/vpc","name":"a\u0007"}`, 422, "invalid", "name"},
		{"ttl", "anna", "POST", "instances", `{"template":"lab/vpc","ttl":"long"}`, 422, "invalid", "is not a duration"},
		{"ttl beyond the end", "anna", "POST", "instances", `{"template":"lab/vpc","ttl":"100h"}`, 422, "invalid", ""},
		{"version", "anna", "POST", "instances", `{"template":"lab/vpc","version":"9.9.9"}`, 422, "invalid", ""},
		{"version of a pool", "anna", "POST", "instances", `{"template":"lab/pool","version":"1.0.0"}`, 422, "invalid", "version: instances of a pool"},
		{"owner", "anna", "POST", "instances", `{"template":"lab/vpc","owner":"user:ben"}`, 422, "invalid", "user:anna"},
		{"force", "anna", "POST", "instances", `{"template":"lab/vpc","force":true}`, 403, "denied", "admin"},
		{"reason", "approver", "POST", "instances/" + asked + "/reject", `{}`, 422, "invalid", "required, up to"},
		{"reason with a tab", "approver", "POST", "instances/" + asked + "/reject", `{"reason":"no\treally"}`, 422, "invalid", "other than line breaks"},
		{"long reason", "approver", "POST", "instances/" + asked + "/reject", `{"reason":"` + strings.Repeat("x", 257) + `"}`, 422, "invalid", "has 257 bytes"},
		{"unknown member", "anna", "POST", "instances", `{"template":"lab/vpc","colour":1}`, 422, "invalid", "colour"},
		{"wrong type", "anna", "POST", "instances", `{"template":1}`, 422, "invalid", "template"},
		{"no JSON", "anna", "POST", "instances", `{"template"`, 422, "invalid", "JSON"},
		{"two values", "anna", "POST", "instances", `{"template":"lab/vpc"} {}`, 422, "invalid", "more than one"},
		{"list", "anna", "POST", "instances", `[]`, 422, "invalid", ""},
		{"large", "anna", "POST", "instances", `{"template":"` + strings.Repeat("x", 64<<10) + `"}`, 413, "", "64 KiB"},
		{"limit", "anna", "GET", "instances?limit=0", "", 422, "invalid", "limit"},
		{"after", "anna", "GET", "instances?after=x", "", 422, "invalid", "after"},
		{"phase of a list", "anna", "GET", "instances?phase=done", "", 422, "invalid", "phase"},
		{"reserved", "admin", "GET", "templates/tfe/x", "", 404, "", ""},
		{"an id with a path", "admin", "GET", "instances/..%2fme", "", 404, "", ""},
	}
	for _, tt := range tests {
		before := s.Store.Commits()
		status, _, body := s.Ask(t, all[tt.who], tt.method, tt.path, tt.body)
		var doc api.Error
		if err := json.Unmarshal(body, &doc); status != tt.status || err != nil || doc.Reason != tt.reason || !strings.Contains(strings.Join(doc.Errors, " "), tt.text) {
			t.Errorf("%s: %d %s, want %d %s %s", tt.name, status, body, tt.status, tt.reason, tt.text)
		}
		if s.Store.Commits() != before {
			t.Errorf("%s changed something", tt.name)
		}
	}
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json-patch+json"} {
		s.Want(t, 415, nil, all["anna"], "POST", "instances", `{"template":"lab/vpc"}`, "Content-Type", contentType)
	}
	// Without any right the body is not read, so the status is not even 415.
	s.Want(t, 403, nil, all["stranger"], "POST", "instances", `{`, "Content-Type", "text/plain")
}

// TestApproval requires an approver other than the requester and the owner.
//
// Shows: platform-attacks 17
// Shows: instances 9
func TestApproval(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	both := s.Issuer.Token(t, "both", "use", "approve")
	all := tokens(t, s)
	for _, self := range []string{both, s.Issuer.Token(t, "boss", "use", "admin")} {
		instance := create(t, s, self, `{"template":"lab/asked"}`, 202)
		s.Want(t, 403, nil, self, "POST", "instances/"+instance.ID+"/approve", `{"plan":"`+instance.Plan+`"}`)
		var seen api.Instance
		s.Want(t, 200, &seen, all["approver"], "GET", "instances/"+instance.ID, "")
		if seen.Plan == "" || seen.Plan != instance.Plan {
			t.Errorf("the approver sees %q, the owner %q", seen.Plan, instance.Plan)
		}
		s.Want(t, 200, nil, all["approver"], "POST", "instances/"+instance.ID+"/approve", `{"plan":"`+seen.Plan+`"}`)
		if audit := s.Audit.String(); !strings.Contains(audit, `"action":"approve"`) || !strings.Contains(audit, `"digest":"`+seen.Plan+`"`) {
			t.Errorf("the audit does not name what was approved: %s", audit)
		}
	}
}

// TestPages goes through a list page by page, and finds each instance once.
//
// Shows: platform 16 | a catalogue, own instances, pagination | `GET templates`, `instances`
func TestPages(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	admin := s.Issuer.Token(t, "admin", "admin")
	want := map[string]bool{}
	for i := range 7 {
		instance := create(t, s, admin, `{"template":"other/vpc"}`, 201)
		want[instance.ID] = true
		if i%2 == 0 {
			s.Store.Advance(time.Minute)
		}
	}
	got, next := map[string]bool{}, ""
	for range 10 {
		var page api.Instances
		s.Want(t, 200, &page, admin, "GET", "instances?limit=2&after="+next, "")
		for _, instance := range page.Instances {
			if got[instance.ID] {
				t.Errorf("%s comes twice", instance.ID)
			}
			got[instance.ID] = true
		}
		must.Equal(t, "count", page.Count, 7)
		if next = page.Next; next == "" {
			break
		}
	}
	must.Match(t, "value", got, want)
	var admins api.AdminInstances
	s.Want(t, 200, &admins, admin, "GET", "admin/instances?limit=500", "")
	if admins.Phases["provisioning"] != 7 || len(admins.Instances.Instances) != 7 {
		t.Errorf("%+v", admins.Phases)
	}
	s.Catalog.Remove("other/vpc")
	var templates api.AdminTemplates
	s.Want(t, 200, &templates, admin, "GET", "admin/templates", "")
	i := slices.IndexFunc(templates.Templates, func(a api.AdminTemplate) bool { return a.Name == "other/vpc" })
	if i < 0 || !templates.Templates[i].Gone || templates.Templates[i].Live != 7 {
		t.Errorf("%+v", templates)
	}
}

// TestRate refuses a caller that makes too many changes, and no other caller.
//
// Shows: platform-attacks 14
func TestRate(t *testing.T) {
	now := time.Now()
	s := portaltest.NewServer(t, func(o *portal.Options, _ *access.Policy) {
		o.Rate, o.Now = 3, func() time.Time { return now }
	})
	all := tokens(t, s)
	for range 3 {
		s.Want(t, 201, nil, all["anna"], "POST", "instances", `{"template":"lab/vpc"}`)
	}
	status, header, body := s.Ask(t, all["anna"], "POST", "instances", `{"template":"lab/vpc"}`)
	if status != 429 || header.Get("Retry-After") != "20" || !strings.Contains(string(body), "more than 3 changes a minute") {
		t.Errorf("%d %v %s", status, header, body)
	}
	s.Want(t, 200, nil, all["anna"], "GET", "instances", "")
	s.Want(t, 201, nil, all["ben"], "POST", "instances", `{"template":"lab/vpc"}`)
	now = now.Add(21 * time.Second)
	s.Want(t, 403, nil, all["anna"], "POST", "instances", `{"template":"lab/vpc"}`) // the quota, not the rate
}

// TestAnonymous launches without a token where anonymous callers may.
func TestAnonymous(t *testing.T) {
	s := portaltest.NewServer(t, func(_ *portal.Options, p *access.Policy) { p.Anonymous = rights.AnonymousAll() })
	instance := create(t, s, "", `{"template":"lab/one"}`, 201)
	if instance.Owner == nil || instance.Owner.ID != "anonymous" || instance.CreatedBy == nil {
		t.Errorf("%+v", instance)
	}
	s.Want(t, 202, nil, "", "DELETE", "run/lab/one", "")
	only := portaltest.NewServer(t, func(_ *portal.Options, p *access.Policy) {
		p.Anonymous = []rights.Scope{{Action: rights.Read, Kind: "template", Glob: "lab/*"}}
	})
	var list api.Templates
	only.Want(t, 200, &list, "", "GET", "templates", "")
	if list.Count != 6 {
		t.Errorf("%+v", list)
	}
	only.Want(t, 401, nil, "", "GET", "instances", "")
	only.Want(t, 401, nil, "", "POST", "instances", `{"template":"lab/one"}`)
}
