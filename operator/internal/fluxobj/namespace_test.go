// SPDX-License-Identifier: Apache-2.0

package fluxobj_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	must.Succeed(t, fluxobj.AddToScheme(scheme))
	return must.Get(client.New(cluster.Admin(t), client.Options{Scheme: scheme}))(t)
}

// TestProvision creates an account, its binding and a policy, and repeats that without
// changes. An account of another owner is left alone.
//
// Shows: operator 18
func TestProvision(t *testing.T) {
	c, ns := newClient(t), cluster.Namespace(t, nil).Name
	namespace := fluxobj.RunNamespace{Name: ns, UID: "1", Annotations: map[string]string{"cloud.example.com/role": "vpc"}, Network: fluxobj.RunNetwork{Flux: "flux"}}
	versions := func() (all []string) {
		t.Helper()
		meta := metav1.ObjectMeta{Namespace: ns, Name: fluxobj.Account}
		account, binding, policy := &corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta}, &networkingv1.NetworkPolicy{ObjectMeta: meta}
		for _, o := range []client.Object{account, binding, policy} {
			must.Succeed(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
			all = append(all, o.GetResourceVersion())
		}
		if account.Annotations["cloud.example.com/role"] != "vpc" || binding.Subjects[0].Name != fluxobj.Account || len(policy.Spec.Egress) != 3 || len(policy.Spec.Egress[0].To) != 3 || policy.Spec.Egress[1].To[0].IPBlock.CIDR != "169.254.20.10/32" || len(policy.Spec.Egress[1].Ports) != 2 {
			t.Errorf("made %+v, %+v, %+v", account, binding, policy)
		}
		return all
	}
	for range 2 {
		must.Succeed(t, namespace.Provision(t.Context(), c))
	}
	first := versions()
	must.Succeed(t, namespace.Provision(t.Context(), c))
	for i, v := range versions() {
		if v != first[i] {
			t.Errorf("object %d was written again", i)
		}
	}

	namespace.Network.None = true
	for range 2 {
		must.Succeed(t, namespace.Provision(t.Context(), c))
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: fluxobj.Account}, &networkingv1.NetworkPolicy{}); !apierrors.IsNotFound(err) || len(namespace.Objects()) != 3 {
		t.Errorf("without policies the policy is still there: %v", err)
	}

	theirs := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "theirs"}}
	must.Succeed(t, c.Create(t.Context(), theirs))
	namespace.Account = theirs.Name
	if taken, ok := errors.AsType[*fluxobj.TakenError](namespace.Provision(t.Context(), c)); !ok || taken.Kind != "ServiceAccount" {
		t.Error("somebody else's account is taken for a run")
	}
}

// TestProvisionCharts checks that the account that installs charts may edit only the
// namespace, and that the installed resources can be reached.
//
// Shows: operator 22
func TestProvisionCharts(t *testing.T) {
	c, ns := newClient(t), cluster.Namespace(t, nil).Name
	namespace := fluxobj.RunNamespace{Name: ns, UID: "1", Charts: true}
	must.Succeed(t, namespace.Provision(t.Context(), c))
	key := client.ObjectKey{Namespace: ns, Name: fluxobj.Account}
	binding, policy := &rbacv1.RoleBinding{}, &networkingv1.NetworkPolicy{}
	for _, o := range []client.Object{binding, policy} {
		must.Succeed(t, c.Get(t.Context(), key, o))
	}
	if binding.RoleRef.Name != "edit" || len(binding.Subjects) != 1 || binding.Subjects[0].Namespace != ns || len(policy.Spec.PolicyTypes) != 1 || len(policy.Spec.Egress) != 3 {
		t.Errorf("made %+v, %+v", binding, policy.Spec)
	}
}

// TestEnter: Secrets only of a namespace that was marked.
func TestEnter(t *testing.T) {
	c, ns := newClient(t), cluster.Namespace(t, nil)
	if _, refused := errors.AsType[*fluxobj.NotAllowedError](fluxobj.Enter(t.Context(), c, ns.Name)); !refused {
		t.Error("a namespace without the mark is entered")
	}
	ns.Labels = map[string]string{"okara.dev/tenant": ""}
	must.Succeed(t, c.Update(t.Context(), ns))
	for range 2 {
		must.Succeed(t, fluxobj.Enter(t.Context(), c, ns.Name))
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "okara-operator-secrets"}, &rbacv1.RoleBinding{}); err != nil {
		t.Error(err)
	}
}
