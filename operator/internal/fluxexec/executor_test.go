// SPDX-License-Identifier: Apache-2.0

package fluxexec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// site has Flux's kinds without controllers, and the chart's rights.
type site struct {
	t *testing.T
	client.Client
	exec fluxexec.Executor
	spec fluxexec.Spec
}

func newSite(t *testing.T, name string) *site {
	t.Helper()
	config := cluster.Admin(t)
	rig.InstallFlux(t, config)
	c := must.Get(client.New(config, client.Options{}))(t)
	s := &site{t: t, Client: c, spec: run(t, name)}
	s.spec.Namespace, s.spec.UID = cluster.Namespace(t, nil).Name, "5f0c6d0e-6f1d-4a9d-9b1e-0c1d2e3f4a5b"
	operator := must.Get(client.New(cluster.Account(t, s.spec.Namespace), client.Options{}))(t)
	s.exec.Client = client.WithFieldValidation(operator, metav1.FieldValidationStrict)
	return s
}

// apply applies the run, and checks whether that changes anything.
func (s *site) apply(changes bool) {
	s.t.Helper()
	changed := must.Get(s.exec.Apply(s.t.Context(), s.spec))(s.t)
	must.Equal(s.t, "changed", changed, changes)
}

// live returns the Terraform, or nil.
func (s *site) live() *unstructured.Unstructured {
	return s.read("infra.contrib.fluxcd.io/v1alpha2", "Terraform")
}

func (s *site) read(version, kind string) *unstructured.Unstructured {
	s.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	err := s.Get(s.t.Context(), client.ObjectKey{Namespace: s.spec.Namespace, Name: s.spec.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

// status writes a status as tofu-controller does.
func (s *site) status(format string) {
	s.t.Helper()
	o := s.live()
	request := o.GetAnnotations()["reconcile.fluxcd.io/requestedAt"]
	merge(s.t, o, "status", strings.NewReplacer("GENERATION", string(must.Fixed(json.Marshal(o.GetGeneration()))), "REQUEST", request, "DIGEST", s.spec.Module.Digest).Replace(format))
	must.Succeed(s.t, s.Status().Update(s.t.Context(), o))
}

// planned records a waiting plan that the gate has seen.
func (s *site) planned(digest string) {
	s.t.Helper()
	s.status(`{plan: {pending: plan-1}, lastPlannedGeneration: GENERATION, lastPlannedRevision: DIGEST, lastHandledReconcileAt: REQUEST}`)
	s.gate(fluxexec.Gated{Digest: strings.Repeat(digest, 64), Generation: s.live().GetGeneration()})
}

func (s *site) gate(g fluxexec.Gated) {
	s.t.Helper()
	o := s.live()
	before := o.DeepCopy()
	annotations := o.GetAnnotations()
	annotations[fluxexec.AnnotationPlan] = string(must.Fixed(json.Marshal(g)))
	o.SetAnnotations(annotations)
	must.Succeed(s.t, s.Patch(s.t.Context(), o, client.MergeFrom(before)))
}

func (s *site) phase(want fluxexec.Phase) fluxexec.Status {
	s.t.Helper()
	got := must.Get(s.exec.Observe(s.t.Context(), s.spec))(s.t)
	if got.Phase != want {
		s.t.Errorf("%+v, want %s", got, want)
	}
	return got
}

func (s *site) approval(want string) {
	s.t.Helper()
	if got, _, _ := unstructured.NestedString(s.live().Object, "spec", "approvePlan"); got != want {
		s.t.Errorf("approvePlan is %q, want %q", got, want)
	}
}

// TestApply checks that the kinds of Flux have all fields of the objects, that nothing is
// written without a change, and that removed fields do not stay in an object.
//
// Shows: traps T16
func TestApply(t *testing.T) {
	for _, name := range []string{"small", "whole", "off", "compare"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, name)
			s.apply(true)
			s.apply(false)
			s.spec.Request += "again"
			s.apply(true)
			s.apply(false)
		})
	}
	t.Run("less", func(t *testing.T) {
		s := newSite(t, "whole")
		s.apply(true)
		s.spec.HealthChecks, s.spec.Runner.Image = nil, ""
		s.apply(true)
		o := s.live()
		_, checks, _ := unstructured.NestedSlice(o.Object, "spec", "healthChecks")
		_, image, _ := unstructured.NestedString(o.Object, "spec", "runnerPodTemplate", "spec", "image")
		if checks || image {
			t.Errorf("it stayed: %v", o.Object["spec"])
		}
		s.apply(false)
	})
	t.Run("source", func(t *testing.T) {
		s := newSite(t, "small")
		s.apply(true)
		before := s.live().GetAnnotations()["reconcile.fluxcd.io/requestedAt"]
		s.spec.Module.Digest = "sha256:" + strings.Repeat("0", 64)
		s.apply(true)
		if s.live().GetAnnotations()["reconcile.fluxcd.io/requestedAt"] == before {
			t.Error("nobody asked for a run of the new source") // T16
		}
		s.apply(false)
	})
}

// TestApplyTaken checks that objects of other owners are left alone, for each kind.
//
// Shows: operator 18
func TestApplyTaken(t *testing.T) {
	for _, kind := range []string{"OCIRepository", "Terraform"} {
		t.Run(kind, func(t *testing.T) {
			s := newSite(t, "small")
			theirs := s.spec
			theirs.UID = "another"
			must.Get(s.exec.Apply(t.Context(), theirs))(t)
			if kind == "OCIRepository" {
				must.Succeed(t, s.Delete(t.Context(), s.live()))
			}
			_, err := s.exec.Apply(t.Context(), s.spec)
			if e, ok := errors.AsType[*fluxobj.TakenError](err); !ok || e.Kind != kind {
				t.Errorf("%v", err)
			}
			if gone, err := s.exec.Destroy(t.Context(), s.spec); err != nil || kind == "Terraform" && !gone {
				t.Errorf("destroyed %t: %v", gone, err)
			}
			if _, err := s.exec.Clean(t.Context(), s.spec); err != nil {
				t.Error(err)
			}
			if s.read("source.toolkit.fluxcd.io/v1", "OCIRepository").GetLabels()["okara.dev/uid"] != "another" {
				t.Error("that of another was changed")
			}
		})
	}
}

// TestApprove follows a plan from waiting to its application (T4, T17).
//
// Shows: traps T4
// Shows: traps T17
func TestApprove(t *testing.T) {
	s := newSite(t, "small")
	s.spec.Approval, s.spec.Gate, s.spec.Module.Version = fluxexec.ApprovalManual, "https://gate.example.com/plan", "1.4.0"
	s.apply(true)
	stale := func(plan string) {
		t.Helper()
		if _, ok := errors.AsType[*fluxexec.StaleError](s.exec.Approve(t.Context(), s.spec, plan)); !ok {
			t.Errorf("%q was approved", plan)
		}
	}
	stale("1.4.0-e3b0c44298.aaaaaaaaaaaa") // no plan exists
	s.status(`{plan: {pending: plan-1}, lastPlannedGeneration: GENERATION, lastPlannedRevision: DIGEST, lastHandledReconcileAt: REQUEST}`)
	if _, ok := errors.AsType[*fluxexec.GateMissingError](s.exec.Approve(t.Context(), s.spec, "")); !ok {
		t.Error("a plan that nobody saw was approved")
	}
	s.planned("a")
	plan := s.phase(fluxexec.Planned).Plan.ID
	must.Equal(t, "the plan", plan, "1.4.0-e3b0c44298.aaaaaaaaaaaa")
	stale("1.4.0-e3b0c44298.bbbbbbbbbbbb")
	for range 2 { // the second call finds the plan approved
		must.Succeed(t, s.exec.Approve(t.Context(), s.spec, plan))
	}
	s.approval("plan-1")
	must.Equal(t, "approved", s.live().GetAnnotations()[fluxexec.AnnotationApproved], fluxexec.Approved(strings.Repeat("a", 64), s.live().GetGeneration()))
	s.apply(false) // while the plan is being applied
	s.phase(fluxexec.Running)

	s.status(`{plan: {pending: "", lastApplied: plan-1}}`)
	s.apply(true) // the approval was used
	s.approval("")

	s.planned("b")
	must.Succeed(t, s.exec.Approve(t.Context(), s.spec, s.phase(fluxexec.Planned).Plan.ID))
	s.gate(fluxexec.Gated{Digest: strings.Repeat("c", 64), Generation: s.live().GetGeneration(), Refused: true})
	s.apply(true) // the gate refused the plan
	s.approval("")

	s.planned("d")
	must.Succeed(t, s.exec.Approve(t.Context(), s.spec, s.phase(fluxexec.Planned).Plan.ID))
	s.spec.Variables = map[string]json.RawMessage{"name": []byte(`"unseen"`)}
	s.apply(true) // T4
	s.approval("")
}

// TestApplyReport checks that a run is applied once, and only compared from then on until
// it changes.
//
// Shows: traps T18
func TestApplyReport(t *testing.T) {
	s := newSite(t, "small")
	s.spec.Drift = fluxexec.DriftReport
	s.apply(true)
	s.approval("auto")
	s.status(`{conditions: [{type: Ready, status: "True", reason: Applied, message: "", lastTransitionTime: "2026-11-01T00:00:00Z"}], observedGeneration: GENERATION, lastPlannedRevision: DIGEST, lastHandledReconcileAt: REQUEST}`)
	s.phase(fluxexec.Applied)
	s.apply(true)
	s.approval("disable")
	s.apply(false)
	s.spec.Attempt = "2"
	s.apply(true)
	s.approval("auto")
}

// TestDestroy checks that the source exists as long as the Terraform, that a suspended
// Terraform is resumed, that it is destroyed with the values of the work and not with those
// of a change that failed, and that nothing is left (T1, T7, T13).
//
// Shows: traps T1
// Shows: traps T13
func TestDestroy(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := newSite(t, "small")
		s.spec.Approval, s.spec.Gate, s.spec.OutputsSecret = fluxexec.ApprovalManual, "https://gate.example.com/plan", "raw"
		s.spec.Module.Path, s.spec.Variables = "new", map[string]json.RawMessage{"size": []byte(`3`), "child": []byte(`"absent"`)}
		s.apply(true)
		o := s.live()
		o.SetFinalizers([]string{"finalizers.tf.contrib.fluxcd.io"})
		must.Succeed(t, s.Update(t.Context(), o))
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.spec.Namespace, Name: "raw", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "infra.contrib.fluxcd.io/v1alpha2", Kind: "Terraform", Name: s.spec.Name, UID: types.UID("gone")},
		}}}
		must.Succeed(t, s.Create(t.Context(), secret))
		for range 2 {
			must.Succeed(t, s.exec.Cancel(t.Context(), s.spec))
		}
		s.phase(fluxexec.Suspended)
		must.Succeed(t, s.Delete(t.Context(), s.read("source.toolkit.fluxcd.io/v1", "OCIRepository")))
		s.spec.Keep, s.spec.Module.Path, s.spec.Variables = keep, "", map[string]json.RawMessage{"size": []byte(`3`)}
		for range 5 {
			if gone, err := s.exec.Destroy(t.Context(), s.spec); err != nil || gone {
				t.Fatalf("gone %t: %v", gone, err)
			}
		}
		s.phase(fluxexec.Destroying)
		s.apply(false) // the Terraform is not recreated
		if s.read("source.toolkit.fluxcd.io/v1", "OCIRepository") == nil {
			t.Error("it has no source")
		}
		o = s.live()
		spec := o.Object["spec"].(map[string]any)
		if o.GetDeletionTimestamp() == nil || spec["suspend"] != false || spec["destroyResourcesOnDeletion"] != !keep || spec["webhooks"] != nil {
			t.Errorf("it is %v", o.Object)
		}
		must.Equal(t, "folder and values", fmt.Sprint(spec["path"], spec["vars"]), "<nil> [map[name:size value:3]]")
		version := o.GetResourceVersion()
		if _, err := s.exec.Destroy(t.Context(), s.spec); err != nil || s.live().GetResourceVersion() != version {
			t.Errorf("it was written while it waits: %v", err)
		}
		o.SetFinalizers(nil)
		must.Succeed(t, s.Update(t.Context(), o))
		if gone, err := s.exec.Destroy(t.Context(), s.spec); err != nil || !gone {
			t.Errorf("gone %t: %v", gone, err)
		}
		for range 2 {
			must.Get(s.exec.Clean(t.Context(), s.spec))(t)
		}
		if gone, err := s.exec.Clean(t.Context(), s.spec); err != nil || !gone {
			t.Errorf("something is left: %v", err)
		}
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
			t.Errorf("the outputs: %v", err)
		}
		s.phase(fluxexec.Absent)
	}
}
