// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/go-tfe"
)

// TestCloudClient uses a server by the client library on which scripts and the tfe
// provider stand: lists, locks, history and a rollback. Ids stay.
func TestCloudClient(t *testing.T) {
	set, err := findTools()
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, set, set.tofu)
	_, at := c.serve("one", c.registry(), "127.0.0.1:0")
	client, err := tfe.NewClient(&tfe.Config{Address: "http://" + at, BasePath: "/api/v2/", Token: "any"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	made, err := client.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: new("shop")})
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := client.Workspaces.Lock(ctx, made.ID, tfe.WorkspaceLockOptions{Reason: new("a script")}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Workspaces.Lock(ctx, made.ID, tfe.WorkspaceLockOptions{}); !errors.Is(err, tfe.ErrWorkspaceLocked) {
		t.Errorf("a second lock is %v", err)
	}
	for i, text := range []string{"first", "second"} {
		if err := upload(int64(i+1), text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Workspaces.Unlock(ctx, made.ID); err != nil {
		t.Fatal(err)
	}

	history, err := client.StateVersions.List(ctx, &tfe.StateVersionListOptions{Organization: "acme", Workspace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if len(history.Items) != 2 || history.Items[0].Serial != 2 || history.Items[1].Serial != 1 {
		t.Fatalf("the history is %+v", history.Items)
	}
	old := history.Items[1]
	if got, err := client.StateVersions.Download(ctx, old.DownloadURL); err != nil || !bytes.Equal(got, state(1, "first")) {
		t.Errorf("%v, the first version is %s", err, got)
	}
	body := &rollback{Version: &tfe.StateVersion{ID: old.ID}}
	req, err := client.NewRequest("PATCH", "workspaces/"+made.ID+"/state-versions", body) // the library has no method for it
	if err != nil {
		t.Fatal(err)
	}
	if err := req.Do(ctx, nil); err != nil {
		t.Fatal(err)
	}
	current, err := client.StateVersions.ReadCurrentWithOptions(ctx, made.ID, &tfe.StateVersionCurrentOptions{Include: []tfe.StateVersionIncludeOpt{tfe.SVoutputs}})
	if err != nil {
		t.Fatal(err)
	}
	if len(current.Outputs) != 1 || current.Outputs[0].Name != "text" || current.Outputs[0].Value != "first" {
		t.Errorf("after the rollback the outputs are %+v", current.Outputs)
	}

	list, err := client.Workspaces.List(ctx, "acme", nil)
	if err != nil {
		t.Fatal(err)
	}
	read, err := client.Workspaces.Read(ctx, "acme", "shop")
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].ID != made.ID || read.ID != made.ID || read.Locked {
		t.Errorf("made as %s, read as %s (locked: %t), listed as %+v", made.ID, read.ID, read.Locked, list.Items)
	}
}

// rollback names the version that a workspace goes back to.
type rollback struct {
	Type    string            `jsonapi:"primary,state-versions"`
	Version *tfe.StateVersion `jsonapi:"relation,rollback-state-version"`
}
