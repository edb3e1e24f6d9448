// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/chart"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// site is a cluster with the chart, a tenant and three callers.
type site struct {
	t                               *testing.T
	set                             *kubernetes.Clientset
	system, tenants                 string
	admin, tenant, operator, portal client.Client
	objects                         []*unstructured.Unstructured // of the chart
}

func newSite(t *testing.T) *site {
	t.Helper()
	config := cluster.Admin(t)
	rig.Install(t, config)
	set := must.Get(kubernetes.NewForConfig(config))(t)
	s := &site{t: t, set: set, system: cluster.Namespace(t, nil).Name, tenants: cluster.Namespace(t, nil).Name}
	o := options(t, "few.values.yaml")
	o.Namespace = s.system
	o.Values["runs"], o.Values["portal"] = map[string]any{"enabled": true, "cluster": "prod"}, map[string]any{"enabled": true, "hostname": "portal.example.com"}
	objects := must.Get(chart.Objects(o))(t)
	install(t, objects)
	s.objects = objects
	s.admin = s.connect(config)
	s.bind("okara-operator", s.system, "cluster-admin") // so that only the policies refuse it
	s.operator = s.connect(s.token("okara-operator", s.system))
	must.Succeed(t, s.admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "anna", Namespace: s.tenants}}))
	// The verbs of an administrator except those that the chart reserves.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.tenants}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"},
	}}}
	must.Succeed(t, s.admin.Create(t.Context(), role))
	s.bind("anna", s.tenants, s.tenants)
	s.tenant = s.connect(s.token("anna", s.tenants))
	s.portal = s.connect(s.token("okara-portal", s.system))
	s.untilInForce()
	return s
}

func (s *site) connect(config *rest.Config) client.Client {
	s.t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, apiextensions.AddToScheme} {
		must.Succeed(s.t, add(scheme))
	}
	return must.Get(client.New(config, client.Options{Scheme: scheme}))(s.t)
}

func (s *site) token(name, namespace string) *rest.Config {
	s.t.Helper()
	r := must.Get(s.set.CoreV1().ServiceAccounts(namespace).CreateToken(s.t.Context(), name, &authv1.TokenRequest{}, metav1.CreateOptions{}))(s.t)
	config := rest.CopyConfig(cluster.Admin(s.t))
	config.BearerToken = r.Status.Token
	return config
}

func (s *site) bind(account, namespace, role string) {
	s.t.Helper()
	b := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-" + namespace + "-" + account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}},
	}
	must.Get(s.set.RbacV1().ClusterRoleBindings().Create(s.t.Context(), b, metav1.CreateOptions{}))(s.t)
}

// untilInForce waits until the API server enforces every policy.
func (s *site) untilInForce() {
	s.t.Helper()
	for what, try := range map[string]func() error{
		"okara-managed":          func() error { return s.tenant.Create(s.t.Context(), s.module(managed)) },
		"okara-marks":            func() error { return s.tenant.Create(s.t.Context(), s.module(annotated("okara.dev/abandon", "x"))) },
		"okara-marks-namespaces": func() error { return s.tenant.Create(s.t.Context(), s.namespace("okara.dev/tenant")) },
		"okara-self":             func() error { return s.operator.Create(s.t.Context(), s.namespace("okara.dev/tenant")) },
		"okara-protect": func() error {
			m := s.made(annotated("okara.dev/protect", "true"))
			return s.tenant.Delete(s.t.Context(), m)
		},
		"okara-approver": func() error { return s.tenant.Create(s.t.Context(), s.instance("alice")) },
		"okara-status": func() error {
			m := s.made()
			return s.tenant.Status().Patch(s.t.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"status":{"latest":"1.0.0"}}`)))
		},
		"okara-portal": func() error {
			return s.portal.Create(s.t.Context(), s.instance(user, finalizers("example.com/x")))
		},
		"okara-owner": func() error {
			o := s.instance(user)
			if err := s.portal.Create(s.t.Context(), o); err != nil {
				return err // the policy still names the portal of an earlier test
			}
			return s.tenant.Delete(s.t.Context(), o)
		},
		"okara-namespace": func() error {
			ns := s.namespace("okara.dev/runs")
			must.Succeed(s.t, s.admin.Create(s.t.Context(), ns))
			return s.tenant.Delete(s.t.Context(), ns)
		},
	} {
		var last error
		if err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			last = try()
			return refusedBy(last, what), nil
		}); err != nil {
			s.t.Fatalf("policy %s refuses nothing: %v", what, last)
		}
	}
}

// refusedBy reports whether a policy of that name refused the request.
func refusedBy(err error, policy string) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'")
}

func managed(o client.Object) { o.SetLabels(map[string]string{v1alpha1.LabelManaged: ""}) }

func annotated(key, value string) func(client.Object) {
	return func(o client.Object) { o.SetAnnotations(map[string]string{key: value}) }
}

func finalizers(names ...string) func(client.Object) {
	return func(o client.Object) { o.SetFinalizers(names) }
}

func (s *site) module(changes ...func(client.Object)) *v1alpha1.Module {
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-", Namespace: s.tenants}}
	m.Spec.Address, m.Spec.Source = "net/vpc/aws", "github.com/acme/vpc"
	for _, change := range changes {
		change(m)
	}
	return m
}

// made returns a Module that the operator created.
func (s *site) made(changes ...func(client.Object)) *v1alpha1.Module {
	s.t.Helper()
	m := s.module(changes...)
	s.must(s.operator.Create(s.t.Context(), m))
	return m
}

func (s *site) namespace(label string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	if label != "" {
		ns.Labels = map[string]string{label: ""}
	}
	return ns
}

// marked creates a namespace that an administrator marked as a tenant's.
func (s *site) marked() string {
	s.t.Helper()
	ns := s.namespace(v1alpha1.LabelTenant)
	s.must(s.admin.Create(s.t.Context(), ns))
	return ns.Name
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// refuses requires a refusal by a policy, or any of several.
func (s *site) refuses(policies, what string, err error) {
	s.t.Helper()
	refused := func(policy string) bool { return refusedBy(err, policy) }
	if !slices.ContainsFunc(strings.Split(policies, ", "), refused) {
		s.t.Errorf("%s: %v, want a refusal of %s", what, err, policies)
	}
}

func (s *site) allows(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
}

// patch applies a merge patch to an object, whatever its version.
func patch(ctx context.Context, c client.Client, o client.Object, text string) error {
	return c.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(text)))
}

// TestPolicies checks what the policies of the chart allow a tenant, the operator and an
// administrator. Each of them has every RBAC right for it, so that only policies refuse.
//
// Shows: operator 19 | the policies refuse forbidden requests of tenants, the portal and the
// operator, made with their tokens: by patch, generateName, deletion of a collection,
// impersonation, and with namespaces
func TestPolicies(t *testing.T) {
	s := newSite(t)
	t.Run("managed", func(t *testing.T) { s.at(t).managed() })
	t.Run("versions", func(t *testing.T) { s.at(t).versions() })
	t.Run("marks", func(t *testing.T) { s.at(t).marks() })
	t.Run("namespaces", func(t *testing.T) { s.at(t).namespaces() })
	t.Run("protect", func(t *testing.T) { s.at(t).protect() })
	t.Run("self", func(t *testing.T) { s.at(t).self() })
}

func (s *site) at(t *testing.T) *site {
	c := *s
	c.t = t
	return &c
}

func (s *site) managed() {
	ctx := s.t.Context()
	rules := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-", Namespace: s.marked()}}
	s.must(s.tenant.Create(ctx, rules.DeepCopy()))
	managed(rules)
	s.refuses("okara-managed", "a ConfigMap as the operator makes it", s.tenant.Create(ctx, rules.DeepCopy()))
	s.must(s.operator.Create(ctx, rules))
	s.refuses("okara-managed", "another content", patch(ctx, s.tenant, rules, `{"data":{"rules.json":"{}"}}`))
	m := s.made(managed)
	s.refuses("okara-managed", "taking the label away", patch(ctx, s.tenant, m, `{"metadata":{"labels":{"okara.dev/managed":null}}}`))
	s.refuses("okara-managed", "another source", patch(ctx, s.tenant, m, `{"spec":{"source":"github.com/evil/vpc"}}`))
	s.refuses("okara-managed", "deletion", s.tenant.Delete(ctx, m))
	s.refuses("okara-managed", "deletion of all", s.tenant.DeleteAllOf(ctx, &v1alpha1.Module{}, client.InNamespace(s.tenants), client.MatchingLabels{v1alpha1.LabelManaged: ""}))
	mine := s.module()
	s.must(s.tenant.Create(ctx, mine))
	s.refuses("okara-managed", "the label on what is there", patch(ctx, s.tenant, mine, `{"metadata":{"labels":{"okara.dev/managed":""}}}`))
	s.allows("a Module of one's own", patch(ctx, s.tenant, mine, `{"spec":{"source":"github.com/acme/other"}}`))
	s.allows("the operator", patch(ctx, s.operator, m, `{"spec":{"source":"github.com/acme/other"}}`))
	s.allows("an administrator", s.admin.DeleteAllOf(ctx, &v1alpha1.Module{}, client.InNamespace(s.tenants), client.MatchingLabels{v1alpha1.LabelManaged: ""}))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "okara-" + s.tenants}}
	managed(role)
	s.refuses("okara-managed", "what is of no namespace", s.tenant.Create(ctx, role.DeepCopy()))
	s.must(s.operator.Create(ctx, role))
	s.allows("an administrator of what is of no namespace", s.admin.Delete(ctx, role))
}

func (s *site) versions() {
	ctx := s.t.Context()
	v := &v1alpha1.Version{ObjectMeta: metav1.ObjectMeta{GenerateName: "v-", Namespace: s.tenants}}
	managed(v)
	v.Spec.Target, v.Spec.Version = &v1alpha1.Target{Kind: "Module", Name: "m"}, "1.0.0"
	s.must(s.operator.Create(ctx, v))
	s.allows("how it is listed", patch(ctx, s.tenant, v, `{"spec":{"state":"Yanked","message":"broken"}}`))
	s.refuses("okara-managed", "its labels", patch(ctx, s.tenant, v, `{"metadata":{"labels":{"okara.dev/uid":"x"}}}`))
	s.refuses("okara-managed", "its owner", patch(ctx, s.tenant, v, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"u"}]}}`))
	s.refuses("okara-managed, okara-status", "its status", s.tenant.Status().Patch(ctx, v.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"digest":"sha256:0"}}`))))
}

func (s *site) marks() {
	ctx := s.t.Context()
	for _, mark := range []string{"adopt-state", "abandon", "unlock"} {
		s.refuses("okara-marks", mark+" of a new object", s.tenant.Create(ctx, s.module(annotated("okara.dev/"+mark, "true"))))
		m := s.module()
		s.must(s.tenant.Create(ctx, m))
		s.refuses("okara-marks", mark, patch(ctx, s.tenant, m, `{"metadata":{"annotations":{"okara.dev/`+mark+`":"true"}}}`))
		s.must(patch(ctx, s.admin, m, `{"metadata":{"annotations":{"okara.dev/`+mark+`":"true"}}}`))
		s.allows("another annotation beside "+mark, patch(ctx, s.tenant, m, `{"metadata":{"annotations":{"okara.dev/requestedAt":"now"}}}`))
		s.refuses("okara-marks", mark+" anew", patch(ctx, s.tenant, m, `{"metadata":{"annotations":{"okara.dev/`+mark+`":"other"}}}`))
		s.allows(mark+" away", patch(ctx, s.tenant, m, `{"metadata":{"annotations":{"okara.dev/`+mark+`":null}}}`))
	}
	m := s.made(finalizers(v1alpha1.FinalizerRegistry, "example.com/other"))
	s.allows("the finalizer of others", patch(ctx, s.tenant, m, `{"metadata":{"finalizers":["okara.dev/registry"]}}`))
	s.refuses("okara-marks", "ours", patch(ctx, s.tenant, m, `{"metadata":{"finalizers":null}}`))
	s.allows("ours by the operator", patch(ctx, s.operator, m, `{"metadata":{"finalizers":null}}`))
}

func (s *site) namespaces() {
	ctx := s.t.Context()
	ns := s.namespace("")
	s.must(s.tenant.Create(ctx, ns))
	s.allows("a label of others", patch(ctx, s.tenant, ns, `{"metadata":{"labels":{"team":"a"}}}`))
	for _, mark := range []string{`"annotations":{"okara.dev/addresses":"module:**"}`, `"labels":{"okara.dev/tenant":""}`, `"annotations":{"okara.dev/adopt-state":"true"}`} {
		s.refuses("okara-marks-namespaces", mark, patch(ctx, s.tenant, ns, `{"metadata":{`+mark+`}}`))
		s.refuses("okara-marks-namespaces", mark+" with its status", s.tenant.Status().Patch(ctx, ns.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{`+mark+`}}`))))
		s.allows(mark+" by an administrator", patch(ctx, s.admin, ns, `{"metadata":{`+mark+`}}`))
	}
	s.refuses("okara-marks-namespaces", "taking one away", patch(ctx, s.tenant, ns, `{"metadata":{"labels":{"okara.dev/tenant":null}}}`))
	s.allows("another annotation beside them", patch(ctx, s.tenant, ns, `{"metadata":{"annotations":{"team":"a"}}}`))
}

func (s *site) protect() {
	ctx := s.t.Context()
	m := s.module(annotated("okara.dev/protect", "true"))
	s.must(s.tenant.Create(ctx, m))
	s.refuses("okara-protect", "deletion", s.tenant.Delete(ctx, m))
	s.refuses("okara-protect", "deletion by an administrator", s.admin.Delete(ctx, m))
	s.allows("the annotation away", patch(ctx, s.tenant, m, `{"metadata":{"annotations":{"okara.dev/protect":null}}}`))
	s.allows("deletion", s.tenant.Delete(ctx, m))
}

func (s *site) self() {
	ctx := s.t.Context()
	binding := func(ns, role, account string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "b-", Namespace: ns},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: s.system}},
		}
	}
	tenant := s.namespace("okara.dev/tenant")
	s.must(s.admin.Create(ctx, tenant))
	s.allows("its right in a tenant's namespace", s.operator.Create(ctx, binding(tenant.Name, "okara-operator-secrets", "okara-operator")))
	s.refuses("okara-self", "that of nobody", s.operator.Create(ctx, binding(s.tenants, "okara-operator-secrets", "okara-operator")))
	s.refuses("okara-self", "another right", s.operator.Create(ctx, binding(tenant.Name, "edit", "okara-operator")))
	s.refuses("okara-self", "its right to another", s.operator.Create(ctx, binding(tenant.Name, "okara-operator-secrets", "default")))
	s.refuses("okara-self", "its right everywhere", s.operator.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"}, RoleRef: binding("", "okara-operator-secrets", "").RoleRef, Subjects: binding("", "", "okara-operator").Subjects,
	}))
	s.refuses("okara-self", "a ClusterRole", s.operator.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}))
	s.refuses("okara-self", "a tenant", patch(ctx, s.operator, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.tenants}}, `{"metadata":{"labels":{"okara.dev/tenant":""}}}`))
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.okara.dev"}}
	crd.Spec = apiextensions.CustomResourceDefinitionSpec{
		Group: "okara.dev", Scope: apiextensions.NamespaceScoped, Names: apiextensions.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object"}},
		}},
	}
	s.refuses("okara-self", "a kind of our group", s.operator.Create(ctx, crd))
}
