// SPDX-License-Identifier: Apache-2.0

package fluxexec_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// doomed is a run whose operator dies at the nth write, or never.
type doomed struct {
	*site
	nth    int
	after  bool
	deaths int
}

// step calls do, and once more if the first call was killed.
func (d *doomed) step(what string, do func(*fluxexec.Executor) error) {
	d.t.Helper()
	whole := must.Get(client.NewWithWatch(cluster.Account(d.t, d.spec.Namespace), client.Options{}))(d.t)
	if d.nth > 0 {
		c, tried := rig.Dying(whole, d.nth, d.after)
		err := do(&fluxexec.Executor{Client: client.WithFieldValidation(c, metav1.FieldValidationStrict)})
		if tried() >= d.nth {
			d.deaths++
		}
		if killed := tried() >= d.nth; killed != errors.Is(err, rig.ErrKilled) {
			d.t.Fatalf("%s, killed at write %d, after it %t: %v", what, d.nth, d.after, err)
		}
	}
	if err := do(&d.exec); err != nil {
		d.t.Fatalf("%s, after a death at write %d, after it %t: %v", what, d.nth, d.after, err)
	}
}

// stage is the state of a Terraform after a step.
type stage struct {
	Step, Attempt string
	Deleted       bool
	Spec          any
}

// life takes a run from its beginning to its end, and returns its stages.
func (d *doomed) life() (stages []stage) {
	d.t.Helper()
	note := func(step string) {
		o := d.live()
		stages = append(stages, stage{step, o.GetAnnotations()[fluxexec.AnnotationAttempt], o.GetDeletionTimestamp() != nil, o.Object["spec"]})
	}
	apply := func(x *fluxexec.Executor) error { _, err := x.Apply(d.t.Context(), d.spec); return err }
	d.spec.Approval, d.spec.Gate, d.spec.Attempt = fluxexec.ApprovalManual, "https://gate.example.com/plan", "1"
	d.step("begin", apply)
	note("begin")
	d.planned("a")
	plan := d.phase(fluxexec.Planned).Plan.ID
	d.step("approve", func(x *fluxexec.Executor) error { return x.Approve(d.t.Context(), d.spec, plan) })
	note("approve")
	d.status(`{plan: {pending: "", lastApplied: plan-1}}`)
	d.step("settle", apply)
	note("settle")
	d.spec.Variables, d.spec.Attempt = map[string]json.RawMessage{"name": []byte(`"changed"`)}, "2"
	d.step("change", apply)
	note("change")
	d.step("cancel", func(x *fluxexec.Executor) error { return x.Cancel(d.t.Context(), d.spec) })
	note("cancel")

	o := d.live()
	o.SetFinalizers([]string{"finalizers.tf.contrib.fluxcd.io"})
	must.Succeed(d.t, d.Update(d.t.Context(), o))
	d.spec.Keep = true
	destroy := func(x *fluxexec.Executor) error { _, err := x.Destroy(d.t.Context(), d.spec); return err }
	for range 4 {
		d.step("destroy", destroy)
	}
	note("destroy")
	o = d.live()
	o.SetFinalizers(nil)
	must.Succeed(d.t, d.Update(d.t.Context(), o))
	for range 2 {
		d.step("clean", func(x *fluxexec.Executor) error { _, err := x.Clean(d.t.Context(), d.spec); return err })
	}
	if d.live() != nil || d.read("source.toolkit.fluxcd.io/v1", "OCIRepository") != nil {
		d.t.Error("something is left")
	}
	return stages
}

// TestKilled kills the operator at each write during a run's life, before it and
// after it. Its successor takes the run through the same stages.
//
// Shows: operator 34 | an operator is killed before and after any write of a run of a module or a
// chart: another one continues to the same result
func TestKilled(t *testing.T) {
	want := (&doomed{site: newSite(t, "small")}).life()
	deaths := 0
	for _, after := range []bool{false, true} {
		for nth := 1; ; nth++ {
			d := &doomed{site: newSite(t, "small"), nth: nth, after: after}
			if diff := cmp.Diff(want, d.life()); diff != "" {
				t.Errorf("killed at write %d, after it %t:\n%s", nth, after, diff)
			}
			if deaths += d.deaths; d.deaths == 0 {
				break
			}
		}
	}
	if deaths < 20 {
		t.Errorf("it was killed %d times only", deaths)
	}
}
