// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// TestForLeader forwards requests about runs, but no state, lock or upload.
func TestForLeader(t *testing.T) {
	for request, want := range map[string]bool{
		"POST runs": true, "GET runs/run-x": true, "POST runs/run-x/actions/apply": true, "GET runs/run-x/run-events": true,
		"GET plans/plan-x": true, "GET applies/apply-x": true, "GET logs/token": true, "GET workspaces/ws-x/runs": true,
		"POST workspaces/ws-x/configuration-versions": true, "GET organizations/acme/runs/queue": true, "GET organizations/acme/capacity": true,
		"DELETE workspaces/ws-x": true, "POST workspaces/ws-x/actions/safe-delete": true, "POST workspaces/ws-x/actions/force-unlock": true,
		"DELETE organizations/acme/workspaces/prod": true, "POST organizations/acme/workspaces/prod/actions/safe-delete": true,

		"GET workspaces/ws-x": false, "PATCH workspaces/ws-x": false, "POST workspaces/ws-x/actions/lock": false, "PUT uploads/token": false,
		"GET organizations/acme/workspaces/runs": false, "GET organizations/runs": false, "GET organizations/acme/workspaces": false,
		"DELETE workspaces/ws-x/relationships/tags": false, "GET configuration-versions/cv-x": false, "POST workspaces/ws-x/state-versions": false, "GET ping": false,
	} {
		method, path, _ := strings.Cut(request, " ")
		r := httptest.NewRequest(method, "/api/v2/"+path, nil)
		must.Equal(t, request, tfe.ForLeader(r, r.URL.Path), want)
	}
	if r := httptest.NewRequest("POST", "/other/runs", nil); tfe.ForLeader(r, r.URL.Path) {
		t.Error("another prefix is handed on")
	}
}

func TestSigned(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v2/logs/token": true, "/api/v2/uploads/token": true,
		"/api/v2/logs": false, "/api/v2/plans/plan-x": false, "/api/v2/workspaces/logs/": false, "/logs/token": false,
	} {
		must.Equal(t, path, tfe.Signed(path), want)
	}
}
