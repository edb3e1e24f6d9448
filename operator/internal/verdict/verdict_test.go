// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// says abbreviates conditions.
func says(list []metav1.Condition) string {
	var all []string
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if c := meta.FindStatusCondition(list, kind); c != nil {
			all = append(all, fmt.Sprintf("%s=%s/%s", kind, c.Status, c.Reason))
		}
	}
	return strings.Join(all, " ")
}

// TestSay writes one verdict after another, and expects an event for each new one. Each condition has a message.
func TestSay(t *testing.T) {
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: "m", Generation: 3}}
	recorder := events.NewFakeRecorder(10)
	for _, c := range []struct {
		v           verdict.Verdict
		want, event string
	}{
		{verdict.Verdict{Reason: "Running"}, "Ready=False/Running Reconciling=True/Running", ""},
		{verdict.Verdict{State: verdict.Failing, Reason: "Failed", Message: "no host"}, "Ready=False/Failed Reconciling=True/Failed", "Warning Failed no host"},
		{verdict.Verdict{State: verdict.Failing, Reason: "Failed", Message: "no host, 2nd try"}, "Ready=False/Failed Reconciling=True/Failed", ""},
		{verdict.Verdict{State: verdict.Stalled, Reason: "Failed", Message: "given up"}, "Ready=False/Failed Stalled=True/Failed", "Warning Failed given up"},
		{verdict.Verdict{State: verdict.Ready, Reason: "Synced"}, "Ready=True/Synced", ""},
		{verdict.Verdict{State: verdict.Stalled, Reason: "Failed", Message: "given up"}, "Ready=False/Failed Stalled=True/Failed", "Warning Failed given up"},
		{verdict.Verdict{State: verdict.Held, Reason: "Suspended"}, "Ready=False/Suspended", ""},
	} {
		c.v.Say(recorder, m, &m.Status.Conditions)
		event := ""
		select {
		case event = <-recorder.Events:
		default:
		}
		if got := says(m.Status.Conditions); got != c.want || event != c.event {
			t.Errorf("%+v: %s, told %q", c.v, got, event)
		}
		if slices.ContainsFunc(m.Status.Conditions, func(c metav1.Condition) bool { return c.Message == "" }) {
			t.Errorf("%+v: no message in %+v", c.v, m.Status.Conditions)
		}
		if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); c.ObservedGeneration != 3 {
			t.Errorf("%+v", c)
		}
	}
	m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	verdict.Verdict{State: verdict.Ready, Reason: "Synced"}.Say(recorder, m, &m.Status.Conditions)
	must.Equal(t, "what is being deleted says", says(m.Status.Conditions), "Ready=False/Destroying Reconciling=True/Destroying")
}

// TestDecide checks that the conditions of an Approval follow its result.
func TestDecide(t *testing.T) {
	for result, want := range map[v1alpha1.ApprovalResult]string{
		"":                        "Ready=False/Pending Reconciling=True/Pending",
		v1alpha1.ApprovalAccepted: "Ready=False/Accepted Reconciling=True/Accepted",
		v1alpha1.ApprovalApplied:  "Ready=True/Applied",
		v1alpha1.ApprovalRejected: "Ready=True/Rejected",
		v1alpha1.ApprovalStale:    "Ready=False/Stale Stalled=True/Stale",
		v1alpha1.ApprovalRefused:  "Ready=False/Refused Stalled=True/Refused",
		v1alpha1.ApprovalFailed:   "Ready=False/Failed Stalled=True/Failed",
	} {
		a := &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Spec: v1alpha1.ApprovalSpec{Approver: "ben"}}
		why := "why"
		if result == v1alpha1.ApprovalRejected {
			why = "it was rejected by ben: why"
		}
		if !verdict.Decide(a, result, "why") || verdict.Decide(a, result, "why") {
			t.Errorf("%q: what is news is not, or the other way", result)
		}
		if got := says(a.Status.Conditions); got != want || a.Status.ObservedGeneration != 1 || a.Status.Message != why || a.Status.Conditions[0].Message != why {
			t.Errorf("%q: %s, %+v", result, got, a.Status)
		}
	}
}

// TestPhase has a row for each phase: its value while the object is Ready, under way, failing and
// retried, Stalled, and held. Only a Ready object has the phase Ready or Available.
func TestPhase(t *testing.T) {
	for phase, want := range map[string][5]string{
		"":              {"", "", "", "Failed", ""},
		"Provisioning":  {"Provisioning", "Provisioning", "Provisioning", "Failed", "Provisioning"},
		"Planned":       {"Planned", "Planned", "Planned", "Failed", "Planned"},
		"Ready":         {"Ready", "Under", "Under", "Failed", "Under"},
		"Available":     {"Available", "Under", "Under", "Failed", "Under"},
		"Failed":        {"Failed", "Under", "Under", "Failed", "Under"},
		"Rejected":      {"Rejected", "Rejected", "Rejected", "Rejected", "Rejected"},
		"Destroying":    {"Destroying", "Destroying", "Destroying", "Destroying", "Destroying"},
		"DestroyFailed": {"DestroyFailed", "DestroyFailed", "DestroyFailed", "DestroyFailed", "DestroyFailed"},
	} {
		for i, state := range []verdict.State{verdict.Ready, verdict.UnderWay, verdict.Failing, verdict.Stalled, verdict.Held} {
			if got := (verdict.Verdict{State: state}).Phase(phase, "Under"); got != want[i] {
				t.Errorf("%q in state %d: %q, want %q", phase, state, got, want[i])
			}
		}
	}
	must.Equal(t, "a deleted object", (verdict.Verdict{Reason: v1alpha1.ReasonDestroying}).Phase("Ready", "Under"), "Destroying")
}

// TestUpdatePatches requires that a status is written by a patch of what changed, for the
// version that was read: it keeps the fields of a newer operator.
func TestUpdatePatches(t *testing.T) {
	var sent string
	c := interceptor.NewClient(nil, interceptor.Funcs{SubResourcePatch: func(_ context.Context, _ client.Client, sub string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
		sent = sub + string(must.Get(p.Data(o))(t))
		return nil
	}})
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}, Status: v1alpha1.EntryStatus{Latest: "1.0.0", Published: 1}}
	must.Succeed(t, verdict.Update(t.Context(), c, m, func() { m.Status.Latest = "1.1.0" }))
	must.Equal(t, "sent", sent, `status{"metadata":{"resourceVersion":"7"},"status":{"latest":"1.1.0"}}`)
	sent = ""
	must.Succeed(t, verdict.Update(t.Context(), c, m, func() {}))
	must.Equal(t, "without a change it sent", sent, "")
}

// TestExact requires that a patch keeps nulls and digits, and fails for no member that others change.
func TestExact(t *testing.T) {
	parse := func(parameters string) *v1alpha1.Instance {
		o := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
		must.Succeed(t, json.Unmarshal([]byte(`{"spec":{"parameters":`+parameters+`}}`), o))
		return o
	}
	for _, c := range [][3]string{
		{`{"a/b":9007199254740992}`, `{"a/b":9007199254740993}`, `{"op":"add","path":"/spec/parameters/a~1b","value":9007199254740993}`},
		{`{"a":1,"b":{"c":1}}`, `{"a":null,"b":{"c":null}}`, `{"op":"add","path":"/spec/parameters/a","value":null},{"op":"add","path":"/spec/parameters/b/c","value":null}`},
		{`{"a":[1,2,3]}`, `{"a":[2,3,4]}`, `{"op":"add","path":"/spec/parameters/a","value":[2,3,4]}`},
		{`{"a":1,"b":2}`, `{"a":1}`, `{"op":"add","path":"/spec/parameters/b","value":""},{"op":"remove","path":"/spec/parameters/b","value":null}`},
	} {
		must.Equal(t, c[0]+" to "+c[1], string(must.Get(verdict.Exact(parse(c[0])).Data(parse(c[1])))(t)), "["+c[2]+`,{"op":"add","path":"/metadata/resourceVersion","value":"7"}]`)
	}
}

// TestRequestOf requires that Flux's annotation requests a run, too.
func TestRequestOf(t *testing.T) {
	const own, flux = v1alpha1.AnnotationRequest, "reconcile.fluxcd.io/requestedAt"
	for want, annotations := range map[string]map[string]string{
		"": nil, "a": {own: "a"}, "b": {flux: "b"}, "a b": {own: "a", flux: "b"},
	} {
		if got := verdict.RequestOf(&metav1.ObjectMeta{Annotations: annotations}); got != want {
			t.Errorf("%v: %q, want %q", annotations, got, want)
		}
	}
}
