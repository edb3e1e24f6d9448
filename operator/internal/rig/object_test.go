// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestObjectMadeAnew checks that an object whose finalizers were stripped leaves its
// state behind, and that the next object of its name does not get it. The run of the
// first object continues to own the state, until an administrator assigns it to the
// second.
// Shows: kinds 6
// Shows: kinds 9 | the finalizer of an object is removed by hand, and the object created again: it
// does not run, and the state is kept, until an administrator assigns it to the new object; then
// runs of the first object are refused
func TestObjectMadeAnew(t *testing.T) {
	s := newKindSite(t, greeting, nil)
	first := s.create(t, s.greet("first"))
	s.carry(first, "it is applied", func() bool { return s.reason(first) == v1alpha1.ReasonApplied })
	s.change(t, first, func() { first.SetFinalizers(nil) })
	s.delete(t, first)
	next := s.create(t, s.greet("next"))
	s.carry(next, "it waits for an administrator", func() bool { return s.reason(next) == v1alpha1.ReasonStateExists })
	if got := s.pull(); !strings.Contains(got, "hello, first") {
		t.Errorf("the state is %s", got)
	}
	s.change(t, next, func() { next.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "true"}) })
	s.carry(next, "it has the state", func() bool { return s.reason(next) == v1alpha1.ReasonApplied })
	if got := s.pull(); !strings.Contains(got, "hello, next") || strings.Contains(got, `"serial": 1,`) {
		t.Errorf("the state is %s", got)
	}
	run := object(t, "apiVersion: infra.contrib.fluxcd.io/v1alpha2\nkind: Terraform\n")
	run.SetNamespace("okara-run-" + string(first.GetUID()))
	run.SetName("greeting-hello")
	s.change(t, run, func() {
		run.SetAnnotations(map[string]string{"reconcile.fluxcd.io/requestedAt": "now"})
		run.Object["spec"].(map[string]any)["vars"] = name("usurper")
	})
	until(t, "the first one is turned away", func() (bool, any) {
		s.read(t, run)
		b := must.Get(json.Marshal(run.Object["status"]))(t)
		return strings.Contains(string(b), "not this object's state") || strings.Contains(string(b), "409"), string(b)
	})
	if got := s.pull(); !strings.Contains(got, "hello, next") {
		t.Errorf("the state is %s", got)
	}
	orphans, err := s.objects.CleanUp(t.Context(), []v1alpha1.ModuleKind{*s.def})
	s.read(t, run)
	if suspended, _, _ := unstructured.NestedBool(run.Object, "spec", "suspend"); err != nil || !suspended || !slices.Contains(orphans, client.ObjectKeyFromObject(run)) {
		t.Errorf("a sweep finds %v, %v; suspended %v", orphans, err, suspended)
	}
	s.change(t, run, func() {
		run.Object["spec"].(map[string]any)["destroyResourcesOnDeletion"], run.Object["spec"].(map[string]any)["suspend"] = false, false
	})
	s.delete(t, run)
	s.delete(t, next)
	s.carry(next, "it is gone", func() bool { return s.gone(next) })
}
