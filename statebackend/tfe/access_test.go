// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
)

func TestPing(t *testing.T) {
	nobody := newTool(t, newServer(t, newRegistry(t), setup{})).as("")
	got := nobody.want(http.StatusNoContent, http.MethodGet, "ping", nil)
	if got.header.Get("TFP-API-Version") != "2.6" || got.header.Get("TFP-AppName") != "Terraform Enterprise" {
		t.Errorf("header %v", got.header)
	}
	if refused := nobody.want(http.StatusUnauthorized, http.MethodGet, "account/details", nil); refused.header.Get("WWW-Authenticate") == "" {
		t.Errorf("header %v", refused.header)
	}
	who := nobody.as("ci").want(http.StatusOK, http.MethodGet, "account/details", nil).item()
	if who.Type != "users" || who.Attributes["username"] != "ci" {
		t.Errorf("the account is %+v", who)
	}
}

func TestOrganizations(t *testing.T) {
	c := newScript(t, newServer(t, newRegistry(t), setup{split: []string{"split"}}))
	for caller, want := range map[string][]string{"admin": {"acme", "other"}, "reader": {"acme"}, "other": {"other"}} {
		got := c.as(caller).want(http.StatusOK, http.MethodGet, "organizations", nil).names()
		must.Match(t, caller, got, want)
	}
	if got := c.want(http.StatusOK, http.MethodGet, "organizations/acme", nil).item(); got.ID != "acme" {
		t.Errorf("the organization is %+v", got)
	}
	got := c.want(http.StatusOK, http.MethodGet, "organizations/acme/entitlement-set", nil).item().Attributes
	for name, can := range got {
		must.Equal(t, name+": is", can, (name == "state-storage"))
	}
	for _, name := range []string{"Acme", "a%2Fb", "a%20b", "-a", strings.Repeat("a", 200), "split.prod"} {
		c.as("admin").want(http.StatusNotFound, http.MethodGet, "organizations/"+name+"/entitlement-set", nil)
	}
	c.as("other").want(http.StatusForbidden, http.MethodGet, "organizations/acme/entitlement-set", nil)
}

// TestRightOnOneWorkspace gives a caller some workspaces of an organization: the others
// are hidden, and answers do not depend on whether they exist.
//
// Shows: cloud 21
func TestRightOnOneWorkspace(t *testing.T) {
	c := newTool(t, newServer(t, newRegistry(t), setup{}))
	c.create("dev-a")
	id := c.read(func() string { c.create("prod", "net"); return "prod" }())
	dev := c.as("dev")
	if names := dev.want(http.StatusOK, http.MethodGet, workspaces, nil).names(); !cmp.Equal(names, []string{"dev-a"}) {
		t.Errorf("listed: %q", names)
	}
	if meta := string(dev.want(http.StatusOK, http.MethodGet, workspaces, nil).doc().Meta); !strings.Contains(meta, `"total-count":1`) {
		t.Errorf("the count tells of others: %s", meta)
	}
	dev.want(http.StatusOK, http.MethodGet, "organizations/acme/entitlement-set", nil)
	dev.apply("dev-a", stateOf("a", 1))
	dev.create("dev-b")
	var texts []string
	for _, name := range []string{"prod", "none"} {
		texts = append(texts, strings.ReplaceAll(string(dev.want(http.StatusForbidden, http.MethodGet, workspaces+"/"+name, nil).body), name, "NAME"))
	}
	if texts[0] != texts[1] {
		t.Errorf("the answers differ: %s and %s", texts[0], texts[1])
	}
	for _, request := range requests(id) {
		method, path, _ := strings.Cut(request, " ")
		dev.want(http.StatusForbidden, method, path, nil)
	}
	dev.want(http.StatusForbidden, http.MethodPost, workspaces, newWorkspace("prod-b"))
}

// requests returns all requests that name a workspace in the path.
func requests(id string) []string {
	version := "sv-" + strings.TrimPrefix(strings.Split(id, ".")[0], "ws-")
	var list []string
	for _, line := range []string{
		"GET workspaces/%s", "PATCH workspaces/%s", "DELETE workspaces/%s", "POST workspaces/%s/actions/safe-delete",
		"POST workspaces/%s/actions/lock", "POST workspaces/%s/actions/unlock", "POST workspaces/%s/actions/force-unlock",
		"POST workspaces/%s/relationships/tags", "DELETE workspaces/%s/relationships/tags",
		"GET workspaces/%s/tag-bindings", "PATCH workspaces/%s/tag-bindings", "GET workspaces/%s/effective-tag-bindings",
		"GET workspaces/%s/vars", "GET workspaces/%s/all-vars", "GET workspaces/%s/current-state-version",
		"GET workspaces/%s/current-state-version-outputs", "POST workspaces/%s/state-versions", "PATCH workspaces/%s/state-versions",
	} {
		list = append(list, fmt.Sprintf(line, id))
	}
	return append(list,
		"GET "+workspaces+"/prod", "PATCH "+workspaces+"/prod", "DELETE "+workspaces+"/prod", "POST "+workspaces+"/prod/actions/safe-delete",
		"GET state-versions/"+version+".1", "GET state-versions/"+version+".1/download", "GET state-versions/"+version+".1/outputs",
		"GET state-versions?filter[organization][name]=acme&filter[workspace][name]=prod",
	)
}

// TestReader: a caller that may only read changes nothing.
//
// Shows: cloud 11
func TestReader(t *testing.T) {
	c := newTool(t, newServer(t, newRegistry(t), setup{}))
	c.create("prod")
	c.apply("prod", stateOf("a", 1))
	reader := c.as("reader")
	cmd := reader.begin("prod").read()
	must.Equal(t, "the state", cmd.state(), stateOf("a", 1))
	for _, request := range requests(cmd.id) {
		method, path, _ := strings.Cut(request, " ")
		if status := reader.do(method, path, nil).status; (status == http.StatusForbidden) != (method != http.MethodGet) {
			t.Errorf("%s: status %d", request, status)
		}
	}
	may := reader.want(http.StatusOK, http.MethodGet, "workspaces/"+cmd.id, nil).item().Attributes["permissions"].(object)
	if may["can-lock"] != false || may["can-read-state-versions"] != true {
		t.Errorf("permissions are %v", may)
	}
}

// TestRefusedRequests: nothing reaches a registry, or has its body read first.
func TestRefusedRequests(t *testing.T) {
	c := newScript(t, newServer(t, newRegistry(t), setup{}))
	id := c.create("prod")
	large := strings.Repeat("x", 10<<20)
	for _, tt := range []struct {
		name, method, path string
		body               any
		status             int
	}{
		{"unknown route", "GET", "nothing", nil, 404},
		{"unknown route below a workspace", "GET", "workspaces/" + id + "/nothing", nil, 404},
		{"method", "PUT", "workspaces/" + id, nil, 405},
		{"method without id", "DELETE", "organizations", nil, 405},
		{"no id", "GET", "workspaces/ws-x", nil, 404},
		{"empty segment", "GET", "workspaces//vars", nil, 404},
		{"parent", "GET", "organizations/acme/workspaces/..", nil, 404},
		{"escaped parent", "GET", "organizations/acme/workspaces/%2e%2e", nil, 404},
		{"control character", "GET", "organizations/acme/workspaces/a%00", nil, 404},
		{"no UTF-8", "GET", "organizations/acme/workspaces/%ff", nil, 404},
		{"no JSON", "POST", "workspaces/" + id + "/actions/lock", "<x/>", 400},
		{"half a document", "PATCH", "workspaces/" + id, `{"data":`, 400},
		{"another shape", "POST", workspaces, `{"data":[1]}`, 400},
		{"deep", "POST", workspaces, strings.Repeat("[", 1000), 400},
		{"large", "POST", workspaces, large, 413},
		{"large lock", "POST", "workspaces/" + id + "/actions/lock", large, 413},
		{"large tags", "POST", "workspaces/" + id + "/relationships/tags", large, 413},
		{"no name", "POST", workspaces, `{}`, 422},
		{"unknown mode", "PATCH", "workspaces/" + id, `{"data":{"attributes":{"execution-mode":"agent"}}}`, 422},
		{"unknown project", "PATCH", "workspaces/" + id, `{"data":{"relationships":{"project":{"data":{"id":"x"}}}}}`, 422},
		{"long description", "PATCH", "workspaces/" + id, `{"data":{"attributes":{"description":"` + strings.Repeat("x", 1025) + `"}}}`, 422},
		{"mode that needs a right", "PATCH", "workspaces/" + id, `{"data":{"attributes":{"execution-mode":"remote"}}}`, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := c
			c.t = t
			got := c.want(tt.status, tt.method, tt.path, tt.body)
			if tt.status == 405 && got.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if tt.body == large { // refused before it was read, with or without a right
				status := http.StatusForbidden
				if strings.Contains(tt.path, id) { // the answer does not show that the workspace exists
					status = http.StatusNotFound
				}
				c.as("other").want(status, tt.method, tt.path, tt.body)
			}
		})
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+"/api/v2/"+workspaces, strings.NewReader("name=x")))(t)
	r.Header.Set("Authorization", "Bearer "+tokenOf("ci"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp := must.Get(http.DefaultClient.Do(r))(t)
	resp.Body.Close()
	must.Equal(t, "a form: status", resp.StatusCode, http.StatusUnsupportedMediaType)
}
