// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// okara runs a command line in this process, with an empty home.
func okara(t *testing.T, args ...string) outcome {
	t.Helper()
	return (&person{t: t, home: t.TempDir()}).okara("", args...)
}

// mustOkara runs a command line that has to succeed and returns its stdout.
func mustOkara(t *testing.T, args ...string) string {
	t.Helper()
	o := okara(t, args...)
	if o.code != cli.ExitOK {
		t.Fatalf("okara %s: exit %d\n%s", strings.Join(args, " "), o.code, o.err)
	}
	return o.out
}

// stateText is a state that is too large and too random to be stored inline.
func stateText(lineage string, serial int) string {
	pad := make([]byte, 40_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range pad {
		pad[i] = byte(r.Uint32())
	}
	return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":%q,"outputs":{},"resources":[],"pad":"%x"}`, serial, lineage, pad)
}

func newFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestStateLockedExit(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	reference := host + "/infra/state"
	one := newFile(t, "one", stateText("a", 1))
	mustOkara(t, "state", "push", reference, one)
	reg := &cli.Registries{App: &cli.App{Getenv: func(string) string { return "" }, Err: &bytes.Buffer{}}}
	s := must.Get((&stateFlags{}).openStore(reg, reference))(t)
	must.Get(s.Lock(t.Context(), "default", statebackend.NewLockInfo("apply", "test")))(t)
	o := okara(t, "state", "push", reference, newFile(t, "two", stateText("a", 2)))
	if o.code != cli.ExitConflict || !strings.Contains(o.err, "is locked by") || !strings.Contains(o.err, "okara state unlock "+reference) {
		t.Errorf("exit %d: %s", o.code, o.err)
	}
	var doc struct{ Locks []lockJSON }
	if err := json.Unmarshal([]byte(mustOkara(t, "state", "locks", reference, "--json")), &doc); err != nil || len(doc.Locks) != 1 {
		t.Fatalf("locks: %+v, %v", doc, err)
	}
	if o := okara(t, "state", "locks", reference); !strings.Contains(o.err, "\n  okara state unlock "+reference+" -w default --id "+doc.Locks[0].ID+"\n") {
		t.Errorf("the line that ends the lock is missing: %s", o.err)
	}
	if listed := mustOkara(t, "state", "list", reference, "--long"); !strings.HasPrefix(listed, "default  1 ") || !strings.Contains(listed, " for ") {
		t.Errorf("the list does not say who holds the lock: %q", listed)
	}
	r := must.Get(oci.OpenRepo(reference, oci.Options{PlainHTTP: true}))(t)
	must.Get(statebackend.New(r, statebackend.Options{LockTTL: time.Hour}).Lock(t.Context(), "ledger", statebackend.NewLockInfo("lead", "test")))(t)
	if o := okara(t, "state", "locks", host, "--all"); strings.Count(o.err, "okara state unlock") != 1 || strings.Contains(o.err, "-w ledger") || !strings.Contains(o.out, "held by a server for itself") {
		t.Errorf("the server's own lock: %s%s", o.out, o.err)
	}
	mustOkara(t, "state", "unlock", reference, "--id", doc.Locks[0].ID, "--yes")
	mustOkara(t, "state", "push", reference, newFile(t, "two", stateText("a", 2)))
	must.Get(s.Lock(t.Context(), "default", statebackend.NewLockInfo("apply", "test")))(t)
	mustOkara(t, "state", "unlock", reference, "--take-over", "--yes")
	mustOkara(t, "state", "push", reference, newFile(t, "three", stateText("a", 3)), "--force")
	history := mustOkara(t, "state", "history", reference)
	for _, why := range []string{"forced push", "takeover, content of 100003", "push", "takeover, content of 1"} {
		_, rest, found := strings.Cut(history, why)
		if !found {
			t.Fatalf("no %q in this order:\n%s", why, history)
		}
		history = rest
	}
}

// foreignState is a state as another tool stores it.
type foreignState struct {
	tag, kind, layer, key, workspace string
	content                          []byte
}

func (f foreignState) push(t *testing.T, reference string) {
	t.Helper()
	r := must.Get(oci.OpenRepo(reference, oci.Options{PlainHTTP: true}))(t)
	blob := oci.BytesBlob(f.layer, f.content)
	m := must.Get(oci.NewManifest(ocispec.Manifest{
		ArtifactType: f.kind, Config: artifact.EmptyConfig(), Layers: []oci.Descriptor{blob.Descriptor},
		Annotations: map[string]string{f.key: f.workspace},
	}))(t)
	for _, b := range []oci.Blob{oci.EmptyBlob(), blob} {
		must.Succeed(t, r.PushBlob(t.Context(), b))
	}
	must.Succeed(t, r.PutTag(t.Context(), f.tag, m))
}

func TestStateImportLayouts(t *testing.T) {
	const (
		tofuKind, tofuLayer = "application/vnd.opentofu.state.v1", "application/vnd.opentofu.statefile.v1"
		tfKind, tfLayer     = "application/vnd.terraform.state.v1", "application/vnd.terraform.statefile.v1"
		tofuKey, tfKey      = "org.opentofu.workspace", "org.terraform.workspace"
	)
	state := func(serial int) []byte { return []byte(stateText("a", serial)) }
	tests := []struct {
		name   string
		source []foreignState
		want   map[string][]int // workspace to serials, oldest first
	}{
		{"typed for OpenTofu", []foreignState{
			{"state-prod", tofuKind, tofuLayer, tofuKey, "prod", state(4)},
			{"state-" + format.OldStateFragment("a b"), tofuKind, tofuLayer, tofuKey, "a b", state(2)},
		}, map[string][]int{"prod": {4}, "a b": {2}}},
		{"pull request 3600", []foreignState{
			{"state-prod-v1", tfKind, tfLayer, tfKey, "prod", state(1)},
			{"state-prod-v2", tfKind, tfLayer + "+gzip", tfKey, "prod", gzipped(t, state(2))},
			{"state-prod", tfKind, tfLayer + "+gzip", tfKey, "prod", gzipped(t, state(2))},
			{"state-prod-v10", tfKind, tfLayer, tfKey, "prod-v10", state(7)},
		}, map[string][]int{"prod": {1, 2}, "prod-v10": {7}}},
		{"current state after the versions", []foreignState{
			{"state-prod-v1", tfKind, tfLayer, tfKey, "prod", state(1)},
			{"state-prod", tfKind, tfLayer, tfKey, "prod", state(3)},
		}, map[string][]int{"prod": {1, 3}}},
		{"terraform-provider-oras", []foreignState{
			{"stver-" + fullHash("prod") + "-v9", tfKind, tfLayer, tfKey, "prod", state(9)},
			{"stver-" + fullHash("prod") + "-v10", tfKind, tfLayer, tfKey, "prod", state(10)},
		}, map[string][]int{"prod": {9, 10}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := ocitest.New(t, ocitest.Quirks{})
			for _, f := range tt.source {
				f.push(t, host+"/old/state")
			}
			before := tagsOf(t, host+"/old/state")
			mustOkara(t, "state", "import", host+"/new/state", "oci://"+host+"/old/state", "--dry-run")
			if list := mustOkara(t, "state", "list", host+"/new/state"); list != "" {
				t.Fatalf("a dry run wrote %q", list)
			}
			for range 2 { // the second time finds everything
				mustOkara(t, "state", "import", host+"/new/state", "oci://"+host+"/old/state")
			}
			must.Match(t, "serials", serialsOf(t, host+"/new/state"), tt.want)
			if diff := cmp.Diff(before, tagsOf(t, host+"/old/state")); diff != "" {
				t.Errorf("the source was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestStateImportFiles(t *testing.T) {
	reference := ocitest.New(t, ocitest.Quirks{}) + "/infra/state"
	dir := t.TempDir()
	write := func(name, content string) {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	write("a-newest", stateText("a", 12))
	write("b-oldest", stateText("a", 9))
	write("c-middle", stateText("a", 10))
	mustOkara(t, "state", "import", reference, dir, "-w", "prod")
	write("d-later", stateText("a", 13))
	mustOkara(t, "state", "import", reference, dir, "-w", "prod")
	must.Match(t, "serials", serialsOf(t, reference), map[string][]int{"prod": {9, 10, 12, 13}})
	mustOkara(t, "state", "push", reference, newFile(t, "own", stateText("a", 20)), "-w", "prod")
	if o := okara(t, "state", "import", reference, dir, "-w", "prod"); o.code != cli.ExitConflict {
		t.Errorf("over a state of its own: exit %d, %s", o.code, o.err)
	}
	write("e-foreign", stateText("b", 14))
	if o := okara(t, "state", "import", reference, dir, "-w", "new"); o.code != cli.ExitConflict || !strings.Contains(o.err, "lineage") {
		t.Errorf("two lineages: exit %d, %s", o.code, o.err)
	}
	write("f-page", "<html>")
	if o := okara(t, "state", "import", reference, dir, "-w", "new"); o.code != cli.ExitUsage || !strings.Contains(o.err, "f-page") {
		t.Errorf("no state: exit %d, %s", o.code, o.err)
	}
	must.Match(t, "serials after refused imports", serialsOf(t, reference), map[string][]int{"prod": {9, 10, 12, 13, 20}})
}

func TestStateReplicateCommand(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	src, dst := host+"/infra/state", host+"/dr/state"
	for _, ws := range []string{"default", "prod"} {
		mustOkara(t, "state", "push", src, newFile(t, "s", stateText(ws, 1)), "-w", ws)
	}
	repo := must.Get(oci.OpenRepo(src, oci.Options{PlainHTTP: true}))(t)
	one := variables.Variable{ID: "0123456789ABCDEF", Workspace: "prod", Key: "a", Category: variables.Terraform}
	book := must.Get(variables.Open(repo, nil, time.Now, nil))(t)
	list, err := book.List(t.Context())
	if err == nil {
		err = list.PutVariable(t.Context(), one, false, "test")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 variable copied or removed", ""} {
		if out := mustOkara(t, "state", "replicate", src, dst); strings.Contains(out, "variable") != (want != "") || !strings.Contains(out, want) {
			t.Errorf("replicate tells of variables, want %q:\n%s", want, out)
		}
	}
	if diff := cmp.Diff(serialsOf(t, src), serialsOf(t, dst)); diff != "" {
		t.Errorf("serials (-source +replica):\n%s", diff)
	}
	if o := okara(t, "state", "push", dst, newFile(t, "s", stateText("prod", 2)), "-w", "prod"); o.code == cli.ExitOK || !strings.Contains(o.err, "replica") {
		t.Errorf("push to a replica: exit %d, %s", o.code, o.err)
	}
	mustOkara(t, "state", "push", src, newFile(t, "s", stateText("prod", 2)), "-w", "prod")
	if show := mustOkara(t, "state", "show", dst, "-w", "prod"); !strings.Contains(show, "1 version behind") {
		t.Errorf("show of a replica does not tell the lag:\n%s", show)
	}
	mustOkara(t, "state", "replicate", src, dst, "-w", "prod")
	if show := mustOkara(t, "state", "show", dst, "-w", "prod"); !strings.Contains(show, "up to date") {
		t.Errorf("show of a replica:\n%s", show)
	}
	mustOkara(t, "state", "unlock", dst, "-w", "prod", "--take-over", "--yes")
	mustOkara(t, "state", "push", dst, newFile(t, "s", stateText("prod", 3)), "-w", "prod")
}

func TestStateDecryptOffline(t *testing.T) {
	reference := ocitest.New(t, ocitest.Quirks{}) + "/infra/state"
	key := newFile(t, "key", strings.Repeat("07", 32))
	mustOkara(t, "state", "push", reference, newFile(t, "s", stateText("a", 1)), "--key", key)
	r := must.Get(oci.OpenRepo(reference, oci.Options{PlainHTTP: true}))(t)
	m := must.Get(r.Fetch(t.Context(), "state-default"))(t)
	img := must.Get(m.Image())(t)
	blob := must.Get(r.ReadBlob(t.Context(), img.Layers[0], 1<<20))(t)
	manifest, stored := newFile(t, "manifest.json", string(m.Bytes)), newFile(t, "blob", string(blob))
	if got := mustOkara(t, "state", "decrypt", manifest, stored, "--key", key); got != stateText("a", 1) {
		t.Error("decrypted to another state")
	}
	for name, args := range map[string][]string{
		"without a key": {manifest, stored},
		"another key":   {manifest, stored, "--key", newFile(t, "other", strings.Repeat("08", 32))},
		"cut blob":      {manifest, newFile(t, "cut", string(blob[:len(blob)-1])), "--key", key},
		"no manifest":   {stored, stored, "--key", key},
	} {
		if o := okara(t, append([]string{"state", "decrypt"}, args...)...); o.code != cli.ExitFailure || o.out != "" {
			t.Errorf("%s: exit %d, %s", name, o.code, o.err)
		}
	}
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	must.Get(w.Write(b))(t)
	must.Succeed(t, w.Close())
	return out.Bytes()
}

func fullHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func tagsOf(t *testing.T, reference string) []string {
	t.Helper()
	r := must.Get(oci.OpenRepo(reference, oci.Options{PlainHTTP: true}))(t)
	l := must.Get(r.Snapshot(context.WithoutCancel(t.Context())))(t)
	return l.Tags
}

// serialsOf returns the serials of every workspace, oldest first.
func serialsOf(t *testing.T, reference string) map[string][]int {
	t.Helper()
	all := map[string][]int{}
	for ws := range strings.Lines(mustOkara(t, "state", "list", reference)) {
		ws = strings.TrimSpace(ws)
		var doc struct {
			Versions []struct{ Serial int }
		}
		must.Succeed(t, json.Unmarshal([]byte(mustOkara(t, "state", "history", reference, "-w", ws, "--json")), &doc))
		for _, v := range doc.Versions {
			all[ws] = append([]int{v.Serial}, all[ws]...)
		}
	}
	return all
}

// TestStatePruneRefused: nothing is broken where nothing deletes.
func TestStatePruneRefused(t *testing.T) {
	repo := ocitest.New(t, ocitest.Quirks{NoDelete: true}) + "/state/app"
	for serial := range 3 {
		mustOkara(t, "state", "push", repo, newFile(t, "s", stateText("a", serial+1)))
	}
	if o := okara(t, "state", "prune", repo, "--keep", "1", "--yes"); o.code != cli.ExitFailure || !strings.Contains(o.err, "hint: the registry refuses DELETE") {
		t.Errorf("exit code %d: %s", o.code, o.err)
	}
}

// TestStateEncryptedByTool shows a state that OpenTofu encrypted, and an unencrypted one.
func TestStateEncryptedByTool(t *testing.T) {
	repository := ocitest.New(t, ocitest.Quirks{}) + "/state/app"
	mustOkara(t, "state", "push", repository, newFile(t, "s", `{"serial":3,"lineage":"l","meta":{},"encrypted_data":"QQ==","encryption_version":"v0"}`))
	if show := mustOkara(t, "state", "show", repository); !strings.Contains(show, "by OpenTofu, with its own keys") {
		t.Errorf("show:\n%s", show)
	}
	if show := mustOkara(t, "state", "show", repository, "--json"); !strings.Contains(show, `"encrypted_by_tool": true`) {
		t.Errorf("show:\n%s", show)
	}
	mustOkara(t, "state", "push", repository, newFile(t, "s", stateText("prod", 1)), "-w", "prod")
	if show := mustOkara(t, "state", "show", repository, "-w", "prod", "--json"); strings.Contains(show, "by_tool") {
		t.Errorf("show:\n%s", show)
	}
}
