// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

func manual(spec *v1alpha1.ModuleKindSpec) { spec.Run.Approval.Mode = v1alpha1.ApprovalPlan }

// waits reconciles an object until a plan that is not in not waits for approval.
func (s *kindSite) waits(o *unstructured.Unstructured, not ...string) (plan string) {
	s.t.Helper()
	s.carry(o, "a plan waits", func() bool {
		is, _, _ := unstructured.NestedBool(o.Object, "status", "pendingApproval")
		plan = text(s.t, o, "status", "plan", "pending")
		return is && plan != "" && !strings.Contains(strings.Join(not, " "), plan)
	})
	return plan
}

// approve reconciles until one of the results.
func (s *kindSite) approve(o *unstructured.Unstructured, plan string, generation int64, want ...v1alpha1.ApprovalResult) {
	s.t.Helper()
	a := &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, GenerateName: "a-"}, Spec: v1alpha1.ApprovalSpec{
		Target: v1alpha1.ApprovalTarget{Kind: o.GetKind(), Name: o.GetName()}, Plan: plan, Generation: generation, Approver: "alice", Decision: v1alpha1.DecisionApprove,
	}}
	must.Succeed(s.t, s.Create(s.t.Context(), a))
	s.carry(o, "the Approval is answered", func() bool {
		s.read(s.t, a)
		return slices.Contains(want, a.Status.Result)
	})
}

// store replaces the stored state, as another user would.
func (s *kindSite) store(state string) {
	s.t.Helper()
	var is map[string]any
	if err := json.Unmarshal([]byte(state), &is); err != nil {
		s.t.Fatalf("%v: %s", err, state)
	}
	is["serial"] = is["serial"].(float64) + 1
	b := must.Get(json.Marshal(is))(s.t)
	if status, answer := s.ask(s.admin, http.MethodPost, string(b)); status != http.StatusOK {
		s.t.Fatalf("%d: %s", status, answer)
	}
}

// has requires that the state contains one greeting, and not the other.
func (s *kindSite) has(yes, no string) {
	s.t.Helper()
	if got := s.pull(); yes != "" && !strings.Contains(got, "hello, "+yes) || no != "" && strings.Contains(got, "hello, "+no) {
		s.t.Errorf("the state is %s", got)
	}
}

// TestNeverPending checks that a kind without approvals never shows a waiting plan
// in any event of a watch, although tofu-controller briefly has a pending one (T8).
//
// Shows: kinds 2
// Shows: kinds 1 | without approval: no event of a watch ever shows a waiting plan; with approval:
// exactly the plan that was read is applied, no other plan, none of another generation, and none
// after a change of the state (T17) or of the object (T4)
func TestNeverPending(t *testing.T) {
	s := newKindSite(t, greeting, nil)
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apps.okara.dev/v1alpha1")
	list.SetKind("GreetingList")
	w := must.Get(s.Watch(t.Context(), list, client.InNamespace(s.tenant)))(t)
	events, waited := make(chan int), 0
	go func() {
		n := 0
		for e := range w.ResultChan() {
			n++
			if o, ok := e.Object.(*unstructured.Unstructured); ok {
				if is, _, _ := unstructured.NestedBool(o.Object, "status", "pendingApproval"); is {
					waited++
				}
			}
		}
		events <- n
	}()
	o := s.create(t, s.greet("okara"))
	s.carry(o, "it is applied", func() bool { return s.reason(o) == v1alpha1.ReasonApplied })
	s.set(o, "world")
	s.carry(o, "the change is applied", func() bool { return text(t, o, "status", "outputValues", "text") == "hello, world" })
	s.delete(t, o)
	s.carry(o, "it is gone", func() bool { return s.gone(o) })
	w.Stop()
	if n := <-events; n < 5 || waited > 0 {
		t.Errorf("a plan waited at %d of %d events", waited, n)
	}
}

// TestApprovals checks that exactly the plan that was read is applied: no other
// plan, none of another generation, none after a change of the state (T17), and no
// variables that changed after the Approval (T4).
//
// Shows: kinds 1
func TestApprovals(t *testing.T) {
	s := newKindSite(t, greeting, manual)
	o := s.create(t, s.greet("okara"))
	first := s.waits(o)
	shown := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: text(t, o, "status", "plan", "configMap")}}
	s.read(t, shown)
	if !strings.Contains(shown.Data["tfplan"], "hello, okara") {
		t.Errorf("the plan reads %q", shown.Data)
	}
	s.approve(o, "1.0.0-0123456789.0123456789ab", 1, v1alpha1.ApprovalStale)
	s.approve(o, first, 7, v1alpha1.ApprovalStale)
	s.has("", "okara")
	s.approve(o, first, 1, v1alpha1.ApprovalApplied)
	s.has("okara", "")

	s.set(o, "two")
	second := s.waits(o, first)
	s.store(strings.ReplaceAll(s.pull(), "hello, okara", "hello, world"))
	s.approve(o, second, 2, v1alpha1.ApprovalStale)
	third := s.waits(o, first, second)
	s.has("world", "two")
	s.approve(o, third, 2, v1alpha1.ApprovalApplied)
	s.has("two", "")

	s.set(o, "three")
	fourth := s.waits(o, first, second, third)
	s.approve(o, fourth, 3, v1alpha1.ApprovalAccepted, v1alpha1.ApprovalApplied)
	s.set(o, "four") // before or after the fourth plan was applied
	fifth := s.waits(o, first, second, third, fourth)
	s.has("", "four")
	s.approve(o, fifth, 0, v1alpha1.ApprovalApplied)
	s.has("four", "")
	s.delete(t, o)
	s.carry(o, "it is gone", func() bool { return s.gone(o) })
}

// TestTokensOfRuns checks that an expired token is refused. The operator renews it,
// and a plan that was made with the previous token is applied (T12).
//
// Shows: kinds 7
func TestTokensOfRuns(t *testing.T) {
	s := newKindSite(t, greeting, manual)
	o := s.create(t, s.greet("okara"))
	plan := s.waits(o)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "okara-run-" + string(o.GetUID()), Name: "greeting-hello-okara-run"}}
	s.read(t, secret)
	token := string(secret.Data["token"])
	if status, _ := s.ask(token, http.MethodGet, ""); status != http.StatusNoContent && status != http.StatusNotFound && status != http.StatusOK {
		t.Errorf("the token of the run is answered %d", status)
	}
	expired := must.Get(s.past.Token(context.WithoutCancel(t.Context()), runaccess.Run{Namespace: s.tenant, UID: o.GetUID(), Workspace: "greetings.hello", Module: "acme/greeting/any"}))(t)
	for _, method := range []string{http.MethodGet, http.MethodPost, "LOCK"} {
		if status, answer := s.ask(expired, method, "{}"); status != http.StatusUnauthorized {
			t.Errorf("%s with an expired token is answered %d: %s", method, status, answer)
		}
	}
	s.change(t, secret, func() { secret.Data["token"] = []byte(expired) })
	s.carry(o, "the token is made anew", func() bool { s.read(t, secret); return string(secret.Data["token"]) != expired })
	s.waits(o)
	s.approve(o, plan, 1, v1alpha1.ApprovalApplied)
	s.has("okara", "")
	s.delete(t, o)
	s.carry(o, "it is gone", func() bool { return s.gone(o) })
}
