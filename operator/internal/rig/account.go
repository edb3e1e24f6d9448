// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Account makes the account of an operator in a namespace, with the rights that the
// chart gives one that runs modules, and returns what connects to the cluster as it.
func (c *Cluster) Account(t testing.TB, namespace string) *rest.Config {
	t.Helper()
	return c.account(t, namespace, []string{"cluster", "runs"}, []string{"secrets", "secretsOfRuns"})
}

// RegistryAccount is [Cluster.Account] for one that fills a registry alone.
func (c *Cluster) RegistryAccount(t testing.TB, namespace string) *rest.Config {
	t.Helper()
	return c.account(t, namespace, []string{"cluster"}, []string{"secrets"})
}

// account gives an account rules of the chart, in the cluster and of Secrets.
func (c *Cluster) account(t testing.TB, namespace string, everywhere, ofSecrets []string) *rest.Config {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(Root(), "charts", "okara", "files", "operator-rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules map[string][]rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict(src, &rules); err != nil {
		t.Fatal(err)
	}
	all := func(names []string) (list []rbacv1.PolicyRule) {
		for _, name := range names {
			list = append(list, rules[name]...)
		}
		return list
	}
	set, err := kubernetes.NewForConfig(c.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	const account, secrets = "okara-operator", "okara-operator-secrets"
	rbac := set.RbacV1()
	made := func(_ any, err error) {
		t.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) { // roles of the cluster are for all tests
			t.Fatal(err)
		}
	}
	options, meta := metav1.CreateOptions{}, func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	who := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}
	made(set.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta(account)}, options))
	made(rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta(account), Rules: all(everywhere)}, options))
	made(rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta(secrets), Rules: all(ofSecrets)}, options))
	made(rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta(namespace), RoleRef: ref("ClusterRole", account), Subjects: who}, options))
	made(rbac.Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta(account), Rules: rules["namespace"]}, options))
	made(rbac.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta(account), RoleRef: ref("Role", account), Subjects: who}, options))
	made(rbac.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta(secrets), RoleRef: ref("ClusterRole", secrets), Subjects: who}, options))
	token, err := set.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, options)
	if err != nil {
		t.Fatal(err)
	}
	config := c.Admin(t)
	config.BearerToken = token.Status.Token
	return config
}
