// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// registry returns a store's configuration, and the store.
func registry(t *testing.T) (object, *statebackend.Store) {
	t.Helper()
	repository := ocitest.New(t, ocitest.Quirks{}) + "/infra/state"
	r := must.Get(oci.OpenRepo(repository, oci.Options{}))(t)
	return object{"repository": repository}, statebackend.New(r, statebackend.Options{})
}

func stateOf(serial int, text string) []byte {
	return fmt.Appendf(nil, `{"version":4,"terraform_version":"1.16.0","serial":%d,"lineage":"8e5d2b5b-0f3f-4f2a-9d6b-0f0a3c1f7e11","outputs":{"text":{"value":%q,"type":"string"}},"resources":[]}`, serial, text)
}

// says: the first error has all of want, and one line.
func says(t *testing.T, a answer, want ...string) {
	t.Helper()
	if !a.Diagnostics.failed() {
		t.Fatalf("no error, want one with %q", want)
	}
	d := a.Diagnostics[0]
	if strings.Contains(d.Summary, "\n") || d.Summary == "" {
		t.Errorf("the summary is not one line: %q", d.Summary)
	}
	for _, w := range want {
		if !strings.Contains(d.Summary+"\n"+d.Detail, w) {
			t.Errorf("%q: %q does not say %q", d.Summary, d.Detail, w)
		}
	}
}

// TestRun performs the requests of a tool during an apply.
func TestRun(t *testing.T) {
	values, store := registry(t)
	p := start(t, values)
	if got := p.state("default"); got != nil {
		t.Errorf("the state of a new workspace: %s", got)
	}
	id := p.must(p.lock("default", "OperationTypeApply")).LockID
	held, err := store.Held(t.Context(), "default")
	if err != nil || held == nil || held.Info.ID != id || held.Info.Operation != "OperationTypeApply" || held.Info.Version != "terraform-provider-okara/0.0.1" {
		t.Errorf("held by %+v, %v", held, err)
	}
	for serial := range 3 {
		p.must(p.write("default", stateOf(serial, "x")))
	}
	if got := p.state("default"); string(got) != string(stateOf(2, "x")) {
		t.Errorf("read %s", got)
	}
	p.must(p.unlock("default", id))
	p.must(p.write("stage {1}/é", stateOf(0, "y"))) // without a lock of the tool
	if got := p.ask("GetStates", object{"typeName": storeName}).StateIDs; !slices.Equal(got, []string{"default", "stage {1}/é"}) {
		t.Errorf("workspaces %q", got)
	}
	state, v, err := store.Get(t.Context(), "default")
	if err != nil || string(state) != string(stateOf(2, "x")) || v.N != 3 || v.Why() == "" {
		t.Errorf("stored %s as %+v, %v", state, v, err)
	}
	p.must(p.ask("DeleteState", object{"typeName": storeName, "stateId": "stage {1}/é"}))
	if locks, err := store.Locks(t.Context()); err != nil || len(locks) > 0 {
		t.Errorf("locks %+v, %v", locks, err)
	}
	if got := p.ask("GetStates", object{"typeName": storeName}).StateIDs; !slices.Equal(got, []string{"default"}) {
		t.Errorf("workspaces %q", got)
	}
}

// TestSecond uses a second process while the first one holds the lock.
//
// Shows: jobs 6a
func TestSecond(t *testing.T) {
	values, _ := registry(t)
	first, second := start(t, values), start(t, values)
	id := first.must(first.lock("prod", "OperationTypeApply")).LockID
	first.must(first.write("prod", stateOf(1, "first")))
	says(t, second.lock("prod", "OperationTypePlan"), "is locked by ", id, "operation apply", "terraform-provider-okara/0.0.1, pid", "if that run is gone: okara state unlock ")
	says(t, second.write("prod", stateOf(2, "second")), "is locked by ", id)
	says(t, second.unlock("prod", "6f1c6b1e-55d0-4a9c-b6cf-3c7b3b8b5d0e"), "is locked by ", id)
	if got := second.state("prod"); string(got) != string(stateOf(1, "first")) {
		t.Errorf("read %s", got)
	}
	// After force-unlock the first process is fenced.
	second.must(second.unlock("prod", id))
	other := second.must(second.lock("prod", "OperationTypeApply")).LockID
	says(t, first.write("prod", stateOf(2, "late")), "taken over", "restore it with `okara state restore ")
	second.must(second.write("prod", stateOf(3, "second")))
	second.must(second.unlock("prod", other))
	if got := first.state("prod"); got != nil && string(got) == string(stateOf(2, "late")) {
		t.Error("the late write is the state")
	}
	third := start(t, values)
	if got := third.state("prod"); string(got) != string(stateOf(3, "second")) {
		t.Errorf("read %s", got)
	}
}

// TestKilled kills a process with a lock, which the next process shows and breaks.
//
// Shows: jobs 6a
func TestKilled(t *testing.T) {
	values, store := registry(t)
	first, second := start(t, values), start(t, values)
	id := first.must(first.lock("default", "OperationTypeApply")).LockID
	first.kill()
	says(t, second.lock("default", "OperationTypeApply"), id, "is locked by ")
	second.must(second.unlock("default", id))
	id = second.must(second.lock("default", "OperationTypeApply")).LockID
	second.must(second.write("default", stateOf(1, "x")))
	second.must(second.unlock("default", id))
	if _, v, err := store.Get(t.Context(), "default"); err != nil || v.N <= statebackend.Jump {
		t.Errorf("version %d, %v; want the jump of a takeover", v.N, err)
	}
}

// TestLockTimeout checks that the provider waits for a lock, since no tool does.
func TestLockTimeout(t *testing.T) {
	values, _ := registry(t)
	first := start(t, values)
	values["lock_timeout"] = "10m"
	second := start(t, values)
	id := first.must(first.lock("default", "OperationTypeApply")).LockID
	got := make(chan answer, 1)
	go func() { got <- second.lock("default", "OperationTypeApply") }()
	time.Sleep(time.Second) // the second one waits for the lock, or requests it later
	first.must(first.unlock("default", id))
	own := second.must(<-got).LockID
	second.must(second.unlock("default", own))
}

// TestStop: stopping ends waiting, explained, not a lock or write. Signals go to all processes, and
// Terraform sends no request while it waits.
func TestStop(t *testing.T) {
	for name, stop := range map[string]func(p *process){
		"the tool":        func(p *process) { p.must(p.ask("StopProvider", object{})) },
		"a terminal":      func(p *process) { p.signal(os.Interrupt) },
		"service manager": func(p *process) { p.signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			values, _ := registry(t)
			first := start(t, values)
			values["lock_timeout"] = "1h"
			second := start(t, values)
			id := first.must(first.lock("default", "OperationTypeApply")).LockID
			got := make(chan answer, 1)
			go func() { got <- second.lock("default", "OperationTypeApply") }()
			for answered := false; !answered; {
				stop(second)
				select {
				case a := <-got:
					says(t, a, id, "waited for ", "of 1h0m0s (lock_timeout)")
					answered = true
				case <-time.After(100 * time.Millisecond): // it was not waiting yet
				}
			}
			stop(first)
			first.must(first.write("default", stateOf(1, "x")))
			first.must(first.unlock("default", id))
		})
	}
}

// TestRefused checks configurations that are refused before any request is sent.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		values object
		want   []string
	}{
		"no repository": {object{}, []string{"no repository", "TF_BACKEND_OCI_REPOSITORY"}},
		"a scheme":      {object{"repository": "https://registry.example.com/x"}, []string{"has a scheme", "Hint: a repository is HOST"}},
		"a duration":    {object{"repository": "a/b", "lock_ttl": "5 minutes"}, []string{`argument "lock_ttl"`, "is not a duration"}},
		"no key":        {object{"repository": "a/b", "encryption": []object{{"type": "aes-gcm"}}}, []string{"an encryption block needs key_id"}},
		"back-off":      {object{"repository": "a/b", "retry": object{"initial_backoff": "10s", "max_backoff": "1s"}}, []string{"initial_backoff"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, nil)
			says(t, p.ask("ValidateStateStoreConfig", object{"typeName": storeName, "config": config(t, tt.values)}), tt.want...)
		})
	}
}

// TestLarge writes and reads a state of several chunks.
func TestLarge(t *testing.T) {
	values, _ := registry(t)
	p := start(t, values)
	state := stateOf(1, strings.Repeat("0123456789abcdef", (20<<20)/16))
	p.must(p.write("default", state))
	if got := p.state("default"); string(got) != string(state) {
		t.Errorf("%d bytes came back of %d", len(got), len(state))
	}
}
