// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/states"
)

// tokens returns tokens for every role for an instance of anna.
func tokens(t *testing.T, s *portaltest.Server) map[string]string {
	t.Helper()
	return map[string]string{
		"nobody":   "",
		"stranger": s.Issuer.Token(t, "stranger"),
		"anna":     s.Issuer.Token(t, "anna", "use"),
		"ben":      s.Issuer.Token(t, "ben", "use", "team-a"),
		"carla":    s.Issuer.Token(t, "carla", "use", "team-a", "team-b", "elsewhere"),
		"reader":   s.Issuer.Token(t, "reader", "read"),
		"approver": s.Issuer.Token(t, "approver", "approve"),
		"admin":    s.Issuer.Token(t, "admin", "admin"),
	}
}

// create launches a template, and fails the test if the status is not the wanted one.
func create(t *testing.T, s *portaltest.Server, token, body string, want int) api.Instance {
	t.Helper()
	var instance api.Instance
	s.Want(t, want, &instance, token, "POST", "instances", body)
	return instance
}

func done() lifecycle.Result {
	return lifecycle.Result{
		Outcome: lifecycle.Done, Resources: 1, State: true, Counts: &lifecycle.Counts{Add: 1}, Outputs: map[string]json.RawMessage{"url": json.RawMessage(`"https://x.example"`)},
	}
}

// ready launches a template and lets its run succeed.
func ready(t *testing.T, s *portaltest.Server, token, body string) api.Instance {
	t.Helper()
	instance := create(t, s, token, body, 201)
	s.Store.Finish(t, instance.ID, done())
	return instance
}

// asked is a request, and the status that each caller gets.
type asked struct {
	method, path, body                                   string
	nobody, stranger, anna, ben, reader, approver, admin int
}

// vpcs is a cluster with one kind.
type vpcs struct{}

func (vpcs) Kinds() []api.Kind { return []api.Kind{{Name: "vpcs", Kind: "VPC"}} }

// TestMatrix requests every route as every caller. Each row has the expected statuses.
//
// Shows: platform 17 | run, status, extend, delete by name | `run/{ns}/{name}`
// Shows: platform 18 | the caller's identity, lists for administrators | `me`, `admin/…`
// Shows: platform-mistakes 6 | GET creates objects; tested: each route as each caller
// Shows: instances 6 | permissions for every route and every kind of caller
func TestMatrix(t *testing.T) {
	rows := []asked{
		{"GET", "templates", "", 401, 200, 200, 200, 200, 200, 200},
		{"GET", "templates/lab/vpc", "", 401, 404, 200, 200, 404, 404, 200},
		{"GET", "templates/lab/none", "", 401, 404, 404, 404, 404, 404, 404},
		{"GET", "templates/other/vpc", "", 401, 404, 404, 404, 404, 404, 200},
		{"GET", "kinds/vpcs", "", 401, 404, 404, 404, 404, 404, 200},
		{"GET", "kinds/none", "", 401, 404, 404, 404, 404, 404, 404},
		{"POST", "templates/lab/vpc/pause", "{}", 401, 404, 403, 403, 404, 404, 200},
		{"POST", "templates/lab/vpc/resume", "{}", 401, 404, 403, 403, 404, 404, 200},
		{"POST", "instances", `{"template":"lab/vpc"}`, 401, 403, 201, 201, 403, 403, 201},
		{"POST", "instances", `{"template":"other/vpc"}`, 401, 403, 404, 404, 403, 403, 201},
		{"GET", "instances", "", 401, 200, 200, 200, 200, 200, 200},
		{"GET", "instances/{id}", "", 401, 404, 200, 404, 200, 200, 200},
		{"GET", "instances/aaaaaaaaaa", "", 401, 404, 404, 404, 404, 404, 404},
		{"POST", "instances/{id}/extend", "{}", 401, 404, 200, 404, 403, 403, 200},
		{"POST", "instances/{id}/update", `{"name":"x"}`, 401, 404, 200, 404, 403, 403, 200},
		{"POST", "instances/{id}/update", `{"parameters":{"size":"large"}}`, 401, 404, 200, 404, 403, 403, 200},
		{"POST", "instances/{id}/approve", `{"plan":"sha256:x"}`, 401, 404, 403, 404, 403, 409, 409},
		{"POST", "instances/{id}/reject", `{"reason":"x"}`, 401, 404, 403, 404, 403, 409, 409},
		{"POST", "instances/{id}/retry", "", 401, 404, 409, 404, 403, 403, 409},
		{"POST", "instances/{id}/cancel", "", 401, 404, 409, 404, 403, 403, 409},
		{"POST", "instances/{id}/protect", "", 401, 404, 200, 404, 403, 403, 200},
		{"POST", "instances/{id}/unprotect", "", 401, 404, 200, 404, 403, 403, 200},
		{"POST", "instances/{id}/stop", "", 401, 404, 409, 404, 403, 403, 409}, // its template has no schedule
		{"POST", "instances/{id}/start", "", 401, 404, 409, 404, 403, 403, 409},
		{"POST", "instances/{id}/transfer", `{"to":"user:anna"}`, 401, 404, 200, 404, 403, 403, 200},
		{"POST", "instances/{id}/take", "", 401, 404, 409, 404, 403, 403, 403},
		{"POST", "instances/{id}/decline", "", 401, 404, 409, 404, 403, 403, 403},
		{"POST", "instances/{id}/orphan", `{"reason":"x"}`, 401, 404, 403, 404, 403, 403, 200},
		{"GET", "instances/{id}/runs", "", 401, 404, 200, 404, 200, 200, 200},
		{"GET", "instances/{id}/runs/1", "", 401, 404, 200, 404, 200, 200, 200},
		{"GET", "instances/{id}/runs/9", "", 401, 404, 404, 404, 404, 404, 404},
		{"GET", "instances/{id}/runs/x", "", 401, 404, 404, 404, 404, 404, 404},
		{"GET", "instances/{id}/runs/1/plan", "", 401, 404, 200, 404, 403, 200, 200},
		{"GET", "instances/{id}/runs/1/log", "", 401, 404, 200, 404, 403, 200, 200},
		{"GET", "instances/{id}/outputs", "", 401, 404, 200, 404, 403, 403, 200},
		{"GET", "instances/{id}/resources", "", 401, 404, 200, 404, 403, 200, 200},
		{"POST", "instances/{id}/outputs/reveal", `{"name":"password"}`, 401, 404, 200, 404, 403, 403, 403},
		{"DELETE", "instances/{id}", "", 401, 404, 202, 404, 403, 403, 202},
		{"POST", "run/lab/vpc", "{}", 401, 404, 200, 201, 404, 404, 201},
		{"GET", "run/lab/vpc/status", "", 401, 404, 200, 404, 404, 404, 404},
		{"POST", "run/lab/vpc/extend", "{}", 401, 404, 200, 404, 404, 404, 404},
		{"DELETE", "run/lab/vpc", "", 401, 404, 202, 404, 404, 404, 404},
		{"GET", "me", "", 401, 200, 200, 200, 200, 200, 200},
		{"GET", "admin/instances", "", 401, 403, 403, 403, 403, 403, 200},
		{"GET", "admin/templates", "", 401, 403, 403, 403, 403, 403, 200},
		{"POST", "admin/clock", "", 401, 403, 403, 403, 403, 403, 200},
		{"POST", "admin/adopt", `{"repository":"acme/instances/lab/vpc/aaaaaaaaaa"}`, 401, 403, 403, 403, 403, 403, 501}, // this server has nothing to adopt from
		{"GET", "events", "", 401, 200, 200, 200, 200, 200, 200},
		{"GET", "nothing", "", 404, 404, 404, 404, 404, 404, 404},
	}
	wantRoutes(t, rows)
	for _, row := range rows {
		want := map[string]int{
			"nobody": row.nobody, "stranger": row.stranger, "anna": row.anna, "ben": row.ben, "reader": row.reader, "approver": row.approver, "admin": row.admin,
		}
		got := map[string]int{}
		for who := range want {
			s := portaltest.NewServer(t, func(o *portal.Options, _ *access.Policy) { o.Kinds = vpcs{} })
			s.Results.Append("the log\n")
			s.Results.SetOutputs(map[string]states.Output{"password": {Value: json.RawMessage(`"secret"`), Sensitive: true}})
			all := tokens(t, s)
			id := ready(t, s, all["anna"], `{"template":"lab/vpc"}`).ID
			before := s.Store.Commits()
			var status int
			var header http.Header
			var body []byte
			if row.path == "events" {
				status, header, body = askStream(t, s, all[who], row.path)
			} else {
				status, header, body = s.Ask(t, all[who], row.method, strings.ReplaceAll(row.path, "{id}", id), row.body)
			}
			got[who] = status
			if header.Get("Cache-Control") != "no-store" && row.path != "nothing" {
				t.Errorf("%s %s as %s: Cache-Control %q", row.method, row.path, who, header.Get("Cache-Control"))
			}
			if row.method == "GET" && s.Store.Commits() != before {
				t.Errorf("%s %s as %s changed something", row.method, row.path, who)
			}
			if status >= 400 {
				var doc api.Error
				if err := json.Unmarshal(body, &doc); err != nil || len(doc.Errors) == 0 {
					t.Errorf("%s %s as %s: %s is no error document", row.method, row.path, who, body)
				}
				if strings.Contains(string(body), id) && who != "anna" && status == 404 && !strings.Contains(row.path, "{id}") {
					t.Errorf("%s %s as %s: %s names what is not there for him", row.method, row.path, who, body)
				}
			}
			if status < 400 && strings.Contains(string(body), "secret") && !strings.HasSuffix(row.path, "reveal") && strings.Contains(string(body), `"s"`) {
				t.Errorf("%s %s as %s shows a secret: %s", row.method, row.path, who, body)
			}
			s.Close()
			s.Issuer.Close()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s %s (-want +got):\n%s", row.method, row.path, row.body, diff)
		}
	}
}

// wantRoutes checks that each route of the API has a row.
func wantRoutes(t *testing.T, rows []asked) {
	t.Helper()
	source := must.Get(os.ReadFile("server.go"))(t)
	mux := http.NewServeMux()
	missing := map[string]bool{}
	methods := map[string]string{"get": "GET", "stream": "GET", "post": "POST", "destroy": "DELETE"}
	for _, m := range regexp.MustCompile(`(?m)^\t(get|stream|post|destroy)\("([^"]+)"`).FindAllSubmatch(source, -1) {
		pattern := methods[string(m[1])] + " /" + string(m[2])
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
		missing[pattern] = true
	}
	if len(missing) < 30 {
		t.Fatalf("server.go has only %d routes", len(missing))
	}
	for _, row := range rows {
		_, pattern := mux.Handler(httptest.NewRequest(row.method, "/"+strings.ReplaceAll(row.path, "{id}", "a"), nil))
		delete(missing, pattern)
	}
	for pattern := range missing {
		t.Errorf("no caller asks for %s", pattern)
	}
}

// askStream is Ask for a stream; of a started stream it reads only the header.
func askStream(t *testing.T, s *portaltest.Server, token, path string) (int, http.Header, []byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v1/"+path, nil))(t)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp := must.Get(s.Client().Do(r))(t)
	defer resp.Body.Close()
	if resp.StatusCode == 200 {
		return resp.StatusCode, resp.Header, nil
	}
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, resp.Header, b
}
