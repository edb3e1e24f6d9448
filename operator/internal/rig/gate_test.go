// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/retry"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/plangate"
)

// executed is a run that the operator's executor carries out.
type executed struct {
	*trial
	exec fluxexec.Executor
	spec fluxexec.Spec
}

func newExecuted(t *testing.T) *executed {
	t.Helper()
	r := newTrial(t)
	e := &executed{trial: r, exec: fluxexec.Executor{Client: r.WithWatch}, spec: r.spec()}
	e.spec.UID = "5f0c6d0e-6f1d-4a9d-9b1e-0c1d2e3f4a5b"
	e.spec.RetryInterval.Duration = 2 * time.Second // shortens the test
	return e
}

// reaches applies the run repeatedly, like a controller, until it has the given phase.
func (e *executed) reaches(want fluxexec.Phase) fluxexec.Status {
	e.t.Helper()
	var got fluxexec.Status
	until(e.t, "the run is "+string(want), func() (bool, any) {
		must.Get(e.exec.Apply(e.t.Context(), e.spec))(e.t)
		var err error
		if got, err = e.exec.Observe(e.t.Context(), e.spec); err != nil {
			e.t.Fatal(err)
		}
		return got.Phase == want, got
	})
	return got
}

// ends destroys the run and requires that nothing is left.
func (e *executed) ends() {
	e.t.Helper()
	until(e.t, "it is destroyed", func() (bool, any) { gone, err := e.exec.Destroy(e.t.Context(), e.spec); return gone, err })
	until(e.t, "nothing is left", func() (bool, any) { gone, err := e.exec.Clean(e.t.Context(), e.spec); return gone, err })
}

// TestGateHolds (T4, T7, T8, T17) checks that exactly the approved plan is applied. If
// the state changes after a plan was made, its approval is refused and a new plan waits.
//
// Shows: traps T4
// Shows: traps T6
// Shows: traps T17
func TestGateHolds(t *testing.T) {
	e := newExecuted(t)
	gate := httptest.NewServer(plangate.New(e.WithWatch, func() ([]byte, error) { return []byte("key"), nil }, slog.New(slog.DiscardHandler)))
	defer gate.Close()
	e.spec.Approval, e.spec.Gate = fluxexec.ApprovalManual, gate.URL+plangate.Path

	first := e.reaches(fluxexec.Planned).Plan
	if first.ID == "" || first.Adds != 1 || first.Changes+first.Removes != 0 {
		t.Fatalf("the plan is %+v", first)
	}
	if e.applied() {
		t.Fatal("it was applied without approval")
	}
	e.approve(first.ID)
	e.reaches(fluxexec.Applied)
	if s := e.stored(); !strings.Contains(s, "hello, okara") {
		t.Fatalf("the state is %s", s)
	}

	e.spec.Variables = map[string]json.RawMessage{"name": []byte(`"two"`)}
	second := e.reaches(fluxexec.Planned).Plan
	e.store(strings.ReplaceAll(e.stored(), "hello, okara", "hello, world"))
	e.approve(second.ID)
	until(t, "another plan waits", func() (bool, any) {
		got := e.reaches(fluxexec.Planned)
		return got.Plan.ID != "" && got.Plan.ID != second.ID, got.Plan
	})
	if s := e.stored(); strings.Contains(s, "hello, two") {
		t.Fatal("a plan was applied that nobody saw")
	}
	e.approve(e.reaches(fluxexec.Planned).Plan.ID)
	e.reaches(fluxexec.Applied)
	if s := e.stored(); !strings.Contains(s, "hello, two") {
		t.Fatalf("the state is %s", s)
	}
	outputs, err := e.exec.Outputs(t.Context(), e.spec)
	if err != nil || outputs["text"].Text() != "hello, two" || outputs["list"].Text() != `["a","b"]` || len(outputs) != 2 { // T6
		t.Errorf("the outputs are %v: %v", outputs, err)
	}
	e.ends()
	if e.applied() {
		t.Error("nothing was destroyed")
	}
}

func (e *executed) approve(plan string) {
	e.t.Helper()
	// tofu-controller writes concurrently; a controller would reconcile again.
	must.Succeed(e.t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { return e.exec.Approve(e.t.Context(), e.spec, plan) }))
}

// store replaces the stored state, as another run would.
func (r *trial) store(state string) {
	r.t.Helper()
	var s map[string]any
	must.Succeed(r.t, json.Unmarshal([]byte(state), &s))
	s["serial"] = s["serial"].(float64) + 1
	b := must.Get(json.Marshal(s))(r.t)
	resp := must.Get(http.Post(r.state, "application/json", strings.NewReader(string(b))))(r.t)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		r.t.Fatal(resp.Status)
	}
}
