// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

const workspaces = "organizations/acme/workspaces"

// TestWorkspace leads a workspace through its life, seen by another process.
func TestWorkspace(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		tool := newTool(t, newServer(t, host, setup{}))
		other := tool.at(newServer(t, host, setup{}))
		tool.want(http.StatusNotFound, http.MethodGet, workspaces+"/prod", nil)
		made := tool.want(http.StatusCreated, http.MethodPost, workspaces, newWorkspace("prod", "net", "eu")).item()
		got := other.want(http.StatusOK, http.MethodGet, workspaces+"/prod", nil).item()
		for name, want := range map[string]any{
			"name": "prod", "execution-mode": "local", "operations": false, "locked": false, "terraform-version": "latest",
			"tag-names": []any{"eu", "net"}, "structured-run-output-enabled": false, "auto-apply": false, "description": "",
		} {
			must.Match(t, name, got.Attributes[name], want)
		}
		if _, ok := got.Attributes["permissions"].(object)["can-force-delete"]; !ok {
			t.Error("without can-force-delete the tools know no safe deletion")
		}
		if _, err := time.Parse(time.RFC3339, fmt.Sprint(got.Attributes["created-at"])); err != nil {
			t.Error(err)
		}
		if got.ID == made.ID || strings.Split(got.ID, ".")[0] != strings.Split(made.ID, ".")[0] {
			t.Errorf("the ids are %q and %q", made.ID, got.ID)
		}
		change := object{"data": object{"attributes": object{"description": "what it is for", "terraform-version": "1.12.6", "name": "prod"}}}
		changed := other.want(http.StatusOK, http.MethodPatch, "workspaces/"+got.ID, change).item()
		if changed.ID != got.ID || changed.Attributes["description"] != "what it is for" || changed.Attributes["terraform-version"] != "latest" {
			t.Errorf("changed to %+v", changed)
		}
		again := tool.want(http.StatusOK, http.MethodGet, "workspaces/"+got.ID, nil).item()
		must.Match(t, "as the other process sees it", again, changed)
		tool.want(http.StatusUnprocessableEntity, http.MethodPatch, "workspaces/"+got.ID, object{"data": object{"attributes": object{"name": "other"}}})
		tool.want(http.StatusNoContent, http.MethodDelete, workspaces+"/prod", nil)
		other.want(http.StatusNoContent, http.MethodDelete, workspaces+"/prod", nil) // repeated
		tool.as("admin").want(http.StatusNotFound, http.MethodDelete, workspaces+"/prod", nil)
		other.want(http.StatusNotFound, http.MethodGet, workspaces+"/prod", nil)
		if names := other.want(http.StatusOK, http.MethodGet, workspaces, nil).names(); len(names) > 0 {
			t.Errorf("listed: %q", names)
		}
	})
}

// TestCreateTwice: a POST whose answer was lost may be repeated, but another caller does
// not get the workspace that way.
//
// Shows: cloud 9 | each request of a tool is repeated; what its server stores is stored once, though an
// answer was lost
func TestCreateTwice(t *testing.T) {
	clock := &clock{}
	host := newRegistry(t)
	tool := newTool(t, newServer(t, host, setup{clock: clock}))
	other := tool.at(newServer(t, host, setup{clock: clock}))
	body := newWorkspace("prod", "net")
	tool.want(http.StatusCreated, http.MethodPost, workspaces, body)
	other.want(http.StatusCreated, http.MethodPost, workspaces, body)
	tool.want(http.StatusUnprocessableEntity, http.MethodPost, workspaces, newWorkspace("prod"))
	tool.as("admin").want(http.StatusUnprocessableEntity, http.MethodPost, workspaces, body)
	tool.want(http.StatusCreated, http.MethodPost, workspaces, newWorkspace("late"))
	clock.advance(11 * time.Minute)
	tool.want(http.StatusUnprocessableEntity, http.MethodPost, workspaces, newWorkspace("late"))
	tool.want(http.StatusCreated, http.MethodPost, workspaces, newWorkspace("used"))
	mustPut(t, openStore(t, host, "acme"), "used", stateOf("a", 1))
	tool.want(http.StatusUnprocessableEntity, http.MethodPost, workspaces, newWorkspace("used"))
	for _, name := range []string{"", ".", "..", "a b", "ä", "a/b", strings.Repeat("x", 91), "a\x00"} {
		tool.want(http.StatusUnprocessableEntity, http.MethodPost, workspaces, newWorkspace(name))
	}
}

// TestFoundByState: a workspace that was created through another API exists.
//
// Shows: cloud 4
func TestFoundByState(t *testing.T) {
	host := newRegistry(t)
	store := openStore(t, host, "acme")
	const name = "Ünïcode/with spaces"
	mustPut(t, store, name, stateOf("a", 1))
	tool := newTool(t, newServer(t, host, setup{}))
	if names := tool.want(http.StatusOK, http.MethodGet, workspaces, nil).names(); !cmp.Equal(names, []string{name}) {
		t.Errorf("listed: %q", names)
	}
	id := tool.read(name)
	tool.lock(http.StatusOK, id)
	tool.unlock(http.StatusOK, id)
	tool.want(http.StatusNoContent, http.MethodPost, "workspaces/"+id+"/relationships/tags", newTags("net"))
	if names := tool.want(http.StatusOK, http.MethodGet, workspaces+"?search[tags]=net", nil).names(); !cmp.Equal(names, []string{name}) {
		t.Errorf("listed: %q", names)
	}
	tool.want(http.StatusNoContent, http.MethodDelete, workspaces+"/"+url.PathEscape(name), nil)
	tool.want(http.StatusNotFound, http.MethodGet, "workspaces/"+id, nil)
}

func newTags(names ...string) object {
	list := []object{}
	for _, name := range names {
		list = append(list, object{"type": "tags", "attributes": object{"name": name}})
	}
	return object{"data": list}
}

// TestLists tries every filter, at a process that has written none of the workspaces.
//
// Shows: cloud 3
func TestLists(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		tool := newTool(t, newServer(t, host, setup{}))
		tool.create("app-prod", "app", "eu")
		tool.create("app-test", "app")
		tool.create("net-prod", "net", "eu")
		project := tool.want(http.StatusCreated, http.MethodPost, "organizations/acme/projects", object{"data": object{"attributes": object{"name": "Base"}}}).item().ID
		body := newWorkspace("dns")
		body["data"].(object)["relationships"].(object)["project"] = object{"data": object{"type": "projects", "id": project}}
		tool.want(http.StatusCreated, http.MethodPost, workspaces, body)
		tool.want(http.StatusOK, http.MethodPatch, "workspaces/"+tool.read("dns")+"/tag-bindings", object{"data": []object{
			{"type": "tag-bindings", "attributes": object{"key": "team", "value": "core"}}, {"type": "tag-bindings", "attributes": object{"key": "eu"}},
		}})
		elsewhere := "prj-" + base64.RawURLEncoding.EncodeToString([]byte("other\x00Base"))
		other := tool.at(newServer(t, host, setup{}))
		for query, want := range map[string][]string{
			"":                             {"app-prod", "app-test", "dns", "net-prod"},
			"search[name]=prod":            {"app-prod", "net-prod"},
			"search[wildcard-name]=*-prod": {"app-prod", "net-prod"},
			"search[wildcard-name]=app-*":  {"app-prod", "app-test"},
			"search[tags]=eu":              {"app-prod", "dns", "net-prod"},
			"search[tags]=eu,app":          {"app-prod"},
			"search[tags]=eu&search[exclude-tags]=app":                                            {"dns", "net-prod"},
			"filter[tagged][0][key]=team":                                                         {"dns"},
			"filter[tagged][0][key]=team&filter[tagged][0][value]=core&filter[tagged][1][key]=eu": {"dns"},
			"filter[tagged][0][key]=team&filter[tagged][0][value]=x":                              {},
			"filter[project][id]=" + project:                                                      {"dns"},
			"filter[project][id]=" + elsewhere:                                                    {},
			"search[tags]=none":                                                                   {},
			"page[size]=3":                                                                        {"app-prod", "app-test", "dns"},
			"page[size]=3&page[number]=2":                                                         {"net-prod"},
			"page[size]=3&page[number]=3":                                                         {},
			"unknown=1&include=current_run":                                                       {"app-prod", "app-test", "dns", "net-prod"},
		} {
			got := other.want(http.StatusOK, http.MethodGet, workspaces+"?"+query, nil)
			if diff := cmp.Diff(want, got.names()); diff != "" || !strings.Contains(string(got.doc().Meta), "total-count") {
				t.Errorf("%s: meta %s (-want +got):\n%s", query, got.doc().Meta, diff)
			}
		}
		if id := other.want(http.StatusOK, http.MethodGet, workspaces, nil).items()[0].ID; strings.Contains(id, ".") {
			t.Errorf("a list has the id %q", id)
		}
		projects := other.want(http.StatusOK, http.MethodGet, "organizations/acme/projects", nil)
		must.Match(t, "projects", projects.names(), []string{"Base", "Default Project"})
		named := other.want(http.StatusOK, http.MethodGet, "organizations/acme/projects?filter[names]=Base", nil).items()
		if len(named) != 1 || named[0].ID != project {
			t.Errorf("the project is %+v", named)
		}
		if got := other.want(http.StatusOK, http.MethodGet, "projects/"+project, nil).item(); got.Attributes["name"] != "Base" {
			t.Errorf("the project is %+v", got)
		}
		many := strings.Repeat("a,", 65)
		other.want(http.StatusUnprocessableEntity, http.MethodGet, workspaces+"?search[tags]="+many, nil)
	})
}

// Shows: cloud 3
func TestTags(t *testing.T) {
	host := newRegistry(t)
	tool := newTool(t, newServer(t, host, setup{}))
	tool.create("prod", "net")
	id := tool.read("prod")
	bound := func(route string) map[string]any {
		t.Helper()
		got := map[string]any{}
		for _, i := range tool.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/"+route, nil).items() {
			must.Equal(t, "the type", i.Type, route)
			got[fmt.Sprint(i.Attributes["key"])] = i.Attributes["value"]
		}
		return got
	}
	tags := "workspaces/" + id + "/relationships/tags"
	tool.want(http.StatusOK, http.MethodPatch, "workspaces/"+id+"/tag-bindings", object{"data": []object{{"attributes": object{"key": "team", "value": "core"}}}})
	tool.want(http.StatusNoContent, http.MethodPost, tags, newTags("eu", "team"))
	tool.want(http.StatusNoContent, http.MethodPost, tags, newTags("eu", "team")) // repeated
	want := map[string]any{"net": "", "eu": "", "team": "core"}
	for _, route := range []string{"tag-bindings", "effective-tag-bindings"} {
		must.Match(t, route, bound(route), want)
	}
	tool.want(http.StatusNoContent, http.MethodDelete, tags, newTags("net", "none"))
	tool.want(http.StatusNoContent, http.MethodDelete, tags, newTags("net", "none"))
	delete(want, "net")
	must.Match(t, "value", bound("tag-bindings"), want)
	for _, bad := range []object{newTags(""), newTags(strings.Repeat("x", 129)), newTags("a\nb")} {
		tool.want(http.StatusUnprocessableEntity, http.MethodPost, tags, bad)
	}
	if vars := tool.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/vars", nil).items(); len(vars) != 0 {
		t.Errorf("variables: %+v", vars)
	}
}

// TestDelete keeps the history, refuses a workspace that is locked or manages resources,
// and can be repeated after a crash in between.
//
// Shows: cloud 19
func TestDelete(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		tool := newTool(t, newServer(t, host, setup{}))
		store := openStore(t, host, "acme")
		safe := func(status int) {
			t.Helper()
			tool.want(status, http.MethodPost, workspaces+"/prod/actions/safe-delete", nil)
		}
		tool.create("prod", "net")
		id := tool.read("prod")
		tool.lock(http.StatusOK, id)
		safe(http.StatusConflict)
		tool.want(http.StatusConflict, http.MethodDelete, "workspaces/"+id, nil)
		tool.unlock(http.StatusOK, id)
		mustPut(t, store, "prod", managing("a", 1))
		safe(http.StatusConflict)
		mustPut(t, store, "prod", `{"serial":2,"lineage":"a","meta":{"key_provider.pbkdf2.k":"e30="},"encrypted_data":"AAAA","encryption_version":"v0"}`)
		safe(http.StatusConflict)
		mustPut(t, store, "prod", stateOf("a", 3))
		safe(http.StatusNoContent)
		safe(http.StatusNoContent) // repeated
		tool.want(http.StatusNotFound, http.MethodGet, "workspaces/"+id, nil)
		if _, _, err := store.Get(t.Context(), "prod"); err == nil {
			t.Error("the state is still there")
		}
		if state, _, err := store.GetVersion(t.Context(), "prod", 1); err != nil || string(state) != managing("a", 1) {
			t.Errorf("the history has %.60s, %v", state, err)
		}
		// A state that was restored, or whose deletion failed, is a workspace.
		mustPut(t, store, "prod", managing("a", 4))
		if got := tool.want(http.StatusOK, http.MethodGet, workspaces+"/prod", nil).item(); len(got.Attributes["tag-names"].([]any)) > 0 {
			t.Errorf("it has the tags of the one that was deleted: %+v", got)
		}
		tool.want(http.StatusNoContent, http.MethodDelete, workspaces+"/prod", nil)
		tool.want(http.StatusNotFound, http.MethodGet, workspaces+"/prod", nil)
	})
}

// TestDeletedUnderway deletes a workspace while a command is about to use it, and creates
// it again: the data that the command has read is never planned from or written back.
//
// Shows: cloud 27 | a workspace that is deleted between any two requests, and created again;
// records with equal content
func TestDeletedUnderway(t *testing.T) {
	clock := &clock{}
	host := newRegistry(t)
	tool := newTool(t, newServer(t, host, setup{clock: clock}))
	other := tool.at(newServer(t, host, setup{clock: clock}))
	tool.create("prod")
	tool.apply("prod", stateOf("a", 1))
	cmd := tool.begin("prod").read()
	clock.advance(2 * time.Second)
	other.want(http.StatusNoContent, http.MethodDelete, workspaces+"/prod", nil)
	current := "workspaces/" + cmd.id + "/current-state-version"
	tool.want(http.StatusConflict, http.MethodGet, current, nil) // not 404, at which the tool would plan from nothing
	tool.lock(http.StatusNotFound, cmd.id)
	tool.want(http.StatusConflict, http.MethodPost, "workspaces/"+cmd.id+"/state-versions", announce(stateOf("a", 2))) // the tools print the text of this error
	tool.want(http.StatusNotFound, http.MethodGet, workspaces+"/prod", nil)
	clock.advance(2 * time.Second)
	other.create("prod")
	tool.want(http.StatusConflict, http.MethodGet, current, nil)
	tool.lock(http.StatusConflict, cmd.id)
	tool.want(http.StatusConflict, http.MethodPost, "workspaces/"+cmd.id+"/state-versions", announce(stateOf("a", 2)))
	tool.want(http.StatusConflict, http.MethodDelete, "workspaces/"+cmd.id, nil)
	tool.want(http.StatusConflict, http.MethodPatch, "workspaces/"+cmd.id+"/tag-bindings", object{"data": []object{{"attributes": object{"key": "old"}}}})
	next := tool.begin("prod").read()
	must.Equal(t, "the state of the deleted workspace is back", next.state(), "")
	tool.apply("prod", stateOf("b", 1))
}

// TestClocksOfReplicas: a clock behind makes no command older than its workspace.
func TestClocksOfReplicas(t *testing.T) {
	behind := &clock{}
	behind.advance(-time.Minute)
	host := newRegistry(t)
	tool := newTool(t, newServer(t, host, setup{}))
	tool.create("prod")
	tool.at(newServer(t, host, setup{clock: behind})).apply("prod", stateOf("a", 1))
}
