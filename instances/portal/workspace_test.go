// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

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
