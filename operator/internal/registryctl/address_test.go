// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// annotate sets the allowed addresses of a namespace.
func (s *site) annotate(name, addresses string) {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.change(ns, func() { metav1.SetMetaDataAnnotation(&ns.ObjectMeta, v1alpha1.AnnotationAddresses, addresses) })
}

// TestAddressesOfANamespace checks that a namespace may use its own addresses, and others
// once an administrator allows them.
//
// Shows: operator 2 | a namespace has its own addresses and those in its annotation; an address
// belongs to the older object; no inheritance
func TestAddressesOfANamespace(t *testing.T) {
	s := newSite(t, nil)
	s.publish("1.0.0")
	s.start()
	own := s.module(s.ns, "own", func(m *v1alpha1.Module) { m.Spec.Address = s.ns + "/vpc/aws" })
	s.says(own, true, v1alpha1.ReasonSynced)

	other := s.module(s.ns, "other", nil)
	message := s.says(other, false, v1alpha1.ReasonAddressNotAllowed)
	if want := "namespace " + s.ns + " may use module:" + s.ns + "/** only: an administrator can set okara.dev/addresses on it"; message != want || !stalled(other) {
		t.Errorf("%q, stalled %t", message, stalled(other))
	}
	if got := s.tags(); len(got) != 0 {
		t.Errorf("the registry has %v", got)
	}
	s.annotate(s.ns, "module:net/**")
	s.says(other, true, v1alpha1.ReasonSynced)
	if stalled(other) {
		t.Error("it is still stalled")
	}
	s.annotate(s.ns, "modules:net/**")
	if message := s.says(other, false, v1alpha1.ReasonAddressNotAllowed); !strings.HasSuffix(message, "; modules:net/** there allows nothing: use module:, mirror: or provider:") {
		t.Error(message)
	}
	s.annotate(s.ns, "mirror:net/**")
	s.until("it says what is allowed now", func() (bool, any) {
		message := s.says(other, false, v1alpha1.ReasonAddressNotAllowed)
		return strings.Contains(message, ", mirror:net/**") && strings.HasSuffix(message, "on it"), message
	})
}

// TestTheOlderObjectOwnsAnAddress lets objects of two namespaces compete for one address.
//
// Shows: operator 2
func TestTheOlderObjectOwnsAnAddress(t *testing.T) {
	s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**"})
	second := s.namespace(map[string]string{v1alpha1.AnnotationAddresses: "module:net/**"})
	barred := s.namespace(nil)
	s.publish("1.0.0")
	s.module(barred, "barred", nil) // the oldest, but its namespace may not use the address
	first := s.module(s.ns, "first", nil)
	s.older(first)
	late := s.module(second, "late", nil)
	s.start()
	s.says(first, true, v1alpha1.ReasonSynced)
	message := s.says(late, false, v1alpha1.ReasonAddressTaken)
	if want := "module net/vpc/aws belongs to Module " + s.ns + "/first"; message != want || !stalled(late) {
		t.Errorf("%q, stalled %t", message, stalled(late))
	}
	// The address is free, and an administrator allowed it to the other namespace.
	must.Succeed(t, s.Delete(t.Context(), first))
	s.says(late, true, v1alpha1.ReasonSynced)
}

// TestANamespaceMadeAnewDoesNotInherit deletes a namespace and creates another one of
// the same name.
//
// Shows: operator 2
func TestANamespaceMadeAnewDoesNotInherit(t *testing.T) {
	s := newSite(t, nil)
	address := s.ns + "/vpc/aws"
	second := s.namespace(map[string]string{v1alpha1.AnnotationAddresses: "module:" + address})
	s.publish("1.0.0")
	s.start()
	old := s.module(s.ns, "m", func(m *v1alpha1.Module) { m.Spec.Address = address })
	s.says(old, true, v1alpha1.ReasonSynced)
	must.Succeed(t, s.Delete(t.Context(), old))
	for _, v := range s.versions() { // no garbage collector runs
		must.Succeed(t, s.Delete(t.Context(), &v))
	}
	namespaces := s.clientset().CoreV1().Namespaces()
	must.Succeed(t, namespaces.Delete(t.Context(), s.ns, metav1.DeleteOptions{}))
	ns := must.Get(namespaces.Get(t.Context(), s.ns, metav1.GetOptions{}))(t)
	ns.Spec.Finalizers = nil
	must.Get(namespaces.Finalize(t.Context(), ns, metav1.UpdateOptions{}))(t)
	must.Succeed(t, s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}))
	before := s.everything()
	heir := s.module(s.ns, "m", func(m *v1alpha1.Module) { m.Spec.Address, m.Spec.DeletionPolicy = address, v1alpha1.DeletionDelete })
	if message := s.says(heir, false, v1alpha1.ReasonAddressTaken); !strings.Contains(message, v1alpha1.AnnotationAddresses) || !stalled(heir) {
		t.Errorf("%q, stalled %t", message, stalled(heir))
	}
	// Without owning the address it deletes nothing in the registry.
	must.Succeed(t, s.Delete(t.Context(), heir))
	s.gone(heir)
	if after := s.everything(); len(after) != len(before) {
		t.Errorf("the registry had %v, has %v", before, after)
	}
	heir = s.module(s.ns, "m", func(m *v1alpha1.Module) { m.Spec.Address = address })
	heirOf := func(name, owner string) {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.change(o, func() { metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationTakeOver, owner) })
	}
	heirOf(s.ns, "another")
	if message := s.says(heir, false, v1alpha1.ReasonAddressTaken); !strings.Contains(message, v1alpha1.AnnotationTakeOver+"="+string(ns.UID)) {
		t.Errorf("%q", message)
	}
	heirOf(s.ns, string(ns.UID))
	s.says(heir, true, v1alpha1.ReasonSynced)
	must.Succeed(t, s.Delete(t.Context(), heir))
	s.gone(heir)
	late := s.module(second, "late", func(m *v1alpha1.Module) { m.Spec.Address = address })
	s.says(late, true, v1alpha1.ReasonSynced)
}

// gone waits until an object is deleted.
func (s *site) gone(o client.Object) {
	s.t.Helper()
	s.until(o.GetName()+" gone", func() (bool, any) {
		err := s.Get(s.t.Context(), client.ObjectKeyFromObject(o), o)
		return client.IgnoreNotFound(err) == nil && err != nil, o
	})
}
