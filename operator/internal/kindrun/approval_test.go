// SPDX-License-Identifier: Apache-2.0

package kindrun_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// planned plays tofu-controller and the plan gate when a plan waits.
func (s *site) planned(o *unstructured.Unstructured, id string) string {
	s.t.Helper()
	run := s.terraform(o)
	run.SetAnnotations(with(run.GetAnnotations(), "okara.dev/plan", fmt.Sprintf(`{"digest":"%s","generation":%d,"adds":1}`, id+strings.Repeat("0", 64-len(id)), run.GetGeneration())))
	must.Succeed(s.t, s.Update(s.t.Context(), run))
	text := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: runs(o), Name: "tfplan-default-vpc-prod"}, Data: map[string]string{"tfplan": "+ vpc " + id}}
	must.Succeed(s.t, client.IgnoreNotFound(s.Delete(s.t.Context(), text.DeepCopy())))
	must.Succeed(s.t, s.Create(s.t.Context(), text))
	s.controller(o, "Unknown", "TerraformPlannedWithChanges", "", map[string]any{
		"plan": map[string]any{"pending": "plan-" + id}, "lastPlannedRevision": "1.4.0@" + digest, "lastPlannedGeneration": run.GetGeneration(),
	})
	return "1.4.0-" + digest[7:17] + "." + (id + strings.Repeat("0", 12))[:12]
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// approve creates an Approval, and returns a function that reads its result.
func (s *site) approve(o *unstructured.Unstructured, name, plan string, generation int64, decision v1alpha1.Decision) func() v1alpha1.ApprovalResult {
	s.t.Helper()
	a := &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: name}, Spec: v1alpha1.ApprovalSpec{
		Target: v1alpha1.ApprovalTarget{Kind: "VPC", Name: o.GetName()}, Plan: plan, Generation: generation, Approver: "alice", Decision: decision,
	}}
	must.Succeed(s.t, s.Create(s.t.Context(), a))
	return func() v1alpha1.ApprovalResult {
		s.t.Helper()
		s.read(a, s.tenant, name)
		return a.Status.Result
	}
}

func pending(o *unstructured.Unstructured) bool {
	is, _, _ := unstructured.NestedBool(o.Object, "status", "pendingApproval")
	return is
}

// TestApproval checks that a plan is waiting for an Approval of that plan, at this generation.
//
// Shows: kinds 1
func TestApproval(t *testing.T) {
	s := newSite(t, func(spec *v1alpha1.ModuleKindSpec) { spec.Run.Approval.Mode = v1alpha1.ApprovalPlan })
	o := s.vpc(nil)
	s.step(o)
	if pending(o) {
		t.Error("nothing waits yet")
	}
	plan := s.planned(o, "9c41d07b55e2")
	s.step(o)
	s.says(o, false, v1alpha1.ReasonPlanned)
	if !pending(o) || text(o, "status", "plan", "pending") != plan || text(o, "status", "phase") != "Planned" {
		t.Fatalf("the status is %+v, want plan %s", o.Object["status"], plan)
	}
	shown := &corev1.ConfigMap{}
	s.read(shown, s.tenant, text(o, "status", "plan", "configMap"))
	if shown.Data["tfplan"] != "+ vpc 9c41d07b55e2" {
		t.Errorf("the plan reads %q", shown.Data)
	}

	other := s.approve(o, "other", "1.4.0-14f2e7e131.000000000000", 1, v1alpha1.DecisionApprove)
	older := s.approve(o, "older", plan, 7, v1alpha1.DecisionApprove)
	s.step(o)
	if other() != v1alpha1.ApprovalStale || older() != v1alpha1.ApprovalStale {
		t.Errorf("another plan is %s, another generation %s", other(), older())
	}
	if got := text(s.terraform(o), "spec", "approvePlan"); got != "" {
		t.Fatalf("approvePlan is %q", got)
	}
	right := s.approve(o, "right", plan+"@1", 1, v1alpha1.DecisionApprove)
	s.step(o)
	if right() != v1alpha1.ApprovalAccepted || text(s.terraform(o), "spec", "approvePlan") != "plan-9c41d07b55e2" {
		t.Fatalf("it is %s, approvePlan %q", right(), text(s.terraform(o), "spec", "approvePlan"))
	}
	s.applied(o)
	s.step(o)
	s.applied(o) // approvePlan is removed again, which is a change
	s.step(o)
	s.says(o, true, v1alpha1.ReasonApplied)
	if right() != v1alpha1.ApprovalApplied || pending(o) || text(s.terraform(o), "spec", "approvePlan") != "" {
		t.Errorf("it is %s, approvePlan %q", right(), text(s.terraform(o), "spec", "approvePlan"))
	}
	if s.there(shown, s.tenant, shown.Name) {
		t.Error("the text of a plan that is applied is left")
	}

	next := s.planned(o, "77aa07b55e21")
	s.step(o)
	no := s.approve(o, "no", next, 0, v1alpha1.DecisionReject)
	s.step(o)
	s.says(o, true, v1alpha1.ReasonApplied)
	if no() != v1alpha1.ApprovalRejected || pending(o) || text(s.terraform(o), "spec", "approvePlan") != "" {
		t.Errorf("it is %s, and the status %+v", no(), o.Object["status"])
	}
	s.step(o)
	s.says(o, true, v1alpha1.ReasonApplied)
}

// request changes the spec of an object.
func (s *site) request(o *unstructured.Unstructured, value any, path ...string) {
	s.t.Helper()
	s.read(o, s.tenant, o.GetName())
	must.Succeed(s.t, unstructured.SetNestedField(o.Object, value, append([]string{"spec"}, path...)...))
	must.Succeed(s.t, s.Update(s.t.Context(), o))
}

// TestNotAppliedIsNotReady checks that an object with an unapplied change is not Ready
// while it is suspended, or if the plan for the change is rejected; it is once its spec
// matches what was applied.
//
// Shows: kinds 1
func TestNotAppliedIsNotReady(t *testing.T) {
	s := newSite(t, func(spec *v1alpha1.ModuleKindSpec) { spec.Run.Approval.Mode = v1alpha1.ApprovalPlan })
	o := s.vpc(nil)
	s.step(o)
	s.applied(o)
	s.step(o)
	s.says(o, true, v1alpha1.ReasonApplied)
	s.request(o, true, "runOptions", "suspend")
	s.step(o)
	s.says(o, true, v1alpha1.ReasonSuspended)
	s.request(o, "10.20.0.0/16", "cidr")
	for range 2 {
		s.step(o)
		s.says(o, false, v1alpha1.ReasonSuspended)
	}
	s.request(o, false, "runOptions", "suspend")
	s.step(o)
	plan := s.planned(o, "9c41d07b55e2")
	s.step(o)
	s.says(o, false, v1alpha1.ReasonPlanned)
	no := s.approve(o, "no", plan, 0, v1alpha1.DecisionReject)
	for range 2 {
		s.step(o)
		if c := s.ready(o); no() != v1alpha1.ApprovalRejected || c.Status == metav1.ConditionTrue || !strings.Contains(c.Message, "what was applied before stays") || text(o, "status", "phase") != "Rejected" {
			t.Fatalf("it is %s, and the status %+v", no(), o.Object["status"])
		}
	}
	s.request(o, "10.10.0.0/16", "cidr")
	s.step(o)
	s.applied(o)
	s.step(o)
	s.says(o, true, v1alpha1.ReasonApplied)
}

// TestPlansOfTwoKinds checks that the plan of an object is shown beside that of an object
// of another kind with the same name and prefix.
//
// Shows: kinds 1
func TestPlansOfTwoKinds(t *testing.T) {
	s := newSite(t, func(spec *v1alpha1.ModuleKindSpec) { spec.Run.Approval.Mode = v1alpha1.ApprovalPlan })
	shown := map[string]bool{}
	for _, plural := range []string{"databases", "vpcs"} {
		s.def.Spec.Names.Plural = plural
		o := s.vpc(nil)
		s.step(o)
		s.planned(o, "9c41d07b55e2")
		s.step(o)
		s.says(o, false, v1alpha1.ReasonPlanned)
		m := &corev1.ConfigMap{}
		s.read(m, s.tenant, text(o, "status", "plan", "configMap"))
		shown[m.Name] = true
		// From now on the object of this name is of another kind.
		m.Labels[v1alpha1.LabelKind] = "Database"
		for _, change := range []client.Object{m, o} {
			change.SetFinalizers(nil)
			must.Succeed(t, s.Update(t.Context(), change))
		}
		must.Succeed(t, s.Delete(t.Context(), o))
	}
	if len(shown) != 2 {
		t.Errorf("the plans are in %v", shown)
	}
}

// dying returns a client of an operator that is killed at a write.
func (s *site) dying(nth int, after bool) (client.Client, func() int) {
	s.t.Helper()
	return rig.Dying(s.operator, nth, after)
}

// TestKilled kills the operator at each of its writes, and another one continues: an object
// runs, and is deleted, as without kills.
//
// Shows: operator 32
func TestKilled(t *testing.T) {
	for _, after := range []bool{false, true} {
		s := newSite(t, nil)
		writes := 0
		for nth := 1; ; nth++ {
			o := s.vpc(nil)
			killed := false
			step := func() {
				t.Helper()
				c, seen := s.dying(nth, after)
				s.restart(c)
				if err := s.try(o); err != nil {
					if seen() < nth {
						t.Fatalf("write %d, after %v: %v", nth, after, err)
					}
					killed = true
				}
				s.restart(s.operator)
				s.step(o)
			}
			step()
			s.says(o, false, v1alpha1.ReasonRunning)
			s.applied(o)
			step()
			s.says(o, true, v1alpha1.ReasonApplied)
			must.Succeed(t, s.Delete(t.Context(), o))
			for range 2 {
				step()
			}
			s.finish(o, 2)
			for range 6 {
				step()
				s.emptied(o)
			}
			s.gone(o)
			if !killed {
				writes = nth - 1
				break
			}
		}
		if writes < 10 {
			t.Errorf("after %v: it was killed at %d writes only", after, writes)
		}
	}
}

// TestPlanIsMadeAgain checks that a plan that has waited for a day is made again.
func TestPlanIsMadeAgain(t *testing.T) {
	s := newSite(t, func(spec *v1alpha1.ModuleKindSpec) { spec.Run.Approval.Mode = v1alpha1.ApprovalPlan })
	o := s.vpc(nil)
	s.step(o)
	s.planned(o, "9c41d07b55e2")
	s.step(o)
	asked := func() string { return s.terraform(o).GetAnnotations()["reconcile.fluxcd.io/requestedAt"] }
	first := asked()
	s.later = 23 * time.Hour
	s.step(o)
	if asked() != first {
		t.Error("a plan of 23 hours is made again")
	}
	s.later = 25 * time.Hour
	s.step(o)
	second := asked()
	s.step(o)
	if second == first || asked() != second || text(o, "status", "plan", "since") == "" || !pending(o) {
		t.Errorf("asked %q, %q, %q: %+v", first, second, asked(), o.Object["status"])
	}
}
