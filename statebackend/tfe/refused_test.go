// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// TestLockingRefused: a registry that cannot lock is refused at once, with the reason in
// the text that the tools print, since a retry would not help.
//
// Shows: cloud 11
func TestLockingRefused(t *testing.T) {
	host := newRegistry(t)
	store := openStore(t, host, "acme")
	mustPut(t, store, "prod", stateOf("a", 1))
	why := "two sides did not see each other"
	must.Succeed(t, store.Verdicts().Record(t.Context(), format.Verdict{Locking: statebackend.LockingRefused, Reason: why, Host: host}))
	tool := newTool(t, newServer(t, host, setup{}))
	cmd := tool.begin("prod").read()
	if detail := tool.lock(http.StatusUnprocessableEntity, cmd.id).doc().Errors[0].Detail; !strings.Contains(detail, why) || !strings.Contains(detail, "\nhint: ") {
		t.Errorf("it says %q", detail)
	}
	must.Equal(t, "it cannot be read", cmd.state(), stateOf("a", 1))
}

// TestReplica: a copy can be read but not changed.
//
// Shows: cloud 11
func TestReplica(t *testing.T) {
	host := newRegistry(t)
	source := openStore(t, host, "other")
	mustPut(t, source, "prod", stateOf("a", 1))
	must.Get(source.Replicas().Replicate(t.Context(), openStore(t, host, "acme"), "prod"))(t)
	tool := newTool(t, newServer(t, host, setup{store: func(o *statebackend.Options) { o.Primary = "state/other" }}))
	cmd := tool.begin("prod").read()
	must.Equal(t, "it cannot be read", cmd.state(), stateOf("a", 1))
	tool.lock(http.StatusUnprocessableEntity, cmd.id)
	tool.want(http.StatusUnprocessableEntity, http.MethodPost, workspaces, newWorkspace("new"))
	tool.want(http.StatusUnprocessableEntity, http.MethodPost, "workspaces/"+cmd.id+"/relationships/tags", newTags("net"))
	tool.want(http.StatusUnprocessableEntity, http.MethodDelete, workspaces+"/prod", nil)
}

// TestDamaged: a damaged state is neither missing nor an error that may pass.
//
// Shows: cloud 6
func TestDamaged(t *testing.T) {
	host := newRegistry(t)
	mustPut(t, openStore(t, host, "acme"), "prod", stateOf("a", 1))
	sound := newTool(t, newServer(t, host, setup{}))
	id := sound.read("prod")
	broken := sound.at(newServer(t, host, setup{via: &ocitest.Fault{Match: ocitest.On(http.MethodGet, "manifest"), Times: -1, Do: ocitest.Corrupt}}))
	for _, path := range []string{"/current-state-version", "/current-state-version-outputs"} {
		broken.want(http.StatusUnprocessableEntity, http.MethodGet, "workspaces/"+id+path, nil)
	}
}

// TestSplit gives each workspace a separate repository, which has only the address of
// the workspace.
//
// Shows: cloud 23
func TestSplit(t *testing.T) {
	host := newRegistry(t)
	mustPut(t, openStore(t, host, "acme"), "old", stateOf("o", 1))
	split := setup{split: []string{"acme"}}
	tool := newTool(t, newServer(t, host, split))
	other := tool.at(newServer(t, host, split))
	tool.create("dev-a", "net")
	tool.apply("dev-a", stateOf("a", 1))
	other.apply("dev-a", stateOf("a", 2))
	other.apply("old", stateOf("o", 2))
	for name, want := range map[[2]string]string{{"acme.dev-a", "default"}: stateOf("a", 2), {"acme", "old"}: stateOf("o", 2)} {
		if state, _, err := openStore(t, host, name[0]).Get(t.Context(), name[1]); err != nil || string(state) != want {
			t.Errorf("%s/%s has %s, %v", name[0], name[1], state, err)
		}
	}
	if _, _, err := openStore(t, host, "acme").Get(t.Context(), "dev-a"); err == nil {
		t.Error("the state is in the repository of all workspaces too")
	}
	must.Equal(t, "listed", strings.Join(other.want(http.StatusOK, http.MethodGet, workspaces, nil).names(), " "), "dev-a old")
	// The repository of the workspace is not an organization, in any spelling, for any caller.
	for _, path := range []string{
		"organizations/acme.dev-a/entitlement-set", "organizations/acme.dev-a/workspaces", "organizations/acme.dev-a/workspaces/default",
		"workspaces/ws-YWNtZS5kZXYtYQBkZWZhdWx0", "workspaces/ws-YWNtZS5kZXYtYQBkZWZhdWx0/current-state-version", // acme.dev-a, default
	} {
		tool.as("admin").want(http.StatusNotFound, http.MethodGet, path, nil)
	}
	dev := tool.as("dev")
	dev.apply("dev-a", stateOf("a", 3))
	dev.want(http.StatusForbidden, http.MethodGet, workspaces+"/old", nil)
	tool.want(http.StatusUnprocessableEntity, http.MethodPost, workspaces, newWorkspace("No_Repository")) // upper case
	// Deleted and created again, according to the record of the organization.
	other.want(http.StatusNoContent, http.MethodDelete, workspaces+"/dev-a", nil)
	tool.want(http.StatusNotFound, http.MethodGet, workspaces+"/dev-a", nil)
	tool.create("dev-a")
	other.apply("dev-a", stateOf("b", 1))
}

// TestForgedRecord writes a record that claims a split state into an organization that is
// not split: it exposes no other state, and does not show a workspace without a state.
//
// Shows: cloud 26
func TestForgedRecord(t *testing.T) {
	host := newRegistry(t)
	mustPut(t, openStore(t, host, "acme.prod"), "default", stateOf("secret", 1))
	store := openStore(t, host, "acme")
	must.Get(store.Workspaces().Change(t.Context(), "prod", func(r *statebackend.Record) error {
		r.State = format.StateSplit
		return nil
	}))(t)
	tool := newTool(t, newServer(t, host, setup{}))
	for _, path := range []string{workspaces + "/prod", "workspaces/ws-YWNtZQBwcm9k/current-state-version"} { // acme, prod
		tool.want(http.StatusUnprocessableEntity, http.MethodGet, path, nil)
	}
}
