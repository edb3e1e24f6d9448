// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestFluxRunsAModule runs a module without the operator: Flux fetches it from okara's
// registry by its digest, and tofu applies it with its state in okara, and destroys it.
//
// Shows: rig 1 | Flux fetches a module from okara's registry by its digest; tofu-controller applies
// it with stock tofu and its state in `okara serve`, and destroys it
// Shows: traps T6 | an output that is not a string is stored with its type beside it
func TestFluxRunsAModule(t *testing.T) {
	r := newTrial(t)
	repository := r.source()
	r.ready(t, repository)
	until(t, "it is fetched by its digest", func() (bool, any) {
		r.read(t, repository)
		revision := text(t, repository, "status", "artifact", "revision")
		return strings.HasSuffix(revision, r.digest), revision
	})

	terraform := r.run(nil)
	r.ready(t, terraform)
	if revision := text(t, terraform, "status", "lastAppliedRevision"); !strings.HasSuffix(revision, r.digest) {
		t.Errorf("applied %s, want %s", revision, r.digest)
	}
	outputs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: rawOutputs}}
	r.read(t, outputs)
	must.Equal(t, "the output", string(outputs.Data["text"]), "hello, okara")
	if len(outputs.Data["list__type"]) == 0 { // a value that is not a string has a type beside it
		t.Errorf("the outputs are %q", outputs.Data)
	}
	if !r.applied() {
		t.Error("the state has no resource")
	}

	r.delete(t, terraform)
	r.gone(t, terraform)
	if r.applied() {
		t.Error("nothing was destroyed")
	}
	r.delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.ns}})
	r.gone(t, repository)
}

// TestGarbageIsCollected checks what kube-controller-manager does here: owned objects are
// deleted with their owner, and the contents of a namespace with the namespace.
//
// Shows: rig 9 | owned objects are deleted with their owner, and a namespace with everything in it
func TestGarbageIsCollected(t *testing.T) {
	f := newFlux(t, Manager)
	ns := cluster.Namespace(t, nil)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "owner"}}
	must.Succeed(t, f.Create(t.Context(), owner))
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns.Name, Name: "owned",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "other"}}
	for _, o := range []client.Object{owned, other} {
		must.Succeed(t, f.Create(t.Context(), o))
	}
	f.delete(t, owner)
	f.gone(t, owned)
	f.read(t, other)
	f.delete(t, ns)
	f.gone(t, ns)
}
