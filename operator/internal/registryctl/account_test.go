// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// rights returns the verbs that the account of the operator has in every namespace, in that
// of a tenant, and in its own, by resource and name of an object.
func (s *site) rights() map[string]map[string]string {
	all := map[string]string{
		"okara.dev/depots": "get list watch update patch", "okara.dev/depots/status": "update",
		"okara.dev/modules": "get list watch update patch create delete", "okara.dev/modules/status": "update", "okara.dev/modules/finalizers": "update",
		"okara.dev/providers": "get list watch update patch create delete", "okara.dev/providers/status": "update", "okara.dev/providers/finalizers": "update",
		"okara.dev/versions": "get list watch patch create delete", "okara.dev/versions/status": "update",
		"okara.dev/accessrules": "get list watch", "okara.dev/accessrules/status": "update",
		"okara.dev/approvals": "get list watch delete", "okara.dev/approvals/status": "update", "okara.dev/instances": "get list watch",
		"/namespaces": "get list watch", "events.k8s.io/events": "create patch",
		"rbac.authorization.k8s.io/rolebindings":                        "create",
		"rbac.authorization.k8s.io/rolebindings okara-operator-secrets": "create get delete",
		"rbac.authorization.k8s.io/clusterroles okara-operator-secrets": "bind",
		// These are rights of every account: system:basic-user.
		"authorization.k8s.io/selfsubjectaccessreviews": "create", "authorization.k8s.io/selfsubjectrulesreviews": "create",
		"authentication.k8s.io/selfsubjectreviews": "create",
	}
	secrets := map[string]string{"/secrets": "get"}
	own := map[string]string{
		"/secrets": "get", "/events": "create patch", "/configmaps": "create", "/configmaps okara-rules": "create get list watch update",
		"coordination.k8s.io/leases": "create", "coordination.k8s.io/leases okara-operator": "create get update",
	}
	return map[string]map[string]string{"": all, s.ns: secrets, s.operatorNamespace: own}
}

// may reports whether a right is among those that the test expects.
func may(rights map[string]map[string]string, namespace, resource, name, verb string) bool {
	return slices.ContainsFunc([]string{"", namespace}, func(ns string) bool {
		has := func(key string) bool { return slices.Contains(strings.Fields(rights[ns][key]), verb) }
		return has(resource) || name != "" && has(resource+" "+name)
	})
}

// TestAccount runs an operator with the account of the chart through all that it does, and
// checks that the account has no other rights in the cluster.
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
	s.nothingElse()
}

// nothingElse asks the API server about every verb on every resource that it has.
func (s *site) nothingElse() {
	s.t.Helper()
	set := must.Get(kubernetes.NewForConfig(s.account))(s.t)
	_, lists := must.GetBoth(set.Discovery().ServerGroupsAndResources())(s.t)
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate", "approve"}
	named := map[string][]string{"configmaps": {"okara-rules", "else"}, "leases": {"okara-operator", "else"}, "clusterroles": {"okara-operator-secrets", "okara-operator"}}
	rights, asked := s.rights(), 0
	other := cluster.Namespace(s.t, nil).Name
	for _, list := range lists {
		group, _, grouped := strings.Cut(list.GroupVersion, "/")
		if !grouped {
			group = ""
		}
		for _, res := range list.APIResources {
			resource, sub, _ := strings.Cut(res.Name, "/")
			namespaces := []string{""}
			if res.Namespaced {
				namespaces = []string{"", s.ns, s.operatorNamespace, other}
			}
			for _, ns := range namespaces {
				for _, name := range append([]string{""}, named[resource]...) {
					for _, verb := range verbs {
						asked++
						s.compare(set, may(rights, ns, group+"/"+res.Name, name, verb), &authorizationv1.ResourceAttributes{
							Namespace: ns, Verb: verb, Group: group, Version: "*", Resource: resource, Subresource: sub, Name: name,
						})
					}
				}
			}
		}
	}
	s.t.Logf("%d questions", asked)
}

func (s *site) compare(set *kubernetes.Clientset, want bool, a *authorizationv1.ResourceAttributes) {
	s.t.Helper()
	got := must.Get(set.AuthorizationV1().SelfSubjectAccessReviews().Create(s.t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a},
	}, metav1.CreateOptions{}))(s.t)
	if got.Status.Allowed != want {
		s.t.Errorf("%s %s/%s/%s %q in %q: allowed %t, want %t", a.Verb, a.Group, a.Resource, a.Subresource, a.Name, a.Namespace, got.Status.Allowed, want)
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
