// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
)

const testStateKeys = "base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="

// trial is one instance with its repository and the folder of its attempts.
type trial struct {
	t     *testing.T
	host  string
	dir   string // of the attempts
	repo  records.InstanceRepo
	store *statebackend.Store
	order Order
	named atomic.Pointer[func() (bool, string, error)]
	pace  pace
}

func newTrial(t *testing.T, host string, files map[string]string) *trial {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{t: t, host: host, dir: filepath.Join(t.TempDir(), "runs", "abc")}
	name := host + "/okara/instances/sandbox/vpc/abc"
	repo, err := oci.OpenRepo(name, oci.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr.order = Order{
		Spec: run.Spec{
			Ref: lifecycle.Ref{ID: "abc", Kind: lifecycle.RunApply, N: 1}, Run: "sandbox/vpc abc run 1",
			Repository: name, Workspace: "default", Ledger: host + "/okara/ledger",
			Source: template.Source{Module: "net/vpc/aws", Version: "1.0.0"},
		},
		Program: self, Okara: self, Isolation: Isolation{Mode: ModeNone}, Registry: Registry{Prefix: host + "/okara"}, StateKeys: testStateKeys,
	}
	sealer, err := sealerOf(&tr.order)
	if err != nil {
		t.Fatal(err)
	}
	tr.repo = records.InstanceRepo{Repo: repo, Sealer: sealer}
	tr.store = tr.newStore(repo)
	tr.pace = pace{held: 100 * time.Millisecond, poll: 10 * time.Millisecond, persist: 20 * time.Second, pause: 50 * time.Millisecond, grace: 20 * time.Second, push: 20 * time.Millisecond}
	tr.module(files)
	tr.names(true, "")
	return tr
}

func (tr *trial) newStore(repo *oci.Repo) *statebackend.Store {
	return statebackend.New(repo, statebackend.Options{Sealer: tr.repo.Sealer, StrictReads: true})
}

// module makes the files the source of the next attempts.
func (tr *trial) module(files map[string]string) {
	tr.t.Helper()
	blob := oci.BytesBlob(artifact.MediaZip, depottest.ZipOf(tr.t, files))
	if _, err := tr.repo.Repo.EnsureBlob(tr.t.Context(), blob); err != nil {
		tr.t.Fatal(err)
	}
	tr.order.Spec.Source.Archive = blob.Digest.String()
	if tr.order.Registry.BuiltIn { // otherwise without a size, as an older leader writes it
		tr.order.Spec.Source.Size = blob.Size
	}
}

// script returns a module with a stub's steps.
func script(s stubScript) map[string]string {
	b, err := json.Marshal(s)
	if err != nil {
		return nil // strings and numbers always marshal
	}
	return map[string]string{"stub.json": string(b), "main.tf": "# nothing\n"}
}

func (tr *trial) names(named bool, cancel string) {
	f := func() (bool, string, error) { return named, cancel, nil }
	tr.named.Store(&f)
}

// next returns the child of another attempt.
func (tr *trial) next() *child {
	tr.t.Helper()
	tr.order.Spec.Ref.Attempt++
	ref := &tr.order.Spec.Ref
	ref.Nonce = fmt.Sprintf("nonce-%d-%d", ref.N, ref.Attempt)
	tr.order.Scratch = filepath.Join(tr.dir, fmt.Sprintf("%d-%d", ref.N, ref.Attempt))
	c := newChild(ChildOptions{
		Order: tr.order, Getenv: func(name string) string { return map[string]string{"HTTP_PROXY": "", "NO_PROXY": "127.0.0.1"}[name] },
		Named: func(context.Context, lifecycle.Ref) (Standing, error) {
			named, cancel, err := (*tr.named.Load())()
			return Standing{Named: named, Cancel: cancel}, err
		},
		UserAgent: "okara/test",
	}, tr.pace)
	c.start = func(t Command) (startedTool, error) {
		t.Alone = false // other tests have children too
		return c.Order.Start(c.dir, t)
	}
	return c
}

// run runs another attempt to its end.
func (tr *trial) run() (run.Report, string) {
	tr.t.Helper()
	c := tr.next()
	if err := c.run(tr.t.Context()); err != nil {
		tr.t.Fatal(err)
	}
	return tr.result()
}

// result reads the report of the last attempt, and its log.
func (tr *trial) result() (run.Report, string) {
	tr.t.Helper()
	r, files, err := run.ReadReport(tr.t.Context(), tr.repo, tr.order.Spec.Ref)
	if err != nil {
		tr.t.Fatal(err)
	}
	log, err := files.Log(tr.t.Context())
	if err != nil {
		tr.t.Fatal(err)
	}
	return r, string(log)
}

func (tr *trial) free() {
	tr.t.Helper()
	if held, err := tr.store.Held(tr.t.Context(), tr.order.Spec.Workspace); err != nil || held != nil {
		tr.t.Errorf("the lock is held: %+v, %v", held, err)
	}
}

// state returns a state with this many resources.
func state(serial, resources int) string {
	var list []string
	for i := range resources {
		list = append(list, fmt.Sprintf(`{"mode":"managed","type":"t","name":"r%d","instances":[{}]}`, i))
	}
	return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l","outputs":{"url":{"value":"http://a","type":"string"},"key":{"value":"s3cret-value","type":"string","sensitive":true},"other":{"value":1}},"resources":[%s,{"mode":"data","instances":[{}]}]}`,
		serial, strings.Join(append(list, `{"mode":"data","instances":[]}`), ","))
}

func (tr *trial) wantState(want string) {
	tr.t.Helper()
	b, _, err := tr.store.Get(tr.t.Context(), tr.order.Spec.Workspace)
	if err != nil || string(b) != want {
		tr.t.Errorf("state %s, %v, want %s", b, err, want)
	}
}
