// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
)

// TestCloudClient uses a server with the client library of scripts and the tfe provider:
// lists, locks, history and a rollback. IDs stay the same.
//
// Shows: cloud 22
func TestCloudClient(t *testing.T) {
	set := must(findTools())(t)
	c := newCloud(t, set, set.tofu)
	_, at := c.serve("one", c.registry(), "127.0.0.1:0")
	client := must(tfe.NewClient(&tfe.Config{Address: "http://" + at, BasePath: "/api/v2/", Token: "any"}))(t)
	ctx := t.Context()
	made := must(client.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: new("shop")}))(t)
	state := func(serial int, text string) []byte {
		return fmt.Appendf(nil, `{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"2d6a","outputs":{"text":{"value":%q,"type":"string"}},"resources":[],"check_results":null}`, serial, text)
	}
	upload := func(serial int64, text string) error {
		raw := state(int(serial), text)
		_, err := client.StateVersions.Upload(ctx, made.ID, tfe.StateVersionUploadOptions{
			StateVersionCreateOptions: tfe.StateVersionCreateOptions{Lineage: new("2d6a"), Serial: new(serial), MD5: new(fmt.Sprintf("%x", md5.Sum(raw)))},
			RawState:                  raw,
		})
		return err
	}
	if err := upload(1, "first"); err == nil {
		t.Error("a state is written without a lock")
	}
	must(client.Workspaces.Lock(ctx, made.ID, tfe.WorkspaceLockOptions{Reason: new("a script")}))(t)
	if _, err := client.Workspaces.Lock(ctx, made.ID, tfe.WorkspaceLockOptions{}); !errors.Is(err, tfe.ErrWorkspaceLocked) {
		t.Errorf("a second lock is %v", err)
	}
	for i, text := range []string{"first", "second"} {
		succeed(t, upload(int64(i+1), text))
	}
	must(client.Workspaces.Unlock(ctx, made.ID))(t)

	history := must(client.StateVersions.List(ctx, &tfe.StateVersionListOptions{Organization: "acme", Workspace: "shop"}))(t)
	if len(history.Items) != 2 || history.Items[0].Serial != 2 || history.Items[1].Serial != 1 {
		t.Fatalf("the history is %+v", history.Items)
	}
	old := history.Items[1]
	if got, err := client.StateVersions.Download(ctx, old.DownloadURL); err != nil || !bytes.Equal(got, state(1, "first")) {
		t.Errorf("%v, the first version is %s", err, got)
	}
	body := &rollback{Version: &tfe.StateVersion{ID: old.ID}}
	req := must(client.NewRequest("PATCH", "workspaces/"+made.ID+"/state-versions", body))(t) // the library has no method for it
	succeed(t, req.Do(ctx, nil))
	current := must(client.StateVersions.ReadCurrentWithOptions(ctx, made.ID, &tfe.StateVersionCurrentOptions{Include: []tfe.StateVersionIncludeOpt{tfe.SVoutputs}}))(t)
	if len(current.Outputs) != 1 || current.Outputs[0].Name != "text" || current.Outputs[0].Value != "first" {
		t.Errorf("after the rollback the outputs are %+v", current.Outputs)
	}

	list := must(client.Workspaces.List(ctx, "acme", nil))(t)
	read := must(client.Workspaces.Read(ctx, "acme", "shop"))(t)
	if len(list.Items) != 1 || list.Items[0].ID != made.ID || read.ID != made.ID || read.Locked {
		t.Errorf("made as %s, read as %s (locked: %t), listed as %+v", made.ID, read.ID, read.Locked, list.Items)
	}
}

// rollback names the version to which a workspace is rolled back.
type rollback struct {
	Type    string            `jsonapi:"primary,state-versions"`
	Version *tfe.StateVersion `jsonapi:"relation,rollback-state-version"`
}

// TestCloudProvider makes the calls of the tfe provider for the data source tfe_outputs, in
// its older and its newer form, and for the life of a resource tfe_workspace.
//
// Shows: cloud 19
// Shows: cloud 22 | the library of the tfe provider: its calls for outputs and workspaces; list,
// history, rollback, lock
func TestCloudProvider(t *testing.T) {
	set := must(findTools())(t)
	c := newCloud(t, set, set.tofu)
	_, at := c.serve("one", c.registry(), "127.0.0.1:0")
	client := must(tfe.NewClient(&tfe.Config{Address: "http://" + at, BasePath: "/api/v2/", Token: "any"}))(t)
	id := checkProviderWorkspace(t, client)
	// A tool writes the state.
	c.configure("app", fmt.Sprintf(cloudBlock, "cloud", `name = "shop"`)+"}\noutput \"key\" {\n  value     = \"s3cret\"\n  sensitive = true\n}\nterraform {\n", "true")
	c.must("app", at, "init")
	c.must("app", at, "apply", "-auto-approve")
	checkProviderOutputs(t, client, id)

	ctx := t.Context()
	if err := client.Workspaces.SafeDeleteByID(ctx, id); !errors.Is(err, tfe.ErrWorkspaceNotSafeToDelete) {
		t.Errorf("a workspace with resources is deleted safely: %v", err)
	}
	c.must("app", at, "destroy", "-auto-approve")
	if err := client.Workspaces.SafeDeleteByID(ctx, id); err != nil {
		t.Error(err)
	}
	if _, err := client.Workspaces.ReadByID(ctx, id); !errors.Is(err, tfe.ErrResourceNotFound) {
		t.Errorf("a deleted workspace is %v", err)
	}
}

// checkProviderWorkspace makes and changes a workspace, and returns its id.
func checkProviderWorkspace(t *testing.T, client *tfe.Client) string {
	t.Helper()
	ctx := t.Context()
	project := must(client.Projects.Create(ctx, "acme", tfe.ProjectCreateOptions{Name: "retail"}))(t)
	if project.Organization == nil || project.Organization.Name != "acme" {
		t.Errorf("the project is of %+v: the provider crashes", project.Organization)
	}
	if _, err := client.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{
		Name: new("pushed"), VCSRepo: &tfe.VCSRepoOptions{Identifier: new("a/b"), OAuthTokenID: new("ot-1")},
	}); err == nil || !strings.Contains(err.Error(), "no push starts a run") {
		t.Errorf("a workspace of a repository: %v", err)
	}
	made := must(client.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{
		Name: new("shop"), Description: new("first"), AutoApply: new(true), QueueAllRuns: new(false), SpeculativeEnabled: new(true),
		TerraformVersion: new("~> 1.12.0"), WorkingDirectory: new("deep"), Tags: []*tfe.Tag{{Name: "net"}}, Project: project,
	}))(t)
	if _, err := client.Workspaces.UpdateByID(ctx, made.ID, tfe.WorkspaceUpdateOptions{GlobalRemoteState: new(false)}); err == nil || !strings.Contains(err.Error(), "who may read a state") {
		t.Errorf("a state that is not for everybody: %v", err)
	}
	must(client.Workspaces.UpdateByID(ctx, made.ID, tfe.WorkspaceUpdateOptions{
		Name: new("shop"), Description: new("second"), AllowDestroyPlan: new(true), FileTriggersEnabled: new(true),
		GlobalRemoteState: new(true), StructuredRunOutputEnabled: new(true), WorkingDirectory: new(""), TriggerPrefixes: []string{},
	}))(t)
	if err := client.Workspaces.AddTags(ctx, made.ID, tfe.WorkspaceAddTagsOptions{Tags: []*tfe.Tag{{Name: "prod"}}}); err != nil {
		t.Error(err)
	}
	if err := client.Workspaces.RemoveTags(ctx, made.ID, tfe.WorkspaceRemoveTagsOptions{Tags: []*tfe.Tag{{Name: "net"}}}); err != nil {
		t.Error(err)
	}
	read := must(client.Workspaces.ReadByID(ctx, made.ID))(t)
	if read.ID != made.ID || read.Description != "second" || read.Project == nil || read.Project.ID != project.ID || read.Organization.Name != "acme" ||
		!slices.Equal(read.TagNames, []string{"prod"}) || read.Permissions.CanForceDelete == nil || read.ExecutionMode != "local" {
		t.Errorf("the workspace is %+v", read)
	}
	if !read.AutoApply || read.QueueAllRuns || !read.AllowDestroyPlan || !read.FileTriggersEnabled || !read.SpeculativeEnabled || !read.StructuredRunOutputEnabled ||
		read.TerraformVersion != "~> 1.12.0" || read.WorkingDirectory != "" {
		t.Errorf("the settings are %+v", read)
	}
	if v, err := client.Variables.Create(ctx, made.ID, tfe.VariableCreateOptions{Key: new("a"), Value: new("b"), Category: new(tfe.CategoryTerraform)}); err != nil || v.Value != "b" || v.Workspace == nil || v.Workspace.ID != made.ID {
		t.Errorf("a variable: %+v, %v", v, err)
	}
	if _, err := client.Variables.Create(ctx, made.ID, tfe.VariableCreateOptions{Key: new("b"), Value: new("longer than eight"), Category: new(tfe.CategoryEnv), Sensitive: new(true)}); err == nil || !strings.Contains(err.Error(), "no state keys") {
		t.Errorf("a sensitive variable without keys: %v", err)
	}
	// To the provider, not found means that every workspace may read the state.
	if _, err := client.Workspaces.ListRemoteStateConsumers(ctx, made.ID, nil); !errors.Is(err, tfe.ErrResourceNotFound) {
		t.Errorf("who may read the state is %v", err)
	}
	bound, err := client.Workspaces.ListEffectiveTagBindings(ctx, made.ID)
	if err != nil || len(bound) != 1 || bound[0].Key != "prod" {
		t.Errorf("the tags are %+v, %v", bound, err)
	}
	return made.ID
}

// checkProviderOutputs reads the outputs with the calls of both forms.
func checkProviderOutputs(t *testing.T, client *tfe.Client, id string) {
	t.Helper()
	ctx := t.Context()
	ws := must(client.Workspaces.ReadWithOptions(ctx, "acme", "shop", &tfe.WorkspaceReadOptions{Include: []tfe.WSIncludeOpt{tfe.WSOutputs}}))(t)
	older := map[string]any{}
	for _, o := range ws.Outputs {
		if older[o.Name] = o.Value; o.Sensitive {
			whole := must(client.StateVersionOutputs.Read(ctx, o.ID))(t)
			older[o.Name] = whole.Value
		}
	}
	if plain, err := client.Workspaces.Read(ctx, "acme", "shop"); err != nil || plain.ID != id {
		t.Errorf("the workspace is %+v, %v", plain, err)
	}
	list := must(client.StateVersionOutputs.ReadCurrent(ctx, id))(t)
	newer := map[string]any{}
	for _, o := range list.Items {
		if newer[o.Name] = o.Value; o.Sensitive {
			whole := must(client.StateVersionOutputs.Read(ctx, o.ID))(t)
			newer[o.Name] = whole.Value
		}
	}
	want := map[string]any{"text": "first", "key": "s3cret"}
	if !maps.Equal(older, want) || !maps.Equal(newer, want) {
		t.Errorf("the outputs are %v and %v", older, newer)
	}
}
