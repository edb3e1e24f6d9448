// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedrbac "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
)

// Account creates an operator's account with the chart's rights, and returns its configuration.
func (c *Cluster) Account(t testing.TB, namespace string) *rest.Config {
	t.Helper()
	return c.newOperatorAccount(t, namespace, []string{"cluster", "runs"}, []string{"secrets", "secretsOfRuns"})
}

// RegistryAccount is like [Cluster.Account], for an operator that only fills a registry.
func (c *Cluster) RegistryAccount(t testing.TB, namespace string) *rest.Config {
	t.Helper()
	return c.newOperatorAccount(t, namespace, []string{"cluster"}, []string{"secrets"})
}

// newOperatorAccount creates an account with rules of the chart, for the cluster and for Secrets.
func (c *Cluster) newOperatorAccount(t testing.TB, namespace string, everywhere, ofSecrets []string) *rest.Config {
	t.Helper()
	rules := rulesOf(t, "operator-rules.yaml")
	all := func(names []string) (list []rbacv1.PolicyRule) {
		for _, name := range names {
			list = append(list, rules[name]...)
		}
		return list
	}
	const secrets = "okara-operator-secrets"
	a := c.account(t, namespace, "okara-operator")
	a.grantEverywhere("okara-operator", namespace, all(everywhere))
	a.grantWithin(namespace, "okara-operator", rules["namespace"])
	a.checkMade(a.rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: secrets}, Rules: all(ofSecrets)}, metav1.CreateOptions{}))
	a.bind(namespace, secrets, "ClusterRole")
	a.awaitRight(namespace, all(everywhere)[0])
	a.awaitRight(namespace, all(ofSecrets)[0])
	return a.config
}

// PortalAccount creates a portal's account with the chart's rights, and returns its configuration.
func (c *Cluster) PortalAccount(t testing.TB, instances string) *rest.Config {
	t.Helper()
	rules := rulesOf(t, "portal-rules.yaml")
	operatorNamespace := c.Namespace(t, nil).Name
	// The names of cluster-wide objects are unique to this test.
	a := c.account(t, operatorNamespace, "okara-portal")
	own := "okara-portal-" + operatorNamespace
	a.grantWithin(instances, own, rules["namespace"])
	a.grantEverywhere(own, own, rules["cluster"])
	return a.config
}

// rulesOf returns the rules of the chart by their purpose.
func rulesOf(t testing.TB, file string) map[string][]rbacv1.PolicyRule {
	t.Helper()
	src := must.Get(os.ReadFile(filepath.Join(Root(), "charts", "okara", "files", file)))(t)
	var rules map[string][]rbacv1.PolicyRule
	must.Succeed(t, yaml.UnmarshalStrict(src, &rules))
	return rules
}

// account is a service account that is granted rights.
type account struct {
	t        testing.TB
	rbac     typedrbac.RbacV1Interface
	subjects []rbacv1.Subject
	config   *rest.Config // connects to the cluster as the account
}

// account creates a service account and its configuration.
func (c *Cluster) account(t testing.TB, namespace, name string) *account {
	t.Helper()
	set := must.Get(kubernetes.NewForConfig(c.Admin(t)))(t)
	a := &account{t, set.RbacV1(), []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}, c.Admin(t)}
	accounts := set.CoreV1().ServiceAccounts(namespace)
	a.checkMade(accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	token := must.Get(accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	a.config.BearerToken = token.Status.Token
	return a
}

// awaitRight waits until the API server knows a right, which it learns by a watch.
func (a *account) awaitRight(namespace string, rule rbacv1.PolicyRule) {
	a.t.Helper()
	set := must.Get(kubernetes.NewForConfig(a.config))(a.t)
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0]},
	}}
	must.Succeed(a.t, wait.PollUntilContextTimeout(a.t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		got, err := set.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && got.Status.Allowed, err
	}))
}

func (a *account) checkMade(_ any, err error) {
	a.t.Helper()
	if err != nil && !apierrors.IsAlreadyExists(err) { // cluster roles are shared by all tests
		a.t.Fatal(err)
	}
}

// grantEverywhere grants rights in the whole cluster.
func (a *account) grantEverywhere(role, binding string, rules []rbacv1.PolicyRule) {
	a.t.Helper()
	a.checkMade(a.rbac.ClusterRoles().Create(a.t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules}, metav1.CreateOptions{}))
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	a.checkMade(a.rbac.ClusterRoleBindings().Create(a.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: binding}, RoleRef: ref, Subjects: a.subjects}, metav1.CreateOptions{}))
}

func (a *account) grantWithin(namespace, role string, rules []rbacv1.PolicyRule) {
	a.t.Helper()
	a.checkMade(a.rbac.Roles(namespace).Create(a.t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules}, metav1.CreateOptions{}))
	a.bind(namespace, role, "Role")
}

func (a *account) bind(namespace, role, kind string) {
	a.t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}
	a.checkMade(a.rbac.RoleBindings(namespace).Create(a.t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: ref, Subjects: a.subjects}, metav1.CreateOptions{}))
}
