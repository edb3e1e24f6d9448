// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestEveryReasonHelps: each reason that is not Ready has help.
func TestEveryReasonHelps(t *testing.T) {
	file := must.Get(parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/group.go", nil, 0))(t)
	// These reasons report success, or resolve themselves.
	well := []string{"Synced", "Behind", "Published", "Pruned", "Yanked", "Established", "Running", "Applied", "Destroying"}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		reason := must.Get(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
		n++
		if (helpOf(reason) == nil) != slices.Contains(well, reason) {
			t.Errorf("%s: %q", reason, helpOf(reason))
		}
		return true
	})
	if n < 20 {
		t.Errorf("%d reasons", n)
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	b, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{eventsv1.AddToScheme, corev1.AddToScheme} {
		must.Succeed(t, add(s))
	}
	return s
}

// TestExplain checks the page about an object that is being deleted and whose run fails.
func TestExplain(t *testing.T) {
	o := object(t, `
apiVersion: apps.okara.dev/v1alpha1
kind: VPC
metadata: {name: prod, namespace: tenant-acme, uid: u-1, generation: 3, deletionTimestamp: "2026-11-01T11:58:00Z", finalizers: [okara.dev/run]}
status:
  phase: Destroying
  namespace: okara-run-u-1
  module: {version: 1.4.0}
  conditions:
  - {type: Ready, status: "False", reason: DestroyFailed, message: "destroying failed 5 times", observedGeneration: 3, lastTransitionTime: "2026-11-01T11:50:00Z"}
  - {type: Stalled, status: "True", reason: DestroyFailed, observedGeneration: 3}
`)
	run := object(t, `
apiVersion: infra.contrib.fluxcd.io/v1alpha2
kind: Terraform
metadata: {name: vpc-prod, namespace: okara-run-u-1, labels: {okara.dev/uid: u-1}}
spec: {suspend: true}
status:
  conditions: [{type: Ready, status: "False", reason: TFExecApplyFailed, message: "Error: no credentials\n\non main.tf"}]
`)
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "tenant-acme"}, Regarding: corev1.ObjectReference{UID: "u-1"},
		Type: "Warning", Reason: "DestroyFailed", Note: "destroying failed 5 times", EventTime: metav1.NewMicroTime(now.Add(-2 * time.Minute)),
	}
	other := event.DeepCopy()
	other.Name, other.Regarding.UID, other.Note = "o", "u-2", "of another one"
	e := &Explainer{Client: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(run, event, other).Build(), Now: now}
	const want = `VPC tenant-acme/prod is not Ready: DestroyFailed, since 10m
    destroying failed 5 times
  It stays like this until you change something.
  It is being deleted, but kept by okara.dev/run.

  phase      Destroying
  version    1.4.0

It runs in namespace okara-run-u-1:
  Terraform vpc-prod: suspended; TFExecApplyFailed
    Error: no credentials
    on main.tf

Its last events:
  2m    Warning  DestroyFailed: destroying failed 5 times

What to do:
  fix the problem in the message, then
  kubectl annotate vpc.apps.okara.dev/prod -n tenant-acme --overwrite okara.dev/requestedAt="$(date)"   # retry now
  or abandon it, which leaves its resources to you:
  kubectl annotate vpc.apps.okara.dev/prod -n tenant-acme okara.dev/abandon=prod
  kubectl describe terraform.infra.contrib.fluxcd.io/vpc-prod -n okara-run-u-1
`
	must.Equal(t, "value", e.Explain(t.Context(), o), want)
}

// TestExplainPlan checks that the page shows the Approval for a plan.
func TestExplainPlan(t *testing.T) {
	o := object(t, `
apiVersion: apps.okara.dev/v1alpha1
kind: VPC
metadata: {name: prod, namespace: tenant-acme, uid: u-1, generation: 3}
status:
  plan: {pending: 1.4.0-14f2.9c41}
  conditions: [{type: Ready, status: "False", reason: Planned, message: "plan 1.4.0-14f2.9c41 is waiting for an Approval", observedGeneration: 2}]
`)
	e := &Explainer{Client: fake.NewClientBuilder().Build(), Now: time.Now()}
	got := e.Explain(t.Context(), o)
	for _, want := range []string{"This is for generation 2; the object is at 3.", "kind: Approval", `plan: "1.4.0-14f2.9c41", generation: 3`, "if this persists: kubectl get pods"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, got)
		}
	}
}

// TestExplainHeld: who approves which digest.
func TestExplainHeld(t *testing.T) {
	o := object(t, `
apiVersion: okara.dev/v1alpha1
kind: Version
metadata: {name: module-vpc-1.4.0, namespace: team-a, uid: u-1, generation: 1}
status:
  state: Waiting
  digest: sha256:14f2
  conditions:
  - {type: Ready, status: "False", reason: Held, message: "waiting for approval", observedGeneration: 1, lastTransitionTime: "2026-11-01T11:50:00Z"}
  - {type: Reconciling, status: "True", reason: Held, observedGeneration: 1}
`)
	const want = `Version team-a/module-vpc-1.4.0 is not Ready: Held, since 10m
    waiting for approval
  It waits for an approval or a rejection.

  state      Waiting
  digest     sha256:14f2
  plan       sha256:14f2 pending

What to do:
  it has to be approved or rejected
  create an Approval; read the plan first:
    {apiVersion: okara.dev/v1alpha1, kind: Approval, metadata: {name: module-vpc-1.4.0-1, namespace: team-a},
     spec: {target: {kind: Version, name: module-vpc-1.4.0}, plan: "sha256:14f2", generation: 1, approver: YOU}}
`
	e := &Explainer{Client: fake.NewClientBuilder().WithScheme(scheme(t)).Build(), Now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	must.Equal(t, "value", e.Explain(t.Context(), o), want)
}

// TestExplainUnseen: why no controller may have been there.
func TestExplainUnseen(t *testing.T) {
	e := &Explainer{Client: fake.NewClientBuilder().WithScheme(scheme(t)).Build(), Now: time.Now()}
	for kind, elsewhere := range map[string]bool{"Template": true, "Instance": false, "Module": false} {
		got := e.Explain(t.Context(), object(t, "apiVersion: okara.dev/v1alpha1\nkind: "+kind+"\nmetadata: {name: a, namespace: team-a}\n"))
		if !strings.Contains(got, "has not processed it yet") || !strings.Contains(got, "--watch") || strings.Contains(got, "--instances-namespace") != elsewhere {
			t.Errorf("%s", got)
		}
	}
}
