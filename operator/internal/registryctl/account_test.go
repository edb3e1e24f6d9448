// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestAccount runs an operator with the account of the chart through all that it does. What
// it may do at all is in the golden file of the chart.
//
// Shows: operator 5 | the account of the operator has the rights it needs, and on every verb of
// every resource no others; Secrets only where an administrator allowed it; with runs, too
func TestAccount(t *testing.T) {
	s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**"})
	s.account, s.elect = cluster.RegistryAccount(t, s.operatorNamespace), true
	s.tenant(s.ns, false)
	s.publish("1.0.0")
	s.start()
	forge := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "forge", Annotations: map[string]string{v1alpha1.AnnotationUse: s.origin}}}
	forge.Data = map[string][]byte{"token": []byte("t")}
	must.Succeed(t, s.Create(t.Context(), forge))
	d := &v1alpha1.Depot{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "d"}, Spec: v1alpha1.DepotSpec{
		DeletionPolicy: v1alpha1.DeletionDelete, Modules: []v1alpha1.ModuleEntry{{Address: vpc, Source: s.source()}},
	}}
	d.Spec.Modules[0].Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "forge"}}
	must.Succeed(t, s.Create(t.Context(), d))
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "net.vpc.aws"}}
	s.until("a Module", func() (bool, any) {
		err := s.Get(t.Context(), client.ObjectKeyFromObject(m), m)
		return err == nil, err
	})
	want := "the operator may not read Secrets of namespace " + s.ns + ": an administrator can set the label okara.dev/tenant on it"
	if message := s.says(m, false, v1alpha1.ReasonNamespaceNotAllowed); message != want || !stalled(m) {
		t.Errorf("%q, stalled %t", message, stalled(m))
	}
	s.tenant(s.ns, true)
	s.says(m, true, v1alpha1.ReasonSynced)
	s.says(d, true, v1alpha1.ReasonSynced)
	s.mustReport(m, v1alpha1.ReasonPublished)
	r := s.rule(s.ns, "r", nil, "read:module:net/**")
	s.says(r, true, v1alpha1.ReasonSynced)
	second := s.module(s.ns, "second", func(m *v1alpha1.Module) {
		m.Spec.Address, m.Spec.DeletionPolicy = s.ns+"/vpc/aws", v1alpha1.DeletionDelete
	})
	s.says(second, true, v1alpha1.ReasonSynced)
	s.change(second, func() { second.Spec.VersionObjects = new(int32(0)) })
	s.until("no Version of it", func() (bool, any) {
		list := s.versions()
		return !slices.ContainsFunc(list, func(v v1alpha1.Version) bool { return v.Spec.Target != nil && v.Spec.Target.Name == "second" }), list
	})
	alone := s.alone(s.ns, "alone", "1.0.0", func(spec *v1alpha1.VersionSpec) {
		spec.Address, spec.DeletionPolicy = s.ns+"/alone/aws", v1alpha1.DeletionDelete
	})
	s.says(alone, true, v1alpha1.ReasonSynced)
	for _, o := range []client.Object{second, alone} {
		must.Succeed(t, s.Delete(t.Context(), o))
		s.gone(o)
	}
	must.Succeed(t, s.Delete(t.Context(), d))
	s.gone(d)
	s.stop()
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "forbidden") && !strings.Contains(line, "secrets") {
			t.Errorf("the operator lacks a right: %s", line)
		}
	}
}

// TestAccountBindsNothingElse checks that the account cannot grant more than it has.
//
// Shows: operator 5
func TestAccountBindsNothingElse(t *testing.T) {
	s := newSite(t, nil)
	set := must.Get(kubernetes.NewForConfig(cluster.RegistryAccount(t, s.operatorNamespace)))(t)
	for _, role := range []string{"cluster-admin", "system:node", "system:kube-scheduler"} {
		_, err := set.RbacV1().RoleBindings(s.ns).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "eve"}},
		}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "attempting to grant RBAC permissions not currently held") {
			t.Errorf("a binding of %s: %v", role, err)
		}
	}
}

// TestTenantNoMore checks that without the label of a tenant no Secret is read, and the
// right to them is revoked.
//
// Shows: operator 31 | without the label of a tenant no Secret is read, and the right to Secrets is
// revoked
func TestTenantNoMore(t *testing.T) {
	s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**"})
	s.account = cluster.RegistryAccount(t, s.operatorNamespace)
	s.publish("1.0.0")
	s.start()
	s.secret(s.origin, map[string]string{"token": "t"})
	m := s.module(s.ns, "m", func(m *v1alpha1.Module) {
		m.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "forge"}}
	})
	s.says(m, true, v1alpha1.ReasonSynced)
	binding := &rbacv1.RoleBinding{}
	binding.Namespace, binding.Name = s.ns, "okara-operator-secrets"
	s.read(binding)
	s.tenant(s.ns, false)
	s.gone(binding)
	s.says(m, false, v1alpha1.ReasonNamespaceNotAllowed)
	set := must.Get(kubernetes.NewForConfig(s.account))(t)
	if _, err := set.CoreV1().Secrets(s.ns).Get(t.Context(), "forge", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the operator may read Secrets still: %v", err)
	}
	s.tenant(s.ns, true)
	s.says(m, true, v1alpha1.ReasonSynced)
	// The next operator revokes the right that an earlier one left.
	s.stop()
	s.tenant(s.ns, false)
	s.start()
	s.gone(binding)
	s.says(m, false, v1alpha1.ReasonNamespaceNotAllowed)
}
