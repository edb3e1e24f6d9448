// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// pushVariable pushes a variable as commit 6129cd06 stored it.
func pushVariable(t *testing.T, host, key, value, category string, seq int) {
	t.Helper()
	const mediaType = "application/vnd.okara.variable.v1"
	repo := stateRepo(t, host)
	parent := sha256.Sum256([]byte("workspace\x00prod"))
	tag := fmt.Sprintf("variable-var-%x-%s-%06d-0123abcd", parent[:4], (key + strings.Repeat("0", 16))[:16], seq)
	record := must.Get(json.Marshal(object{"variable": object{"workspace": "prod", "key": key, "value": value, "category": category}, "updated": time.Now()}))(t)
	blob := artifact.Inlined(oci.BytesBlob(mediaType+"+json", record), record)
	m := must.Get(oci.NewManifest(ocispec.Manifest{
		ArtifactType: mediaType, Config: artifact.EmptyConfig(), Layers: []oci.Descriptor{blob.Descriptor},
		Annotations: map[string]string{"vnd.okara.variable.tag": tag},
	}))(t)
	must.Succeed(t, artifact.EnsureBlobs(t.Context(), repo, blob))
	must.Succeed(t, repo.PutTag(t.Context(), tag, m))
}

// pushSettings pushes a record of workspace prod with all settings that decide about runs.
func pushSettings(t *testing.T, host string, seq int) {
	t.Helper()
	now := time.Now()
	tag, m := must.GetBoth(format.NewWorkspaceRecord(format.WorkspaceRecord{
		Workspace: "prod", Seq: seq, Mode: "remote", Project: "theirs", By: "mallory", Created: now, Updated: now,
		Settings: map[string]string{"auto-apply": "true", "allow-destroy-plan": "false", "speculative-enabled": "false"},
	}))(t)
	repo := stateRepo(t, host)
	must.Succeed(t, artifact.EnsureBlobs(t.Context(), repo))
	must.Succeed(t, repo.PutTag(t.Context(), tag.String(), m))
}

func stateRepo(t *testing.T, host string) *oci.Repo {
	t.Helper()
	return must.Get(oci.OpenRepo(host+"/state/acme", oci.Options{PlainHTTP: true}))(t)
}

// settings are the attributes of a workspace that decide about runs.
func (c client) settings(id string) object {
	c.t.Helper()
	all := c.want(http.StatusOK, http.MethodGet, "workspaces/"+id, nil).item().Attributes
	maps.DeleteFunc(all, func(name string, _ any) bool {
		return name != "execution-mode" && name != "auto-apply" && name != "allow-destroy-plan" && name != "speculative-enabled"
	})
	return all
}

// TestForged: what a writer of states pushes decides about no run.
func TestForged(t *testing.T) {
	c, f, id := newRemote(t, setup{})
	c.tool = ""
	c.variable("workspaces/"+id+"/vars", "who", "owner", "terraform", nil)
	set := c.want(http.StatusCreated, http.MethodPost, "organizations/acme/varsets", object{"data": object{"type": "varsets", "attributes": object{"name": "theirs"}}}).item()
	c.variable("varsets/"+set.ID+"/relationships/vars", "stolen", "yes", "terraform", nil)
	project := object{"data": []object{{"type": "projects", "id": "prj-" + keyOf("acme", "theirs")}}}
	c.want(http.StatusNoContent, http.MethodPost, "varsets/"+set.ID+"/relationships/projects", project)
	before := fmt.Sprint(c.settings(id))

	pushVariable(t, f.host, "who", "FORGED", "terraform", 9)
	pushVariable(t, f.host, "HTTPS_PROXY", "http://evil.example", "env", 1)
	pushSettings(t, f.host, 9)
	other := c.at(newServer(t, f.host, setup{change: func(o *tfe.Options) { o.Runs, o.RunTime = f, time.Hour }}))
	for name, by := range map[string]client{"the server": c, "another server": other} {
		must.Equal(t, name+": shows", fmt.Sprint(by.settings(id)), before)
		must.Equal(t, name+": lists auto-apply", by.want(http.StatusOK, http.MethodGet, workspaces, nil).items()[0].Attributes["auto-apply"], false)
		if got := keys(by.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/all-vars", nil).items()); got != "terraform who=owner" {
			t.Errorf("%s has the variables %s", name, got)
		}
		by.run(id, object{"is-destroy": true})
		if n := f.new[len(f.new)-1]; string(n.Variables["who"]) != `"owner"` || len(n.Variables) != 1 || len(n.Environment) > 0 || n.AutoApply {
			t.Errorf("%s runs with %s, %v, applied without approval: %v", name, n.Variables, n.Environment, n.AutoApply)
		}
	}
	// A change by one who may make it does not adopt what was forged.
	c.want(http.StatusOK, http.MethodPatch, "workspaces/"+id, object{"data": object{"type": "workspaces", "attributes": object{"description": "d"}}})
	must.Equal(t, "after a change it shows", fmt.Sprint(c.settings(id)), before)
	// A mode that is forged runs nothing.
	c.want(http.StatusOK, http.MethodPatch, "workspaces/"+id, object{"data": object{"type": "workspaces", "attributes": object{"execution-mode": "local"}}})
	pushSettings(t, f.host, 20)
	c.want(http.StatusConflict, http.MethodPost, "workspaces/"+id+"/configuration-versions", object{})
}

// TestMove moves what commit 6129cd06 stored, and leaves the unreadable.
func TestMove(t *testing.T) {
	host := newRegistry(t)
	f := newFakeRuns(host)
	var moved tfe.Options
	c := newScript(t, newServer(t, host, setup{change: func(o *tfe.Options) {
		o.Runs, o.RunTime = f, time.Hour
		moved = *o
	}})).as("runner")
	pushVariable(t, host, "who", "owner", "terraform", 3)
	pushVariable(t, host, "PLACE", "x", "env", 1)
	pushSettings(t, host, 1)
	repo := stateRepo(t, host)
	unreadable := must.Get(artifact.NewBare("application/x", nil))(t)
	must.Succeed(t, repo.PutTag(t.Context(), "variable-set-00000000-0123456789abcdef-000001-01234567", unreadable))
	id := "ws-" + keyOf("acme", "prod")
	must.Equal(t, "before the move the mode", c.settings(id)["execution-mode"], "local")
	var log bytes.Buffer
	for i, want := range []string{"[acme]", "[]", "[]"} {
		undecided := must.Get(tfe.Move(t.Context(), moved, []string{"acme", "none"}, i == 0, slog.New(slog.NewTextHandler(&log, nil))))(t)
		must.Equal(t, "undecided", fmt.Sprint(undecided), want)
		if i == 0 {
			must.Equal(t, "after a dry run the mode", c.settings(id)["execution-mode"], "local")
		}
	}
	if got := c.settings(id); got["execution-mode"] != "remote" || got["auto-apply"] != true || got["allow-destroy-plan"] != false || got["speculative-enabled"] != false {
		t.Errorf("moved are %v", got)
	}
	must.Equal(t, "moved", keys(c.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/vars", nil).items()), "env PLACE=x, terraform who=owner")
	if got := log.String(); strings.Count(got, "review them") != 1 || !strings.Contains(got, "variable-set-00000000") || strings.Contains(got, "owner") {
		t.Errorf("the log has\n%s", got)
	}
	list, err := repo.Snapshot(t.Context())
	if err != nil || strings.Count(strings.Join(list.Tags, " "), "variable-") != 1 {
		t.Errorf("left are %v, %v", list.Tags, err)
	}
}
