// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

func (e *executed) object(version, kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(e.ns)
	o.SetName(e.spec.Name)
	return o
}

// TestExecutor (T1, T7, T13) applies a run, and destroys it even without a source and
// while it is suspended.
//
// Shows: rig 4 | the operator's executor applies modules, waits for locks, reports drift and
// repairs it, destroys step by step or keeps
// Shows: traps T1
// Shows: traps T7 | outputs may outlive their Terraform
// Shows: traps T13
func TestExecutor(t *testing.T) {
	e := newExecuted(t)
	e.spec.Attempt = "1"
	got := e.reaches(fluxexec.Applied)
	if !strings.HasSuffix(got.AppliedRevision, e.digest) || got.Attempt != "1" {
		t.Errorf("%+v", got)
	}
	outputs, err := e.exec.Outputs(t.Context(), e.spec)
	if names := strings.Join(slices.Sorted(maps.Keys(outputs)), " "); err != nil || names != "list text" {
		t.Errorf("outputs %s: %v", names, err)
	}
	if changed, err := e.exec.Apply(t.Context(), e.spec); err != nil || changed {
		t.Errorf("it was written though nothing changed: %v", err)
	}
	// tofu-controller writes concurrently; a controller would reconcile again.
	must.Succeed(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { return e.exec.Cancel(t.Context(), e.spec) }))
	source := e.object("source.toolkit.fluxcd.io/v1", "OCIRepository")
	e.delete(t, source)
	e.gone(t, source)
	e.ends()
	if e.applied() {
		t.Error("nothing was destroyed")
	}
	e.gone(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: rawOutputs}})
}

// TestExecutorKeeps removes a run whose resources are kept.
//
// Shows: rig 4
func TestExecutorKeeps(t *testing.T) {
	e := newExecuted(t)
	e.reaches(fluxexec.Applied)
	e.spec.Keep = true
	e.ends()
	if !e.applied() {
		t.Error("it was destroyed")
	}
}

// TestExecutorRepairs (T16) checks that an invalid source is rewritten, and that a run
// follows.
//
// Shows: traps T16
func TestExecutorRepairs(t *testing.T) {
	e := newExecuted(t)
	right := e.spec.Module.Digest
	e.spec.Module.Digest = "sha256:" + strings.Repeat("0", 64)
	must.Get(e.exec.Apply(t.Context(), e.spec))(t)
	e.says(t, e.object("infra.contrib.fluxcd.io/v1alpha2", "Terraform"), "Ready", "False")
	e.spec.Module.Digest = right
	e.reaches(fluxexec.Applied)
	e.ends()
}

// TestExecutorWaits checks a run that waits for the lock of the state, and one that
// breaks it.
//
// Shows: rig 4
func TestExecutorWaits(t *testing.T) {
	const id = "0f0c6d0e-6f1d-4a9d-9b1e-0c1d2e3f4a5b"
	e := newExecuted(t)
	req := must.Get(http.NewRequestWithContext(t.Context(), "LOCK", e.state, strings.NewReader(fmt.Sprintf(`{"ID":%q,"Operation":"apply","Who":"somebody"}`, id))))(t)
	resp := must.Get(http.DefaultClient.Do(req))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	if got := e.reaches(fluxexec.Waiting); got.Reason != fluxexec.StateLocked || got.Lock != id {
		t.Errorf("%+v", got)
	}
	e.spec.ForceUnlock = id
	e.reaches(fluxexec.Applied)
	e.ends()
}

// TestExecutorReports checks a run that reports drift, and repairs it on request.
//
// Shows: rig 4
// Shows: traps T18
func TestExecutorReports(t *testing.T) {
	e := newExecuted(t)
	e.spec.Drift = fluxexec.DriftReport
	e.reaches(fluxexec.Applied)
	until(t, "it compares", func() (bool, any) {
		e.reaches(fluxexec.Applied)
		o := e.object("infra.contrib.fluxcd.io/v1alpha2", "Terraform")
		e.read(t, o)
		return text(t, o, "spec", "approvePlan") == "disable", o.Object["spec"]
	})
	e.store(strings.ReplaceAll(e.stored(), "hello, okara", "hello, world"))
	e.spec.Request = "look"
	if got := e.reaches(fluxexec.Drifted); !strings.Contains(got.Message, "hello, world") {
		t.Errorf("%+v", got)
	}
	if s := e.stored(); strings.Contains(s, "hello, okara") {
		t.Error("it was repaired")
	}
	e.spec.Attempt = "2"
	e.reaches(fluxexec.Applied)
	if s := e.stored(); !strings.Contains(s, "hello, okara") {
		t.Error("it was not repaired")
	}
	e.ends()
}

// TestExecutorSeals (T15) checks that plans and states are encrypted by OpenTofu.
//
// Shows: traps T15 | plans are stored in Secrets, with all variables
func TestExecutorSeals(t *testing.T) {
	e := newExecuted(t)
	secret := e.secret("encryption", "config", `
key_provider "pbkdf2" "key" {
  passphrase = "correct horse battery staple"
}
method "aes_gcm" "sealed" {
  keys = key_provider.pbkdf2.key
}
state {
  method   = method.aes_gcm.sealed
  enforced = true
}
plan {
  method   = method.aes_gcm.sealed
  enforced = true
}
`)
	e.spec.Encryption = &fluxexec.SecretKey{Secret: secret.Name, Key: "config"}
	e.reaches(fluxexec.Applied)
	if s := e.stored(); s == "" || strings.Contains(s, "hello") {
		t.Errorf("the state is %s", s)
	}
	e.ends()
}

// TestTrapDrift (T18) shows that without drift detection each run plans, and repairs.
//
// Shows: traps T18 | without drift detection each run repairs; with it, a plan that waits for
// approval is never made
func TestTrapDrift(t *testing.T) {
	r := newTrial(t)
	r.source()
	terraform := r.run(func(spec map[string]any) {
		spec["disableDriftDetection"], spec["interval"] = true, "2s"
	})
	r.ready(t, terraform)
	r.store(strings.ReplaceAll(r.stored(), "hello, okara", "hello, world"))
	until(t, "it is repaired", func() (bool, any) { s := r.stored(); return strings.Contains(s, "hello, okara"), s })
	r.delete(t, terraform) // it would continue to run without okara, and delay the next one
	r.gone(t, terraform)
}

// TestTrapManualDrift (T18) shows that with drift detection, a run whose plans wait for
// approval reports drift but never plans the repair. The executor's run plans it.
//
// Shows: traps T18
func TestTrapManualDrift(t *testing.T) {
	e := newExecuted(t)
	e.reaches(fluxexec.Applied)
	terraform := e.object("infra.contrib.fluxcd.io/v1alpha2", "Terraform")
	e.set(terraform, func(spec map[string]any) { spec["approvePlan"] = "" })
	e.ready(t, terraform)
	e.store(strings.ReplaceAll(e.stored(), "hello, okara", "hello, world"))
	e.again(terraform)
	e.says(t, terraform, "Ready", "False")
	if id := text(t, terraform, "status", "plan", "pending"); id != "" {
		t.Errorf("plan %s waits", id)
	}
	e.spec.Approval, e.spec.Interval.Duration = fluxexec.ApprovalManual, 2*time.Second
	if got := e.reaches(fluxexec.Planned); got.Plan.Reason != fluxexec.PlanGateMissing {
		t.Errorf("%+v", got.Plan)
	}
	e.ends()
}

// TestTrapValueFrom (T5) shows that valueFrom of a variable has no effect, while varsFrom
// works.
//
// Shows: traps T5 | `valueFrom` of a variable has no effect
func TestTrapValueFrom(t *testing.T) {
	e := newExecuted(t)
	e.source()
	secret := e.secret("values", "key", "secret")
	terraform := e.run(func(spec map[string]any) {
		spec["vars"] = []any{map[string]any{"name": "name", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": secret.Name, "key": "key"}}}}
	})
	e.says(t, terraform, "Ready", "False")
	e.set(terraform, func(spec map[string]any) {
		spec["vars"], spec["varsFrom"] = nil, []any{map[string]any{"kind": "Secret", "name": secret.Name, "varsKeys": []any{"key:name"}}}
	})
	e.ready(t, terraform)
	if s := e.stored(); !strings.Contains(s, "hello, secret") {
		t.Errorf("the state is %s", s)
	}
}
