// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
)

// Behaviour of tofu-controller, by the numbers of the operator's rules.

// name returns the variables of a run.
func name(value string) []any { return []any{map[string]any{"name": "name", "value": value}} }

// TestTrapSource (T1) shows that a Terraform can be deleted only while its source exists.
//
// Shows: traps T1 | a Terraform whose source is missing hangs when it is deleted
func TestTrapSource(t *testing.T) {
	r := newTrial(t)
	repository, terraform := r.source(), r.run(nil)
	r.ready(t, terraform)
	r.delete(t, repository)
	r.gone(t, repository)
	r.delete(t, terraform)
	r.says(t, terraform, "Stalled", "True")
	if !r.applied() {
		t.Error("it was destroyed without a source")
	}
	r.source()
	r.gone(t, terraform)
	if r.applied() {
		t.Error("nothing was destroyed")
	}
}

// TestTrapNamespace (T2) shows that a source in another namespace is refused.
//
// Shows: traps T2 | a source in another namespace is refused
func TestTrapNamespace(t *testing.T) {
	r := newTrial(t)
	terraform := r.run(func(spec map[string]any) {
		spec["sourceRef"].(map[string]any)["namespace"] = "default"
	})
	r.says(t, terraform, "Stalled", "True")
}

// TestTrapTag (T3) shows that with a tag a run uses the current module of the tag,
// without approval.
//
// Shows: traps T3 | with a tag, a plan uses whatever the tag points to at that time
func TestTrapTag(t *testing.T) {
	r := newTrial(t)
	next := r.publish("1.1.0", greeting+"# more")
	repository := r.source()
	terraform := r.run(func(spec map[string]any) { spec["approvePlan"] = "" })
	r.waits(terraform)
	if revision := text(t, terraform, "status", "lastPlannedRevision"); !strings.HasSuffix(revision, r.digest) {
		t.Errorf("planned %s, want %s", revision, r.digest)
	}
	r.set(repository, func(spec map[string]any) { spec["ref"] = map[string]any{"semver": "1.x"} })
	until(t, "the next version is planned", func() (bool, any) {
		r.read(t, terraform)
		revision := text(t, terraform, "status", "lastPlannedRevision")
		return strings.HasSuffix(revision, next.Digest), revision
	})
}

// TestTrapApproval (T4) shows that an approval that stays in place approves the next
// plan.
//
// Shows: traps T4 | an approval that is not removed approves the next plan
func TestTrapApproval(t *testing.T) {
	r := newTrial(t)
	r.source()
	terraform := r.run(func(spec map[string]any) { spec["approvePlan"] = "" })
	id := r.waits(terraform)
	if r.applied() {
		t.Fatal("it was applied without approval")
	}
	r.set(terraform, func(spec map[string]any) { spec["approvePlan"] = id })
	r.ready(t, terraform)
	r.set(terraform, func(spec map[string]any) { spec["vars"] = name("unseen") })
	until(t, "the next plan is applied", func() (bool, any) { s := r.stored(); return strings.Contains(s, "hello, unseen"), s })
	r.ready(t, terraform)

	// The same write has to revoke it.
	r.set(terraform, func(spec map[string]any) { spec["vars"], spec["approvePlan"] = name("seen"), "" })
	r.waits(terraform)
	if strings.Contains(r.stored(), "hello, seen") {
		t.Error("it was applied without approval")
	}
}

// TestTrapPending (T8) shows that a plan is briefly pending even if it needs no approval.
//
// Shows: traps T8 | a plan is briefly pending even if no approval is needed
func TestTrapPending(t *testing.T) {
	r := newTrial(t)
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("infra.contrib.fluxcd.io/v1alpha2")
	list.SetKind("TerraformList")
	w := must.Get(r.Watch(t.Context(), list, client.InNamespace(r.ns)))(t)
	defer w.Stop()
	r.source()
	r.run(nil)
	seen := false
	for e := range w.ResultChan() {
		o, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%+v", e.Object)
		}
		seen = seen || text(t, o, "status", "plan", "pending") != ""
		if text(t, o, "status", "lastAppliedRevision") != "" {
			break
		}
	}
	if !seen {
		t.Error("no plan was ever pending")
	}
}

// TestTrapSettings (T11, T16) shows that the repair of a Secret takes effect only with a
// requested run. A CLI configuration that tofu cannot read does not stop a run: it is
// ignored.
//
// Shows: traps T11 | a warning of the tool breaks each run
// Shows: traps T16 | the repair of a Secret or source is not noticed
func TestTrapSettings(t *testing.T) {
	r := newTrial(t)
	r.source()
	settings := r.secret("cli", "okara.hcl", "")
	terraform := r.run(func(spec map[string]any) {
		spec["cliConfigSecretRef"] = map[string]any{"name": settings.Name, "namespace": r.ns}
	})
	r.says(t, terraform, "Ready", "False")
	r.change(t, settings, func() { settings.Data = map[string][]byte{"okara.tfrc": []byte("credentials {")} })
	r.again(terraform)
	r.ready(t, terraform)
}

// TestTrapEnvironment (T12, T16) shows that environment variables from a Secret are read
// for each run.
//
// Shows: traps T12 | a token in the backend's settings is stored in plans
func TestTrapEnvironment(t *testing.T) {
	r := newTrial(t)
	r.source()
	tokens, token := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "token")
	okara := exec.CommandContext(t.Context(), okaraPath(), "admin", "token", "new", "run", "write:state:rig/**", "--token-file", tokens, "--write", token)
	if out, err := okara.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	right := must.Get(os.ReadFile(token))(t)
	r.token = "run"
	r.state = "http://" + serve(t, "--token-file", tokens) + "/state/rig/" + r.ns
	secret := r.secret(r.token, "token", "another")
	terraform := r.run(nil)
	r.says(t, terraform, "Ready", "False")
	r.change(t, secret, func() { secret.Data = map[string][]byte{"token": right} })
	r.again(terraform)
	r.ready(t, terraform)
}

// TestTrapSuspend (T13) shows that a suspended Terraform stays when it is deleted.
//
// Shows: traps T13 | a suspended Terraform is not destroyed
func TestTrapSuspend(t *testing.T) {
	r, other := newTrial(t), newTrial(t)
	r.source()
	other.source()
	terraform, next := r.run(nil), other.run(nil)
	r.ready(t, terraform)
	other.ready(t, next)
	r.set(terraform, func(spec map[string]any) { spec["suspend"] = true })
	r.delete(t, terraform)
	other.delete(t, next) // the controller reconciles one after the other
	other.gone(t, next)
	r.read(t, terraform)
	if !r.applied() {
		t.Error("it was destroyed")
	}
	r.set(terraform, func(spec map[string]any) { spec["suspend"] = false })
	r.gone(t, terraform)
	if r.applied() {
		t.Error("nothing was destroyed")
	}
}

// TestTrapSize (T14) shows that a module is sent in one message of 4 MiB.
//
// Shows: traps T14 | a module is sent in one message of at most 4 MiB
func TestTrapSize(t *testing.T) {
	r := newTrial(t)
	b := make([]byte, 5<<20) // incompressible
	must.Get(rand.Read(b))(t)
	r.digest = r.publish("1.1.0", greeting+"# "+base64.StdEncoding.EncodeToString(b)+"\n").Digest
	r.ready(t, r.source())
	r.says(t, r.run(nil), "Ready", "False")
	if r.applied() {
		t.Error("it was applied")
	}
}

// TestTrapGate (T17) shows that an approved plan is made anew, and that a webhook sees
// the new plan before it is applied.
//
// Shows: traps T17 | an approved plan is made again before it is applied
func TestTrapGate(t *testing.T) {
	r := newTrial(t)
	r.source()
	var mu sync.Mutex // guards the fields below
	passes, plans := false, 0
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var payload struct {
			Status struct {
				Plan struct {
					Changes []any `json:"resource_changes"`
				} `json:"tfplan"`
			} `json:"status"`
		}
		if err := json.NewDecoder(req.Body).Decode(&payload); err != nil || len(payload.Status.Plan.Changes) != 1 {
			t.Errorf("the gate was shown %+v: %v", payload, err)
		}
		plans++
		if err := json.NewEncoder(w).Encode(map[string]bool{"passed": passes}); err != nil {
			t.Error(err)
		}
	}))
	defer gate.Close()
	terraform := r.run(func(spec map[string]any) {
		spec["webhooks"] = []any{map[string]any{
			"stage": "post-planning", "url": gate.URL, "payloadType": "SpecAndPlan",
			"testExpression": "${{ .passed }}", "errorMessageTemplate": "refused",
		}}
	})
	until(t, "the gate saw a plan", func() (bool, any) { // until then the source may not exist
		mu.Lock()
		defer mu.Unlock()
		return plans > 0, plans
	})
	r.says(t, terraform, "Ready", "False")
	if r.applied() {
		t.Error("it was applied against the gate")
	}
	mu.Lock()
	passes = true
	before := plans
	mu.Unlock()
	r.again(terraform)
	r.ready(t, terraform)
	mu.Lock()
	defer mu.Unlock()
	if before == 0 || plans == before {
		t.Errorf("the gate saw %d plans, %d before it was open", plans, before)
	}
}
