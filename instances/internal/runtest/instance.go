// SPDX-License-Identifier: Apache-2.0

package runtest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
)

// StateKeys are the keys of all states, as in OKARA_STATE_KEYS.
const StateKeys = "base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="

// Instance is one instance with its repository.
type Instance struct {
	T     *testing.T
	Host  string // of its registry
	Repo  records.InstanceRepo
	Store *statebackend.Store
	Spec  *run.Attempt // of its last attempt
}

// NewInstance makes an instance that has had no attempt. The files are its module.
func NewInstance(t *testing.T, host string, files map[string]string) *Instance {
	t.Helper()
	name := host + "/okara/instances/sandbox/vpc/abc"
	repo := must.Get(oci.OpenRepo(name, oci.Options{}))(t)
	sealer := must.Get(envelope.New(envelope.Options{Keys: []string{StateKeys}}))(t)
	i := &Instance{T: t, Host: host, Repo: records.InstanceRepo{Repo: repo, Sealer: sealer}, Spec: &run.Attempt{
		Ref: lifecycle.Ref{ID: "abc", Kind: lifecycle.RunApply, N: 1}, Run: "sandbox/vpc abc run 1",
		Machine: run.Machine{Repository: name, Workspace: "default", Ledger: host + "/okara/ledger"},
		Source:  template.Source{Module: "net/vpc/aws", Version: "1.0.0"},
	}}
	i.Store = i.NewStore(repo)
	i.Module(files)
	return i
}

// NewStore returns a store of states in a repository.
func (i *Instance) NewStore(repo *oci.Repo) *statebackend.Store {
	return statebackend.New(repo, statebackend.Options{Sealer: i.Repo.Sealer, StrictReads: true})
}

// Module makes the files the source of the next attempts, without the size of their
// archive, as an older leader writes it, and returns that size.
func (i *Instance) Module(files map[string]string) (size int64) {
	i.T.Helper()
	blob := oci.BytesBlob(artifact.MediaZip, depottest.ZipOf(i.T, files))
	must.Get(i.Repo.Repo.EnsureBlob(i.T.Context(), blob))(i.T)
	i.Spec.Source.Archive = blob.Digest.String()
	return blob.Size
}

// Module returns a module with the steps of a stub.
func (s Script) Module() map[string]string {
	b, err := json.Marshal(s)
	if err != nil {
		return nil // strings and numbers always marshal
	}
	return map[string]string{"stub.json": string(b), "main.tf": "# nothing\n"}
}

// Next makes the specification that of another attempt.
func (i *Instance) Next() {
	ref := &i.Spec.Ref
	ref.Attempt++
	ref.Nonce = fmt.Sprintf("nonce-%d-%d", ref.N, ref.Attempt)
}

// Result reads the report of the last attempt, and its log.
func (i *Instance) Result() (run.Report, string) {
	i.T.Helper()
	r, files, err := run.ReadReport(i.T.Context(), i.Repo, i.Spec.Ref)
	if err != nil {
		i.T.Fatal(err)
	}
	log := must.Get(files.Log(i.T.Context()))(i.T)
	return r, string(log)
}

// MustBeFree fails the test if the lock of the state is held.
func (i *Instance) MustBeFree() {
	i.T.Helper()
	if held, err := i.Store.Held(i.T.Context(), i.Spec.Workspace); err != nil || held != nil {
		i.T.Errorf("the lock is held: %+v, %v", held, err)
	}
}

// WantState fails the test unless this is the current state.
func (i *Instance) WantState(want string) {
	i.T.Helper()
	if b, _, err := i.Store.Get(i.T.Context(), i.Spec.Workspace); err != nil || string(b) != want {
		i.T.Errorf("state %s, %v, want %s", b, err, want)
	}
}
