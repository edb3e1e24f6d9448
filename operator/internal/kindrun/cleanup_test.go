// SPDX-License-Identifier: Apache-2.0

package kindrun_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// cleanUp reports an orphan, and counts orphaned states.
func (s *site) cleanUp(o *unstructured.Unstructured) (orphan bool, states int) {
	s.t.Helper()
	wrong := v1alpha1.ModuleKind{ObjectMeta: metav1.ObjectMeta{Name: "wrongs"}}
	wrong.Spec.Names = v1alpha1.KindNames{Kind: "Wrong", Plural: "wrongs"}
	defs := []v1alpha1.ModuleKind{wrong, *s.def}
	orphans, err := s.objects.CleanUp(s.t.Context(), defs)
	if err != nil {
		s.t.Fatal(err)
	}
	if states, err = s.objects.Unowned(s.t.Context(), defs); err != nil {
		s.t.Fatal(err)
	}
	return slices.Contains(orphans, client.ObjectKey{Namespace: runs(o), Name: "vpc-prod"}), states
}

// TestCleanUp checks that the run of a deleted object is suspended and reported, and its
// leftovers go with its Terraform. The state stays, and is counted.
//
// Shows: kinds 6 | leftovers of deleted objects are removed, their Terraforms suspended and
// reported, their states counted
func TestCleanUp(t *testing.T) {
	s, o := newApplied(t)
	if orphan, states := s.cleanUp(o); orphan || states != 0 || s.suspended(o) {
		t.Errorf("an object that is there: %v, %d states", orphan, states)
	}
	o.SetFinalizers(nil)
	must.Succeed(t, s.Update(t.Context(), o))
	must.Succeed(t, s.Delete(t.Context(), o))
	if orphan, states := s.cleanUp(o); !orphan || states != 1 || !s.suspended(o) {
		t.Errorf("one that is gone: %v, %d states, suspended %v", orphan, states, s.suspended(o))
	}
	if ns := (&corev1.Namespace{}); !s.there(ns, "", runs(o)) || ns.DeletionTimestamp != nil {
		t.Error("the namespace of a Terraform is deleted")
	}
	run := s.terraform(o)
	run.SetFinalizers(nil)
	must.Succeed(t, s.Update(t.Context(), run))
	must.Succeed(t, s.Delete(t.Context(), run))
	if orphan, states := s.cleanUp(o); orphan || states != 1 {
		t.Errorf("without a Terraform: %v, %d states", orphan, states)
	}
	s.emptied(o)
	if s.there(&corev1.Namespace{}, "", runs(o)) {
		t.Error("the namespace is left")
	}
	must.Succeed(t, s.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.tenant}}))
	s.endNamespace(s.tenant)
	if _, states := s.cleanUp(o); states != 1 || s.there(&corev1.Namespace{}, "", s.tenant) {
		t.Errorf("without the namespace of the object: %d states", states)
	}
}

// TestCleanUpBeside checks that beside objects the source of a run is removed, and what the
// run read, but not those of an existing object or of another owner.
// Shows: kinds 6
func TestCleanUpBeside(t *testing.T) {
	s := newSite(t, nil)
	o := s.vpc(nil)
	s.step(o) // gives the operator the right to Secrets of the namespace
	made := map[string]bool{}
	for name, labels := range map[string]map[string]string{
		"gone":  {v1alpha1.LabelManaged: "", v1alpha1.LabelUID: "5f0c6d0e-6f1d-4a9d-9b1e-0c1d2e3f4a5b", v1alpha1.LabelKind: "VPC", v1alpha1.LabelObject: "old"},
		"there": {v1alpha1.LabelManaged: "", v1alpha1.LabelUID: string(o.GetUID()), v1alpha1.LabelKind: "VPC", v1alpha1.LabelObject: "prod"},
		"other": {v1alpha1.LabelUID: "5f0c6d0e-6f1d-4a9d-9b1e-0c1d2e3f4a5b", v1alpha1.LabelKind: "VPC", v1alpha1.LabelObject: "old"},
	} {
		source := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"url": "oci://example.com/a", "interval": "24h"}}}
		source.SetAPIVersion("source.toolkit.fluxcd.io/v1")
		source.SetKind("OCIRepository")
		source.SetNamespace(s.tenant)
		source.SetName(name)
		source.SetLabels(labels)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: name + "-okara-run", Labels: labels}}
		for _, o := range []client.Object{source, secret} {
			must.Succeed(t, s.Create(t.Context(), o))
		}
		made[name] = name != "gone"
	}
	for range 2 {
		s.cleanUp(o)
	}
	for name, stays := range made {
		source := &unstructured.Unstructured{}
		source.SetAPIVersion("source.toolkit.fluxcd.io/v1")
		source.SetKind("OCIRepository")
		if s.there(source, s.tenant, name) != stays || s.there(&corev1.Secret{}, s.tenant, name+"-okara-run") != stays {
			t.Errorf("%s stays: %v, want %v", name, !stays, stays)
		}
	}
}
