// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http"
	"strings"
	"testing"
)

// settings is the body of PATCH for a workspace.
func settings(name string, value any) object {
	return object{"data": object{"type": "workspaces", "attributes": object{name: value}}}
}

// TestSettingRefused: a setting that would be dropped is not answered with success.
func TestSettingRefused(t *testing.T) {
	c := newScript(t, newServer(t, newRegistry(t), setup{})).as("runner")
	at := "workspaces/" + c.create("prod")
	for _, tt := range []struct {
		name  string
		value any
		say   string // "": it is accepted
	}{
		{"global-remote-state", false, "global_remote_state = true"},
		{"global-remote-state", true, ""},
		{"project-remote-state", true, "rights of callers"},
		{"project-remote-state", false, ""},
		{"terraform-version", "no such thing", "a constraint such as"},
		{"terraform-version", " ", "a constraint such as"},
		{"terraform-version", "1.12.6", ""},
		{"terraform-version", "~> 1.12.0, != 1.12.3", ""},
		{"terraform-version", "latest", ""},
	} {
		if tt.say == "" {
			got := c.want(http.StatusOK, http.MethodPatch, at, settings(tt.name, tt.value)).item()
			if back, ok := got.Attributes[tt.name]; ok && back != tt.value {
				t.Errorf("%s %v reads back %v", tt.name, tt.value, back)
			}
			continue
		}
		got := c.want(http.StatusUnprocessableEntity, http.MethodPatch, at, settings(tt.name, tt.value))
		if !strings.Contains(got.doc().Errors[0].Detail, tt.say) {
			t.Errorf("%s %v: %s", tt.name, tt.value, got.body)
		}
	}
}

// TestSettingOfRuns: a writer may repeat settings of runs, not change them.
func TestSettingOfRuns(t *testing.T) {
	c, _, id := newRemote(t, setup{})
	writer := c.as("ci")
	for name, usual := range map[string]bool{"auto-apply": false, "allow-destroy-plan": true, "speculative-enabled": true} {
		writer.want(http.StatusOK, http.MethodPatch, "workspaces/"+id, settings(name, usual))
		writer.want(http.StatusForbidden, http.MethodPatch, "workspaces/"+id, settings(name, !usual))
		body := newWorkspace("new")
		body["data"].(object)["attributes"].(object)[name] = !usual
		writer.want(http.StatusForbidden, http.MethodPost, workspaces, body)
		if got := c.want(http.StatusOK, http.MethodPatch, "workspaces/"+id, settings(name, !usual)).item(); got.Attributes[name] != !usual {
			t.Errorf("%s: %v", name, got.Attributes[name])
		}
		writer.want(http.StatusOK, http.MethodPatch, "workspaces/"+id, settings(name, !usual))
		writer.want(http.StatusForbidden, http.MethodPatch, "workspaces/"+id, settings(name, usual))
		c.want(http.StatusOK, http.MethodPatch, "workspaces/"+id, settings(name, usual))
	}
	writer.want(http.StatusNotFound, http.MethodGet, workspaces+"/new", nil)
}

// TestSpeculativeOff refuses runs that only plan, in every form of the request.
func TestSpeculativeOff(t *testing.T) {
	c, _, id := newRemote(t, setup{})
	c.want(http.StatusOK, http.MethodPatch, "workspaces/"+id, settings("speculative-enabled", false))
	got := c.want(http.StatusUnprocessableEntity, http.MethodPost, "runs", runBody(id, c.configure(id), object{"plan-only": true}))
	if !strings.Contains(got.doc().Errors[0].Detail, "speculative-enabled is off") {
		t.Errorf("%s", got.body)
	}
	cv, upload := c.announceConfiguration(id, object{"speculative": true})
	c.as("").want(http.StatusOK, http.MethodPut, upload, folder(t, "main.tf", ""))
	c.want(http.StatusUnprocessableEntity, http.MethodPost, "runs", runBody(id, cv, nil))
	c.run(id, object{"save-plan": true})
	c.run(id, nil)
}
