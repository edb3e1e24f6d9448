// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const key = "base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="

// TestEncryption: states are sealed; without the key a hint, no key.
func TestEncryption(t *testing.T) {
	values, plain := registry(t)
	without := start(t, values)
	values["encryption"] = []object{{"key_id": key}}
	p := start(t, values)
	id := p.must(p.lock("default", "OperationTypeApply")).LockID
	p.must(p.write("default", stateOf(1, "secret")))
	p.must(p.unlock("default", id))
	if got := p.state("default"); !bytes.Equal(got, stateOf(1, "secret")) {
		t.Errorf("read %s", got)
	}
	if _, _, err := plain.Get(t.Context(), "default"); err == nil {
		t.Error("the state opens without its key")
	}
	r := must.Get(oci.OpenRepo(values["repository"].(string), oci.Options{}))(t)
	sealer := must.Get(envelope.New(envelope.Options{Keys: []string{key}}))(t)
	if got, _, err := statebackend.New(r, statebackend.Options{Sealer: sealer}).Get(t.Context(), "default"); err != nil || !bytes.Equal(got, stateOf(1, "secret")) {
		t.Errorf("another door reads %s, %v", got, err)
	}
	_, a := without.readData("okara_state", object{"repository": values["repository"]})
	says(t, a, "encryption in the backend block")
	if text := a.Diagnostics[0].Summary + a.Diagnostics[0].Detail; strings.Contains(text, "smGbjm71") {
		t.Errorf("%s has the key", text)
	}
}

// TestEnvironment reads the whole configuration from environment variables.
func TestEnvironment(t *testing.T) {
	values, store := registry(t)
	t.Setenv("TF_BACKEND_OCI_REPOSITORY", values["repository"].(string)+"/{workspace}")
	t.Setenv("TF_WORKSPACE", "prod")
	p := start(t, object{})
	p.must(p.write("prod", stateOf(1, "x")))
	if got := p.ask("GetStates", object{"typeName": storeName}).StateIDs; len(got) != 1 || got[0] != "prod" {
		t.Errorf("workspaces %q", got)
	}
	r := must.Get(oci.OpenRepo(store.Repo().String()+"/prod", oci.Options{}))(t)
	if _, _, err := statebackend.New(r, statebackend.Options{}).Get(t.Context(), "prod"); err != nil {
		t.Error(err)
	}
}

// TestReplicas are updated at unlock, and at each write without lock; one out of reach is a
// warning.
func TestReplicas(t *testing.T) {
	values, store := registry(t)
	replica := store.Repo().String() + "-copy"
	values["replicas"] = []string{replica, "127.0.0.1:1/nobody"}
	values["retry"] = object{"max_attempts": 1}
	p := start(t, values)
	id := p.must(p.lock("default", "OperationTypeApply")).LockID
	p.must(p.write("default", stateOf(1, "x")))
	checkReplica(t, replica, p.must(p.unlock("default", id)), stateOf(1, "x"))
	checkReplica(t, replica, p.must(p.write("default", stateOf(2, "y"))), stateOf(2, "y")) // -lock=false
}

// checkReplica: a warns, and this replica has the state.
func checkReplica(t *testing.T, replica string, a answer, want []byte) {
	t.Helper()
	if len(a.Diagnostics) != 1 || a.Diagnostics[0].Severity != "WARNING" || !strings.Contains(a.Diagnostics[0].Summary, "the replica is behind: ") || !strings.Contains(a.Diagnostics[0].Detail, "Hint: the next run updates it") {
		t.Errorf("diagnostics %+v", a.Diagnostics)
	}
	r := must.Get(oci.OpenRepo(replica, oci.Options{}))(t)
	if got, _, err := statebackend.New(r, statebackend.Options{}).Get(t.Context(), "default"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the replica has %s, %v", got, err)
	}
}
