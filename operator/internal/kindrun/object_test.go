// SPDX-License-Identifier: Apache-2.0

package kindrun_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxrun"
)

// TestObjectRuns follows the life of an object: it runs in its own namespace, shows what
// its definition allows, and leaves nothing behind.
//
// Shows: operator 23
// Shows: kinds 2
func TestObjectRuns(t *testing.T) {
	s := newSite(t, nil)
	o := s.vpc(nil)
	s.step(o)
	s.says(o, false, v1alpha1.ReasonRunning)
	if got := text(o, "status", "phase"); got != "Provisioning" || text(o, "status", "namespace") != runs(o) {
		t.Errorf("the status is %+v", o.Object["status"])
	}
	account := &corev1.ServiceAccount{}
	s.read(account, runs(o), "okara-runner")
	if account.Annotations["cloud.example.com/role"] != "vpc" {
		t.Errorf("the account is %+v", account)
	}
	run := s.terraform(o)
	if text(run, "spec", "serviceAccountName") != "okara-runner" || !strings.Contains(text(run, "spec", "backendConfig", "customConfiguration"), "/state/prod."+s.tenant+"/vpcs.prod") {
		t.Errorf("the Terraform is %+v", run.Object["spec"])
	}

	s.applied(o)
	s.step(o)
	s.says(o, true, v1alpha1.ReasonApplied)
	values, _, _ := unstructured.NestedMap(o.Object, "status", "outputValues")
	if len(values) != 1 || values["vpc_id"] != "vpc-0a1b" || text(o, "status", "outputsSecret") != "prod-outputs" {
		t.Errorf("the status is %+v", o.Object["status"])
	}
	outputs := &corev1.Secret{}
	s.read(outputs, s.tenant, "prod-outputs")
	if len(outputs.Data) != 2 || string(outputs.Data["subnet_ids"]) != `["a","b"]` || string(outputs.Data["vpc_id"]) != "vpc-0a1b" {
		t.Errorf("the outputs are %q", outputs.Data)
	}
	role := &rbacv1.Role{}
	s.read(role, s.tenant, "okara-vpcs-prod-outputs")
	if len(role.Rules) != 1 || role.Rules[0].ResourceNames[0] != "prod-outputs" {
		t.Errorf("the role is %+v", role.Rules)
	}

	before := []string{o.GetResourceVersion(), s.terraform(o).GetResourceVersion()}
	s.step(o)
	if after := []string{o.GetResourceVersion(), s.terraform(o).GetResourceVersion()}; before[0] != after[0] || before[1] != after[1] {
		t.Error("an object that nothing happened to is written")
	}

	must.Succeed(t, s.Delete(t.Context(), o))
	for range 3 {
		s.step(o)
	}
	s.says(o, false, v1alpha1.ReasonDestroying)
	s.finish(o, 2)
	s.gone(o)
	for _, left := range []struct {
		object          client.Object
		namespace, name string
	}{{&corev1.Secret{}, s.tenant, "prod-outputs"}, {&rbacv1.Role{}, s.tenant, "okara-vpcs-prod-outputs"}, {&rbacv1.RoleBinding{}, s.tenant, "okara-vpcs-prod-outputs"}, {&corev1.Namespace{}, "", runs(o)}} {
		if s.there(left.object, left.namespace, left.name) {
			t.Errorf("%T %s is left", left.object, left.name)
		}
	}
	store := must.Get(s.states.Store("prod." + s.tenant))(t)
	list := must.Get(store.List(t.Context()))(t)
	if is, err := list.Record(t.Context(), "vpcs.prod"); err != nil || is == nil || !is.Deleted {
		t.Errorf("the record is %+v, %v", is, err)
	}
}

// TestStateStays checks that neither a failed destroy nor a finalizer removed by hand loses
// the resources of a state. The next object of the name waits for an administrator.
//
// Shows: kinds 9
func TestStateStays(t *testing.T) {
	t.Run("object", func(t *testing.T) { stateStays(t, false) })
	t.Run("namespace", func(t *testing.T) { stateStays(t, true) })
}

func stateStays(t *testing.T, byNamespace bool) {
	s, o := newApplied(t)
	must.Succeed(t, s.Delete(t.Context(), o))
	s.step(o)
	run := s.terraform(o)
	run.SetFinalizers(nil) // so nothing is destroyed
	must.Succeed(t, s.Update(t.Context(), run))
	for range 3 {
		s.step(o)
	}
	s.says(o, false, v1alpha1.ReasonDestroyFailed)
	must.Equal(t, "the phase", text(o, "status", "phase"), "DestroyFailed")

	old := o.DeepCopy()
	o.SetFinalizers(nil)
	must.Succeed(t, s.Update(t.Context(), o))
	next := s.vpc(nil)
	s.step(next)
	s.says(next, false, v1alpha1.ReasonStateExists)
	if s.there(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "infra.contrib.fluxcd.io/v1alpha2", "kind": "Terraform"}}, runs(next), "vpc-prod") {
		t.Error("an object without a state runs")
	}
	gives := client.Object(next)
	if byNamespace {
		gives = &corev1.Namespace{}
		s.read(gives, "", s.tenant)
	}
	gives.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "true"})
	must.Succeed(t, s.Update(t.Context(), gives))
	s.step(next)
	s.says(next, false, v1alpha1.ReasonRunning)
	if status, _ := s.ask(next, http.MethodGet, ""); status != http.StatusOK {
		t.Errorf("the adopted state is %d", status)
	}
	if status, answer := s.ask(old, http.MethodGet, ""); status != http.StatusConflict {
		t.Errorf("the run of the object before is answered %d: %s", status, answer)
	}
	s.controller(next, "True", "TerraformAppliedSucceed", "", map[string]any{"lastAppliedRevision": "1.4.0@" + digest, "lastPlannedRevision": "1.4.0@" + digest})
	s.raw(next)
	s.step(next) // it replaces what users were shown of the object before
	s.says(next, true, v1alpha1.ReasonApplied)
}

// TestRestored checks that an object whose state has another owner is suspended, and that
// its deletion destroys nothing: its Terraform is deleted without a run.
//
// Shows: kinds 9
// Shows: kinds 11
func TestRestored(t *testing.T) {
	s, o := newApplied(t)
	store := must.Get(s.states.Store("prod." + s.tenant))(t)
	must.Get(store.Workspaces().Change(t.Context(), "vpcs.prod", ownedBy("run:"+s.tenant+"/other")))(t)
	s.controller(o, "False", "TFExecInitFailed", "error running Init: rpc error: code = Internal desc = \nError: Error refreshing state\n\nUnexpected HTTP response code 409", nil)
	s.step(o)
	s.says(o, false, v1alpha1.ReasonStateNotOwned)
	if !s.suspended(o) {
		t.Error("it may run again")
	}
	must.Succeed(t, s.Delete(t.Context(), o))
	s.gone(o)
	list := must.Get(store.List(t.Context()))(t)
	if is, err := list.Record(t.Context(), "vpcs.prod"); err != nil || is.Deleted || !strings.HasSuffix(is.Owner, "/other") {
		t.Errorf("the record is %+v, %v", is, err)
	}
}

// destroying checks that the object is still being destroyed.
func (s *site) destroying(o *unstructured.Unstructured) {
	s.t.Helper()
	if text(o, "status", "phase") != "Destroying" || s.condition(o, v1alpha1.ConditionReconciling) != "True" {
		s.t.Errorf("the status is %+v", o.Object["status"])
	}
}

// TestDestroyFails checks that a repeatedly failed destroy waits for a day or a request. An
// administrator abandons the resources, and their state stays.
//
// Shows: kinds 4
func TestDestroyFails(t *testing.T) {
	s := newSite(t, nil)
	o := s.vpc(nil)
	s.step(o)
	s.applied(o)
	must.Succeed(t, s.Delete(t.Context(), o))
	for range 3 {
		s.step(o)
	}
	for n := range 5 {
		s.destroying(o)
		s.fails(o, n)
		s.step(o)
		s.step(o) // the same failure is not counted again
	}
	s.says(o, false, v1alpha1.ReasonDestroyFailed)
	if !s.suspended(o) {
		t.Error("it is tried again")
	}
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationRequest: "now"})
	must.Succeed(t, s.Update(t.Context(), o))
	s.step(o)
	s.destroying(o)
	if s.suspended(o) {
		t.Error("nobody tries, though somebody asked")
	}
	for n := range 5 {
		s.fails(o, 5+n)
		s.step(o)
	}
	s.says(o, false, v1alpha1.ReasonDestroyFailed)
	if message := s.ready(o).Message; !strings.Contains(message, "no credentials") || strings.Contains(message, "more") {
		t.Errorf("it says %q", message)
	}
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationAbandon: "another"})
	must.Succeed(t, s.Update(t.Context(), o))
	s.step(o)
	s.says(o, false, v1alpha1.ReasonDestroyFailed)
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationAbandon: "prod"})
	must.Succeed(t, s.Update(t.Context(), o))
	s.gone(o)
	next := s.vpc(nil)
	s.step(next)
	s.says(next, false, v1alpha1.ReasonStateExists)
}

// TestNameTaken checks that existing objects with the names for a run stay untouched, and
// nothing runs.
//
// Shows: operator 18
func TestNameTaken(t *testing.T) {
	s := newSite(t, nil)
	o := s.vpc(nil)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: runs(o)}}
	must.Succeed(t, s.Create(t.Context(), ns))
	s.step(o)
	s.says(o, false, v1alpha1.ReasonNameTaken)
	must.Succeed(t, s.Delete(t.Context(), o))
	s.gone(o)
	if !s.there(ns, "", ns.Name) || ns.DeletionTimestamp != nil {
		t.Error("somebody else's namespace is deleted")
	}

	other := s.vpc(nil)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: "prod-outputs"}, StringData: map[string]string{"vpc_id": "theirs"}}
	must.Succeed(t, s.Create(t.Context(), theirs))
	s.step(other)
	s.applied(other)
	s.step(other)
	s.says(other, false, v1alpha1.ReasonOutputsConflict)
	s.read(theirs, s.tenant, "prod-outputs")
	if string(theirs.Data["vpc_id"]) != "theirs" {
		t.Error("somebody else's Secret is written")
	}
}

// TestSecretsAgree checks that a Secret reaches a run only if its annotation allows it.
//
// Shows: kinds 8
func TestSecretsAgree(t *testing.T) {
	s := newSite(t, nil)
	s.copies = []fluxrun.Copy{{From: client.ObjectKey{Namespace: s.tenant, Name: "peer"}, Use: "input:vpcs", Name: "vpc-prod-peer", Keys: []string{"key"}}}
	o := s.vpc(nil)
	s.step(o)
	s.says(o, false, v1alpha1.ReasonSecretMissing)
	peer := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: "peer"}, StringData: map[string]string{"key": "hush", "other": "more"}}
	must.Succeed(t, s.Create(t.Context(), peer))
	s.step(o)
	s.says(o, false, v1alpha1.ReasonSecretNotAllowed)
	peer.Annotations = map[string]string{v1alpha1.AnnotationUse: "github.com, input:vpcs"}
	must.Succeed(t, s.Update(t.Context(), peer))
	s.step(o)
	s.says(o, false, v1alpha1.ReasonRunning)
	copied := &corev1.Secret{}
	s.read(copied, runs(o), "vpc-prod-peer")
	if len(copied.Data) != 1 || string(copied.Data["key"]) != "hush" {
		t.Errorf("the copy has %d keys", len(copied.Data))
	}
	request := s.terraform(o).GetAnnotations()["reconcile.fluxcd.io/requestedAt"]
	peer.StringData = map[string]string{"key": "changed"}
	must.Succeed(t, s.Update(t.Context(), peer))
	s.step(o)
	if s.terraform(o).GetAnnotations()["reconcile.fluxcd.io/requestedAt"] == request {
		t.Error("nobody hears of a Secret that changed (T16)")
	}
}
