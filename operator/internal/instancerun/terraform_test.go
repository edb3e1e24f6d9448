// SPDX-License-Identifier: Apache-2.0

package instancerun_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/instancerun"
	"github.com/seed-141914ff/okara/operator/internal/rig"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// front plays an okara serve that allows all, and keeps a state while it has resources.
type front struct {
	resources bool
	lost      bool // the state belongs to another owner
	released  int
}

func (f *front) Check(_ context.Context, r runaccess.Run) error {
	if f.lost {
		return &runaccess.NotOwnerError{State: "prod." + r.Namespace, Workspace: r.Workspace, Owner: "run:okara-instances/other"}
	}
	return nil
}

func (f *front) ListLeaves(context.Context, runaccess.Run) ([]string, error) {
	return []string{"terraform_data.kept", `module.a.terraform_data.kept["x"]`}, nil
}

func (f *front) Prepare(_ context.Context, r runaccess.Run) (runaccess.Ready, error) {
	return runaccess.Ready{
		State: fluxexec.State{Address: "https://okara.test/state/prod." + r.Namespace + "/" + r.Workspace, TokenSecret: r.Name + "-okara-run"}, Request: "1",
	}, nil
}

func (f *front) Release(ctx context.Context, r runaccess.Run) error {
	if f.lost {
		return f.Check(ctx, r)
	}
	if f.resources {
		return &runaccess.KeptError{State: "prod." + r.Namespace, Workspace: r.Workspace, Why: "it has resources"}
	}
	f.released++
	return nil
}

func (f *front) Clean(context.Context, runaccess.Run) (bool, error) { return true, nil }

// site is an API server without controllers: tests write what these would write.
type site struct {
	t *testing.T
	client.Client
	front front
	exec  *instancerun.Flux
	a     run.Attempt

	secret *corev1.Secret // credentials of the operator's namespace
}

func newSite(t *testing.T) *site {
	t.Helper()
	config := cluster.Admin(t)
	rig.InstallFlux(t, config)
	scheme := runtime.NewScheme()
	must.Succeed(t, fluxobj.AddToScheme(scheme))
	c := must.Get(client.New(config, client.Options{Scheme: scheme}))(t)
	if err := c.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fluxobj.Account}}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	s := &site{t: t, Client: c}
	operator := cluster.Namespace(t, nil).Name
	own := must.Get(client.New(cluster.Account(t, operator), client.Options{Scheme: scheme}))(t) // has the chart's rights
	s.exec = instancerun.New(instancerun.Options{
		Client: own, Flux: &fluxexec.Executor{Client: client.WithFieldValidation(own, metav1.FieldValidationStrict)}, Access: &s.front,
		Registry: "registry.test", Instances: "okara-instances", Operator: operator, Gate: "https://gate.test/plan",
	})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: "aws", Annotations: map[string]string{"okara.dev/use": "instances"}},
		Data:       map[string][]byte{"AWS_REGION": []byte("eu"), "AWS_KEY": []byte("k")},
	}
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: "other"}}
	for _, o := range []client.Object{secret, other} {
		must.Succeed(t, c.Create(t.Context(), o))
	}
	s.secret = secret
	s.a = run.Attempt{
		Ref:     lifecycle.Ref{ID: "abcdefghjk", Kind: lifecycle.RunApply, N: 1, Attempt: 1, Nonce: "0123456789"},
		Cluster: run.Cluster{UID: "5f0c6d0e-6f1d-4a9d-9b1e-0c1d2e3f4a5b", Namespace: cluster.Namespace(t, nil).Name},
		Outputs: []string{"url"}, Credentials: []string{"aws"},
		Source:    template.Source{Module: "net/vpc/aws", Version: "1.0.0", Digest: "sha256:" + strings.Repeat("a", 64)},
		Variables: map[string]json.RawMessage{"size": json.RawMessage(`"large"`)},
	}
	return s
}

// run advances the attempt, and checks its state.
func (s *site) run(want run.State) run.Status {
	s.t.Helper()
	st := must.Get(s.exec.Advance(s.t.Context(), s.a))(s.t)
	if st.State != want {
		s.t.Fatalf("%+v, want %s", st, want)
	}
	return st
}

// terraform returns the Terraform in the cluster, nil if there is none.
func (s *site) terraform() *unstructured.Unstructured {
	s.t.Helper()
	return findObject(s.t, s, s.a, "infra.contrib.fluxcd.io/v1alpha2", "Terraform")
}

// says writes a status as tofu-controller does.
func (s *site) says(ready, reason string, more map[string]any) {
	s.t.Helper()
	o := s.terraform()
	status := map[string]any{
		"observedGeneration": o.GetGeneration(), "lastPlannedRevision": s.a.Source.Digest, "lastAppliedRevision": s.a.Source.Digest,
		"lastHandledReconcileAt": o.GetAnnotations()["reconcile.fluxcd.io/requestedAt"],
		"conditions": []any{map[string]any{
			"type": "Ready", "status": ready, "reason": reason, "message": "it says so", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": o.GetGeneration(),
		}},
	}
	maps.Copy(status, more)
	o.Object["status"] = status
	must.Succeed(s.t, s.Status().Update(s.t.Context(), o))
}

// finalize keeps the Terraform by a finalizer as tofu-controller does, or removes that.
func (s *site) finalize(keep bool) {
	s.t.Helper()
	o := s.terraform()
	o.SetFinalizers(nil)
	if keep {
		o.SetFinalizers([]string{"test.okara.dev/destroys"})
	}
	must.Succeed(s.t, s.Update(s.t.Context(), o))
}

// source writes the status of a source: why the fetch failed, or "" if it succeeded.
func (s *site) source(wrong string) {
	s.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("source.toolkit.fluxcd.io/v1")
	o.SetKind("OCIRepository")
	must.Succeed(s.t, s.Get(s.t.Context(), client.ObjectKey{Namespace: s.a.Namespace, Name: s.a.ID}, o))
	status := "True"
	if wrong != "" {
		status = "False"
	}
	o.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": status, "reason": "OCIArtifactPullFailed", "message": wrong, "observedGeneration": o.GetGeneration(), "lastTransitionTime": "2026-01-02T03:04:05Z",
	}}}
	must.Succeed(s.t, s.Status().Update(s.t.Context(), o))
}

// TestTerraform follows an attempt from nothing to its outputs, and to its end.
//
// Shows: operator 41 | what runs of instances receive, and what happens to their states and Secrets
func TestTerraform(t *testing.T) {
	s := newSite(t)
	s.run(run.Running)
	spec := fmt.Sprint(s.terraform().Object["spec"])
	for _, want := range []string{"okara-runner", "instance.abcdefghjk", "okara-credential-aws", "AWS_REGION", "large", "auto"} {
		if !strings.Contains(spec, want) {
			t.Errorf("the Terraform does not say %q: %s", want, spec)
		}
	}
	if strings.Contains(spec, "eu") && strings.Contains(spec, "value:k") {
		t.Errorf("the Terraform has a credential: %s", spec)
	}
	generation := s.terraform().GetGeneration()
	s.run(run.Running)
	must.Equal(t, "a second look changed it", s.terraform().GetGeneration(), generation)
	s.says("False", "ArtifactFailed", nil)
	if st := s.run(run.Running); st.Waiting != "" {
		t.Errorf("a source that is being fetched: %+v", st)
	}
	s.source("no such host")
	if st := s.run(run.Running); st.Waiting != lifecycle.WaitRetry || st.Message != "no such host" {
		t.Errorf("a source that does not come: %+v", st)
	}
	s.source("")
	s.says("False", "ArtifactFailed", map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "ArtifactFailed", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "Source is not ready, artifact not found",
	}}})
	if st := s.run(run.Running); st.Waiting != "" {
		t.Errorf("a source that has just come: %+v", st)
	}
	s.says("False", "TFExecApplyFailed", map[string]any{"reconciliationFailures": int64(1)})
	if st := s.run(run.Running); st.Waiting != lifecycle.WaitRetry || st.Message != "it says so" {
		t.Errorf("%+v", st)
	}
	outputs := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.a.Namespace, Name: "abcdefghjk-okara-raw"},
		Data:       map[string][]byte{"url": []byte("https://a.example.com"), "other": []byte("x")},
	}
	must.Succeed(t, s.Create(t.Context(), outputs))
	s.says("True", "NoDrift", nil)
	st := s.run(run.Ended)
	if st.Result.Outcome != lifecycle.Done || len(st.Result.Outputs) != 1 || string(st.Result.Outputs["url"]) != `"https://a.example.com"` {
		t.Errorf("%+v", st.Result)
	}

	s.finalize(true)
	s.a.Kind, s.a.N, s.front.resources = lifecycle.RunDestroy, 2, true
	s.run(run.Running)
	if s.terraform().GetDeletionTimestamp() == nil {
		t.Error("it is not deleted")
	}
	s.run(run.Running) // resumes it
	s.says("False", "DestroyFailed", nil)
	if st := s.run(run.Ended); st.Result.Outcome != lifecycle.RunFailed || st.Result.Left != nil {
		t.Errorf("%+v", st.Result)
	}
	s.says("False", "DestroyFailed", map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "TFExecApplyFailed", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": s.terraform().GetGeneration(),
		"message": "error running Destroy: exit status 1\n\nError: Destroy was successful but left behind\nforgotten instances\n", // of OpenTofu 1.12.6
	}}})
	must.Match(t, "left behind", s.run(run.Ended).Result.Left, []string{"terraform_data.kept", `module.a.terraform_data.kept["x"]`})
	s.a.Attempt, s.a.Started = 2, time.Now().Add(time.Minute)
	s.run(run.Running) // the failure is older than this attempt
	s.a.Started = time.Now()
	s.finalize(false)
	if st := s.run(run.Ended); st.Result.Outcome != lifecycle.RunFailed || st.Result.Resources != 1 || !strings.Contains(st.Result.Error, "it has resources") {
		t.Errorf("a state with resources: %+v", st.Result)
	}
	s.front.resources = false
	for s.front.released == 0 {
		st := must.Get(s.exec.Advance(t.Context(), s.a))(t)
		if st.State == run.Ended && st.Result.Outcome != lifecycle.Done {
			t.Fatalf("%+v", st.Result)
		}
	}
}

// TestTerraformNamespaceGone checks that what an instance left in a deleted namespace
// counts as removed: the right to look there went with the namespace.
//
// Shows: operator 28
func TestTerraformNamespaceGone(t *testing.T) {
	s := newSite(t)
	s.run(run.Running)
	s.finalize(false)
	s.a.Kind, s.a.N = lifecycle.RunDestroy, 2
	for range 10 {
		if st, err := s.exec.Advance(t.Context(), s.a); err != nil || st.State == run.Ended {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	release := func(what string) {
		t.Helper()
		if gone, err := s.exec.Release(t.Context(), s.a); err != nil || !gone {
			t.Errorf("%s: %t, %v", what, gone, err)
		}
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.a.Namespace, Name: "okara-operator-secrets"}}
	must.Succeed(t, s.Delete(t.Context(), binding))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.a.Namespace}}
	must.Succeed(t, s.Get(t.Context(), client.ObjectKeyFromObject(ns), ns))
	fluxobj.Mark(ns, types.UID(s.a.UID))
	must.Succeed(t, s.Update(t.Context(), ns))
	release("without the right, in a namespace that is removed as a whole")
	must.Succeed(t, s.Delete(t.Context(), ns))
	release("it goes")
	set, err := kubernetes.NewForConfig(cluster.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	if ns, err = set.CoreV1().Namespaces().Get(t.Context(), ns.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	ns.Spec.Finalizers = nil
	must.Get(set.CoreV1().Namespaces().Finalize(t.Context(), ns, metav1.UpdateOptions{}))(t)
	release("it is gone")
}

// TestTerraformRestored: another owner's state is left alone.
func TestTerraformRestored(t *testing.T) {
	s := newSite(t)
	s.run(run.Running)
	s.finalize(true)
	s.front.lost = true
	s.says("False", "TFExecInitFailed", map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "TFExecInitFailed", "message": "Unexpected HTTP response code 409", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}})
	if st := s.run(run.Ended); st.Result.Outcome != lifecycle.RunFailed || !strings.Contains(st.Result.Error, "belongs to run:okara-instances/other") {
		t.Errorf("%+v", st.Result)
	}
	if suspended, _, _ := unstructured.NestedBool(s.terraform().Object, "spec", "suspend"); !suspended {
		t.Error("another run may begin")
	}
	s.a.Kind, s.a.N = lifecycle.RunDestroy, 2
	for range 10 {
		st := must.Get(s.exec.Advance(t.Context(), s.a))(t)
		if o := s.terraform(); o != nil {
			if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); !suspended {
				t.Fatal("it is destroyed")
			}
		}
		if st.State == run.Ended {
			if st.Result.Outcome != lifecycle.Done || s.terraform() != nil || s.front.released != 0 {
				t.Errorf("%+v, released %d", st.Result, s.front.released)
			}
			return
		}
	}
	t.Error("it does not end")
}

// TestTerraformPlans makes a plan that waits, and applies exactly that.
//
// Shows: operator 41
func TestTerraformPlans(t *testing.T) {
	s := newSite(t)
	s.a.Kind = lifecycle.RunPlan
	s.run(run.Running)
	s.says("Unknown", "TerraformPlannedWithChanges", map[string]any{"plan": map[string]any{"pending": "plan-1"}, "lastPlannedGeneration": s.terraform().GetGeneration()})
	if st := s.run(run.Running); st.Waiting != fluxexec.PlanGateMissing {
		t.Errorf("nobody saw it: %+v", st)
	}
	o := s.terraform()
	gated := must.Get(json.Marshal(fluxexec.Gated{Digest: strings.Repeat("b", 64), Generation: o.GetGeneration(), Actions: fluxexec.Actions{Adds: 2, Forgets: 1, Notes: []fluxexec.Note{{Kind: lifecycle.NoteForget, Text: "a.b"}}}}))(t)
	before := o.DeepCopy()
	annotations := o.GetAnnotations()
	annotations[fluxexec.AnnotationPlan] = string(gated)
	o.SetAnnotations(annotations)
	must.Succeed(t, s.Patch(t.Context(), o, client.MergeFrom(before)))
	st := s.run(run.Ended)
	if st.Result.Plan != "1.0.0-aaaaaaaaaa.bbbbbbbbbbbb" || st.Result.Counts.Words(false) != "2 to add, 0 to change, 0 to destroy, 1 to forget" || len(st.Result.Notes) != 1 {
		t.Errorf("%+v", st.Result)
	}
	s.a.Kind, s.a.Approved = lifecycle.RunApply, "1.0.0-aaaaaaaaaa.cccccccccccc"
	if st := s.run(run.Ended); st.Result.Outcome != lifecycle.Stale {
		t.Errorf("another plan: %+v", st.Result)
	}
	s.a.Approved = "1.0.0-aaaaaaaaaa.bbbbbbbbbbbb"
	s.run(run.Running)
	if got, _, _ := unstructured.NestedString(s.terraform().Object, "spec", "approvePlan"); got != "plan-1" {
		t.Errorf("approvePlan is %q", got)
	}
}

// TestCredentialsAgree checks that a Secret without the annotation is not used.
//
// Shows: operator 41
func TestCredentialsAgree(t *testing.T) {
	s := newSite(t)
	s.a.Credentials = []string{"other"}
	if _, err := s.exec.Advance(t.Context(), s.a); err == nil || !strings.Contains(err.Error(), "does not allow this use") {
		t.Error(err)
	}
	if s.terraform() != nil {
		t.Error("it runs")
	}
}

// TestCancelWithoutCredentials checks that an attempt without its credentials cannot
// continue, but can be cancelled, before its Terraform exists and afterwards.
//
// Shows: operator 28
func TestCancelWithoutCredentials(t *testing.T) {
	for _, began := range []bool{false, true} {
		s := newSite(t)
		if began {
			s.run(run.Running)
		}
		must.Succeed(t, s.Delete(t.Context(), s.secret))
		if _, err := s.exec.Advance(t.Context(), s.a); err == nil || !strings.Contains(err.Error(), "credentials: ") {
			t.Errorf("began %t: %v", began, err)
		}
		s.a.Cancelled = true
		if st := s.run(run.Ended); st.Result.Outcome != lifecycle.Cancelled {
			t.Errorf("began %t: %+v", began, st)
		}
		if !began && s.terraform() != nil {
			t.Error("it runs")
		}
	}
}
