// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// PortalAccount makes the account of a portal over the Instances of a namespace, with the
// rights that the chart gives it, and returns what connects to the cluster as it.
func (c *Cluster) PortalAccount(t testing.TB, instances string) *rest.Config {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(Root(), "charts", "okara", "files", "portal-rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules struct{ Namespace, Cluster []rbacv1.PolicyRule }
	if err := yaml.UnmarshalStrict(src, &rules); err != nil {
		t.Fatal(err)
	}
	set, err := kubernetes.NewForConfig(c.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	const account = "okara-portal"
	home := c.Namespace(t, nil).Name
	made := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rbac, options := set.RbacV1(), metav1.CreateOptions{}
	own := metav1.ObjectMeta{Name: account + "-" + home} // of the cluster: of this test alone
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	who := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: account}}
	made(set.CoreV1().ServiceAccounts(home).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, options))
	made(rbac.Roles(instances).Create(t.Context(), &rbacv1.Role{ObjectMeta: own, Rules: rules.Namespace}, options))
	made(rbac.RoleBindings(instances).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: own, RoleRef: ref("Role", own.Name), Subjects: who}, options))
	made(rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: own, Rules: rules.Cluster}, options))
	made(rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: own, RoleRef: ref("ClusterRole", own.Name), Subjects: who}, options))
	token, err := set.CoreV1().ServiceAccounts(home).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, options)
	if err != nil {
		t.Fatal(err)
	}
	config := c.Admin(t)
	config.BearerToken = token.Status.Token
	return config
}
