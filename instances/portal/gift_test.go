// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// namesake is the token of a different user, whom another issuer calls ben.
const namesake = "oks_ben_bbbbbbbbbbbbbbbbbbbbbbbb"

// offerOf launches anna's instance and offers it.
func offerOf(t *testing.T, s *portaltest.Server, anna, to string) string {
	t.Helper()
	s.Results.Append("what the tool said\n")
	s.Results.SetOutputs(map[string]states.Output{"password": {Value: json.RawMessage(`"correct horse"`), Sensitive: true}})
	s.Results.SetResources("aws_vpc.hers")
	id := ready(t, s, anna, `{"template":"lab/vpc","name":"hers","parameters":{"size":"large","secret":"hunter2hunter2"}}`).ID
	var instance api.Instance
	s.Want(t, 422, nil, anna, "POST", "instances/"+id+"/transfer", `{"to":"user:nobody"}`)
	s.Want(t, 200, nil, s.Issuer.Token(t, strings.TrimPrefix(to, "user:"), "use"), "GET", "instances", "")
	s.Want(t, 202, &instance, anna, "POST", "instances/"+id+"/transfer", `{"to":"name of `+strings.TrimPrefix(to, "user:")+`"}`)
	if instance.Owner.ID != "anna" || instance.Offer == nil || instance.Offer.To.ID != strings.TrimPrefix(to, "user:") || instance.Offer.By.Subject != "anna" || instance.Offer.Until.Sub(instance.Offer.At) != 7*24*time.Hour {
		t.Fatalf("%+v, %+v", instance, instance.Offer)
	}
	return id
}

// TestOffer shows an offer only to its recipient, with no more of the instance than the
// recipient needs, and transfers the instance when the recipient takes it.
//
// Shows: platform 4
func TestOffer(t *testing.T) {
	s := portaltest.NewServer(t, func(_ *portal.Options, p *access.Policy) {
		p.Tokens = []statictoken.Token{{ID: "ben", Hash: sha256.Sum256([]byte(namesake)), Scopes: webtest.Rule(t, "use", "use:instance:lab/*").Allow}}
	})
	all := tokens(t, s)
	all["namesake"] = namesake
	id := offerOf(t, s, all["anna"], "user:ben")
	at := "instances/" + id
	for _, who := range []string{"stranger", "carla", "namesake"} {
		for _, verb := range []string{"", "/take", "/decline"} {
			s.Want(t, 404, nil, all[who], map[bool]string{true: "GET", false: "POST"}[verb == ""], at+verb, "")
		}
		if status, _, b := s.Ask(t, all[who], "GET", "instances?owner=offered", ""); status != 200 || strings.Contains(string(b), id) {
			t.Errorf("%s is offered it: %d %s", who, status, b)
		}
	}
	for _, who := range []string{"reader", "approver", "admin"} {
		s.Want(t, 403, nil, all[who], "POST", at+"/take", "")
		s.Want(t, 403, nil, all[who], "POST", at+"/decline", "")
	}
	seesLittle(t, s, all["ben"], id)

	before := *s.Store.Record(t, id)
	var instance, again api.Instance
	// The server reads what the owner until then wants once the instance is another's.
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/v1/"+at+"/extend", io.LimitReader(readerFunc(func(p []byte) (int, error) {
		s.Want(t, 200, &instance, all["ben"], "POST", at+"/take", "", api.IdempotencyKey, "k1")
		return copy(p, "{}"), nil
	}), 2)))(t)
	r.ContentLength = 2
	r.Header = http.Header{"Authorization": {"Bearer " + all["anna"]}, "Content-Type": {"application/json"}, "Expect": {"100-continue"}}
	waits := &http.Transport{ExpectContinueTimeout: time.Hour}
	defer waits.CloseIdleConnections()
	late := must.Get(waits.RoundTrip(r))(t)
	_ = late.Body.Close()
	if late.StatusCode != http.StatusForbidden && late.StatusCode != http.StatusNotFound { // if it took long
		t.Errorf("the owner before extends it: %d", late.StatusCode)
	}
	s.Want(t, 200, &again, all["ben"], "POST", at+"/take", "", api.IdempotencyKey, "k1")
	if instance.Owner.ID != "ben" || instance.Owner.Label != "Name of ben" || instance.Role != "owner" || instance.Offer != nil || string(instance.Parameters["size"]) != `"large"` || instance.ID != again.ID {
		t.Errorf("%+v", instance)
	}
	if after := s.Store.Record(t, id); !after.ExpiresAt.Equal(before.ExpiresAt) || after.Extends != before.Extends {
		t.Errorf("its end moved: %v, %v", before.ExpiresAt, after.ExpiresAt)
	}
	s.Want(t, 404, nil, all["anna"], "GET", at, "")
	s.Want(t, 200, nil, all["ben"], "GET", at+"/outputs", "")
	for _, text := range []string{`"action":"offer"`, `"action":"take"`} {
		if !strings.Contains(s.Audit.String(), text) {
			t.Errorf("the audit lacks %s", text)
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// seesLittle checks that an offer shows little of its instance.
func seesLittle(t *testing.T, s *portaltest.Server, token, id string) {
	t.Helper()
	at := "instances/" + id
	var instance api.Instance
	_, _, body := s.Ask(t, token, "GET", at, "")
	must.Succeed(t, json.Unmarshal(body, &instance))
	if diff := cmp.Diff([]string{api.ActTake, api.ActDecline}, instance.Actions); diff != "" || instance.Role != "receiver" || instance.Template != "lab/vpc" || instance.Source.Version == "" || instance.ExpiresAt.IsZero() || instance.Cost == nil || instance.Owner.ID != "anna" || instance.Offer.Refused != "" {
		t.Errorf("it shows too little: %s\n%s", body, diff)
	}
	var list api.Instances
	_, _, listed := s.Ask(t, token, "GET", "instances?owner=offered", "")
	if err := json.Unmarshal(listed, &list); err != nil || list.Count != 1 || list.Instances[0].ID != id || list.Used != 0 {
		t.Errorf("%v: %s", err, listed)
	}
	for _, secret := range []string{"hunter2", "large", "x.example", "correct horse", "what the tool", "aws_vpc", "sha256:", `"run`} {
		if strings.Contains(string(body)+string(listed), secret) {
			t.Errorf("it shows %q: %s\n%s", secret, body, listed)
		}
	}
	for _, path := range []string{"", "?owner=mine", "?owner=user:anna", "?phase=ready"} {
		if _, _, b := s.Ask(t, token, "GET", "instances"+path, ""); strings.Contains(string(b), id) {
			t.Errorf("instances%s lists it: %s", path, b)
		}
	}
	for _, path := range []string{"/runs", "/runs/1", "/runs/1/plan", "/runs/1/log", "/outputs", "/resources"} {
		s.Want(t, 404, nil, token, "GET", at+path, "")
	}
	s.Want(t, 404, nil, token, "POST", at+"/outputs/reveal", `{"name":"password"}`)
	for _, verb := range []string{"extend", "update", "approve", "reject", "retry", "cancel", "protect", "unprotect", "transfer", "orphan"} {
		s.Want(t, 404, nil, token, "POST", at+"/"+verb, "")
	}
	s.Want(t, 404, nil, token, "DELETE", at, "")
}

// TestOfferOfGroup offers to the members of a group, while their membership counts.
//
// Shows: platform 4
func TestOfferOfGroup(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	id := ready(t, s, all["ben"], `{"template":"lab/team"}`).ID
	seen := func(claims map[string]any) {
		maps.Copy(claims, map[string]any{"iss": s.Issuer.URL, "aud": "okara", "groups": []string{"use"}, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
		s.Want(t, 200, nil, s.Issuer.Sign(t, claims), "GET", "instances", "")
	}
	seen(map[string]any{"sub": "mallory", "name": "eve@example.com", "preferred_username": "eve@example.com", "email": "eve@example.com"})
	for _, to := range []string{"team-b", "", "eve@example.com"} { // unseen, none, and an address that nobody verified
		s.Want(t, 422, nil, all["ben"], "POST", "instances/"+id+"/transfer", `{"to":"`+to+`"}`)
	}
	seen(map[string]any{"sub": "eve", "email": "eve@example.com", "email_verified": true})
	hers := ready(t, s, all["anna"], `{"template":"lab/vpc","parameters":{"size":"large","secret":"hunter2hunter2"}}`).ID
	s.Want(t, 202, nil, all["anna"], "POST", "instances/"+hers+"/transfer", `{"to":"eve@example.com"}`)
	s.Want(t, 200, nil, s.Issuer.Token(t, "dora", "use", "team-b"), "GET", "instances", "")
	s.Want(t, 202, nil, all["ben"], "POST", "instances/"+id+"/transfer", `{"to":"team-b"}`)
	before := s.Issuer.Sign(t, map[string]any{
		"iss": s.Issuer.URL, "aud": "okara", "sub": "dora", "groups": []string{"use", "team-b"}, "iat": time.Now().Add(-25 * time.Hour).Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	for path, want := range map[string]int{"instances/" + id: 401, "instances?owner=offered": 401, "instances": 200} {
		s.Want(t, want, nil, before, "GET", path, "")
	}
	s.Want(t, 404, nil, all["anna"], "POST", "instances/"+id+"/take", "")
	var instance api.Instance
	s.Want(t, 200, &instance, s.Issuer.Token(t, "dora", "use", "team-b"), "POST", "instances/"+id+"/take", "")
	if instance.Owner.Kind != "group" || instance.Owner.ID != "team-b" {
		t.Errorf("%+v", instance.Owner)
	}
	s.Want(t, 404, nil, all["ben"], "GET", "instances/"+id, "")
}

// TestOfferReported sends the recipient the event of the offer, and no other event.
//
// Shows: platform 4
func TestOfferReported(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	ben, _ := streamOf(t, s, all["ben"], "events", "")
	id := offerOf(t, s, all["anna"], "user:ben")
	s.Store.Advance(time.Minute)
	s.Want(t, 200, nil, all["anna"], "POST", "instances/"+id+"/extend", "")
	mine := create(t, s, all["ben"], `{"template":"lab/vpc"}`, 201).ID
	var heard []string
	for range 2 {
		var e api.Event
		if f := <-ben; json.Unmarshal([]byte(f.data), &e) != nil || e.Detail != "" && e.Instance == id {
			t.Errorf("%+v", f)
		}
		heard = append(heard, e.Instance+" "+e.Action)
	}
	must.Match(t, "value", heard, []string{id + " offered", mine + " created"})
}

// TestNestedGroup: one rule decides which groups own.
func TestNestedGroup(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	s.Catalog.Change("lab/team", func(e *template.Entry) {
		changed := *e.Template
		changed.Groups = []string{"org/**"}
		e.Template = &changed
	})
	token := s.Issuer.Token(t, "dora", "use", "org/unit/team", "team-a")
	instance := create(t, s, token, `{"template":"lab/team"}`, 201)
	if instance.Owner == nil || instance.Owner.ID != "org/unit/team" {
		t.Errorf("%+v", instance.Owner)
	}
}

// organization returns the template of the workspaces of acme.
func organization() *template.Template {
	return &template.Template{Name: lifecycle.WorkspaceTemplate("acme"), Enabled: true, Executor: "local", Timeout: time.Hour, Credentials: []string{"aws"}}
}

// TestWorkspaceUnseen shows that only an admin of all instances finds the record of a
// workspace through the instances API, and may only view it.
//
// Shows: cloud 30
func TestWorkspaceUnseen(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	digest := must.Get(organization().Digest())(t)
	s.Store.Serve(t, lifecycle.OpenWorkspace{Template: organization(), Digest: digest, Workspace: "prod"})
	v := must.Get(s.Store.View(t.Context()))(t)
	id := v.Document.WorkspaceRecord("acme", "prod").ID
	s.Store.Serve(t, lifecycle.Enqueue{ID: id, Template: organization(), Digest: digest, Source: template.Source{Digest: "sha256:m", Archive: "sha256:a", Size: 1}})
	for _, who := range []string{"stranger", "anna", "ben", "reader", "approver"} {
		for _, path := range []string{"", "/runs", "/runs/1", "/runs/1/log", "/runs/1/plan", "/outputs"} {
			s.Want(t, 404, nil, all[who], "GET", "instances/"+id+path, "")
		}
		for _, verb := range []string{"extend", "update", "approve", "reject", "retry", "cancel", "protect", "unprotect", "transfer", "orphan"} {
			s.Want(t, 404, nil, all[who], "POST", "instances/"+id+"/"+verb, "{}")
		}
		s.Want(t, 404, nil, all[who], "DELETE", "instances/"+id, "")
		if status, _, body := s.Ask(t, all[who], "GET", "instances", ""); strings.Contains(string(body), id) {
			t.Errorf("%s has it in the list: %d %s", who, status, body)
		}
	}
	var instance api.Instance
	s.Want(t, 200, &instance, all["admin"], "GET", "instances/"+id, "")
	if instance.Template != "tfe/acme" {
		t.Errorf("the admin sees %+v", instance)
	}
	before := s.Store.Commits()
	for _, verb := range []string{"cancel", "retry", "approve"} {
		if status, _, body := s.Ask(t, all["admin"], "POST", "instances/"+id+"/"+verb, "{}"); status < 400 {
			t.Errorf("%s by an admin: %d %s", verb, status, body)
		}
	}
	for who, want := range map[string]int{"anna": 404, "admin": 404} {
		s.Want(t, want, nil, all[who], "POST", "run/tfe/acme", "{}")
		s.Want(t, want, nil, all[who], "POST", "instances", `{"template":"tfe/acme"}`)
	}
	if s.Store.Commits() != before {
		t.Error("something was changed")
	}
}
