// SPDX-License-Identifier: Apache-2.0

package fluxexec_test

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// TestCheckInstalled names what a cluster lacks for a run.
func TestCheckInstalled(t *testing.T) {
	all := meta.NewDefaultRESTMapper([]schema.GroupVersion{fluxexec.Terraforms().GroupVersion()})
	all.Add(fluxexec.Terraforms(), meta.RESTScopeNamespace)
	for _, c := range []struct {
		helm, approved bool
		gate, want     string
	}{{want: ""}, {helm: true, want: "no CRD helmreleases"}, {approved: true, want: "approval of plans requires the plan gate"}, {approved: true, gate: "https://gate"}} {
		if err := fluxexec.CheckInstalled(all, c.helm, c.approved, c.gate); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := fluxexec.CheckInstalled(meta.NewDefaultRESTMapper(nil), false, false, ""); err == nil || !strings.HasPrefix(err.Error(), "no CRD terraforms") {
		t.Error(err)
	}
}

// TestObserve reads statuses in the form of tofu-controller.
//
// Shows: traps T3
// Shows: traps T8
func TestObserve(t *testing.T) {
	const (
		sum    = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		pinned = "1.4.0@sha256:" + sum
		plan   = "9c41d07b55e29c41d07b55e29c41d07b55e29c41d07b55e29c41d07b55e2beef"
	)
	done := `observedGeneration: 2, lastPlannedGeneration: 2, lastPlannedRevision: ` + pinned + `, lastAppliedRevision: ` + pinned + `, lastHandledReconcileAt: r`
	ready := func(status, reason string) string {
		return `conditions: [{type: Ready, status: "` + status + `", reason: ` + reason + `, message: text}], `
	}
	pending := `plan: {pending: plan-1}, lastPlannedGeneration: 2, lastPlannedRevision: ` + pinned
	for _, c := range []struct {
		name             string
		metadata, spec   string // spec "": approvePlan: auto
		status           string
		phase            fluxexec.Phase
		reason, id, lock string
	}{
		{name: "new", phase: fluxexec.Running},
		{name: "applied", status: ready("True", "Applied") + done, phase: fluxexec.Applied, reason: "Applied"},
		{name: "a plan without changes moves no revision of an apply", status: ready("True", "Planned") + strings.Replace(done, "lastAppliedRevision: "+pinned, "lastAppliedRevision: main@sha256:00", 1), phase: fluxexec.Applied, reason: "Planned"},
		{name: "of another module", status: ready("True", "Applied") + strings.ReplaceAll(done, sum, "00"), phase: fluxexec.Running, reason: "Applied"},
		{name: "of another generation", status: ready("True", "Applied") + strings.Replace(done, "observedGeneration: 2", "observedGeneration: 1", 1), phase: fluxexec.Running, reason: "Applied"},
		{name: "before the request", status: ready("True", "Applied") + strings.Replace(done, "At: r", "At: q", 1), phase: fluxexec.Running, reason: "Applied"},
		{name: "of another attempt", metadata: "annotations: {okara.dev/attempt: '8', reconcile.fluxcd.io/requestedAt: r}", status: ready("True", "Applied") + done, phase: fluxexec.Running, reason: "Applied"},
		{name: "an automatic plan is pending", status: pending, phase: fluxexec.Running},
		{name: "a plan waits", spec: `approvePlan: ""`, status: pending, phase: fluxexec.Planned, id: "e3b0c44298.9c41d07b55e2"},
		{name: "a forced plan", spec: `approvePlan: "", force: true`, status: pending, phase: fluxexec.Running},
		{name: "a plan alone", spec: `approvePlan: "", planOnly: true`, status: pending, phase: fluxexec.Running},
		{name: "a plan of another spec", spec: `approvePlan: ""`, status: strings.Replace(pending, "Generation: 2", "Generation: 1", 1), phase: fluxexec.Running},
		{name: "a plan of another module", spec: `approvePlan: ""`, status: strings.ReplaceAll(pending, sum, "00"), phase: fluxexec.Running},
		{name: "a plan that is approved", spec: `approvePlan: plan-1`, status: pending, phase: fluxexec.Running},
		{name: "drift", status: ready("False", "DriftDetected") + done, phase: fluxexec.Drifted, reason: "DriftDetected"},
		{name: "a try failed", status: ready("False", "ApplyFailed") + done, phase: fluxexec.Running, reason: "ApplyFailed"},
		{name: "given up", status: `conditions: [{type: Ready, status: "False", reason: ApplyFailed}, {type: Stalled, status: "True"}], ` + done, phase: fluxexec.Failed, reason: "ApplyFailed"},
		{name: "no source", status: `conditions: [{type: Ready, status: "False", reason: ArtifactFailed}, {type: Stalled, status: "True"}], ` + done, phase: fluxexec.Running, reason: "ArtifactFailed"},
		{name: "the state is locked", status: `conditions: [{type: Ready, status: "False", reason: PlanFailed, message: "lock 7-8"}, {type: StateLocked, status: "True"}], lock: {pending: 7-8}, ` + done, phase: fluxexec.Waiting, reason: fluxexec.StateLocked, lock: "7-8"},
		{name: "it was locked before", status: `conditions: [{type: Ready, status: "False", reason: PlanFailed, message: no network}, {type: StateLocked, status: "True"}], lock: {pending: 7-8}, ` + done, phase: fluxexec.Running, reason: "PlanFailed"},
		{name: "suspended", spec: "suspend: true", status: ready("True", "Applied") + done, phase: fluxexec.Suspended, reason: "Applied"},
		{name: "deleted", metadata: "deletionTimestamp: '2026-11-01T00:00:00Z'", status: ready("True", "Applied") + done, phase: fluxexec.Destroying, reason: "Applied"},
		{name: "something stays, which no state told", metadata: "deletionTimestamp: '2026-11-01T00:00:00Z'", status: `conditions: [{type: Ready, status: "False", reason: DestroyFailed, observedGeneration: 2, message: left behind forgotten instances}]`, phase: fluxexec.Destroying, reason: "DestroyFailed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			annotations := map[string]string{
				fluxexec.AnnotationAttempt: "7", "reconcile.fluxcd.io/requestedAt": "r",
				fluxexec.AnnotationPlan: `{"digest":"` + plan + `","generation":2,"adds":1,"changes":2,"removes":3,"forgets":1,"notes":[{"kind":"forget","text":"a.b"}]}`,
			}
			live := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "greeting", "generation": int64(2)}}}
			live.SetAnnotations(annotations)
			merge(t, live, "spec", "{approvePlan: auto}")
			merge(t, live, "spec", "{"+c.spec+"}")
			merge(t, live, "status", "{"+c.status+"}")
			merge(t, live, "metadata", "{"+c.metadata+"}")
			s := run(t, "small")
			s.Attempt = "7"
			got := fluxexec.Observe(s, live)
			if got.Phase != c.phase || got.Reason != c.reason || got.Lock != c.lock || got.Left != nil {
				t.Errorf("%+v", got)
			}
			if (c.id != "") != (got.Plan != nil) {
				t.Fatalf("%+v", got.Plan)
			}
			if c.id != "" {
				want := fluxexec.Plan{ID: c.id, Generation: 2, Actions: fluxexec.Actions{Adds: 1, Changes: 2, Removes: 3, Forgets: 1, Notes: []fluxexec.Note{{Kind: "forget", Text: "a.b"}}}, ConfigMap: "tfplan-default-greeting"}
				must.Match(t, "value", *got.Plan, want)
				must.Equal(t, "words", got.Plan.Words(), "1 to add, 2 to change, 3 to destroy, 1 to forget")
			}
		})
	}
	if got := fluxexec.Observe(run(t, "small"), nil); got.Phase != fluxexec.Absent {
		t.Errorf("without a Terraform: %+v", got)
	}
}

// TestObserveWithoutGate checks that a plan has no ID if the gate has not seen it.
func TestObserveWithoutGate(t *testing.T) {
	for _, seen := range []string{"", "{", `{"digest":"short","generation":2}`, `{"digest":"` + strings.Repeat("a", 64) + `","generation":1}`} {
		live := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": int64(2)}}}
		live.SetAnnotations(map[string]string{fluxexec.AnnotationPlan: seen})
		merge(t, live, "status", "{plan: {pending: plan-1}, lastPlannedGeneration: 2, lastPlannedRevision: "+run(t, "small").Module.Digest+"}")
		got := fluxexec.Observe(run(t, "small"), live)
		if got.Plan == nil || got.Plan.ID != "" || got.Plan.Reason != fluxexec.PlanGateMissing {
			t.Errorf("%q: %+v", seen, got.Plan)
		}
	}
}

// merge merges YAML into a part of an object, with numbers in the form of the cluster.
func merge(t *testing.T, o *unstructured.Unstructured, part, text string) {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte("{kind: x, part: " + text + "}"))
	if err != nil {
		t.Fatal(text, err)
	}
	var u unstructured.Unstructured
	must.Succeed(t, u.UnmarshalJSON(b))
	into, _ := o.Object[part].(map[string]any)
	if into == nil {
		into = map[string]any{}
	}
	maps.Copy(into, u.Object["part"].(map[string]any))
	o.Object[part] = into
}

// TestReadOutputs checks that strings are unchanged, other values are JSON, and types are
// not outputs.
//
// Shows: traps T6
func TestReadOutputs(t *testing.T) {
	got := must.Get(fluxexec.ReadOutputs(map[string][]byte{
		"text": []byte("a\nb"), "list": []byte("[\n  \"a\"\n]"), "list__type": []byte(`["list","string"]`),
		"nothing": []byte("null"), "nothing__type": []byte(`"dynamic"`), "alone__type": []byte("c"),
	}))(t)
	texts := map[string]string{}
	for name, o := range got {
		texts[name] = o.Text()
	}
	must.Match(t, "value", texts, map[string]string{"text": "a\nb", "list": `["a"]`, "nothing": "null", "alone__type": "c"})
	if _, err := fluxexec.ReadOutputs(map[string][]byte{"a": []byte("{"), "a__type": []byte(`"number"`)}); err == nil {
		t.Error("what is no JSON was read")
	}
}
