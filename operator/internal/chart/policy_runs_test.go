// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// instances is the namespace of Instances.
const instances = "okara-instances"

// TestPoliciesOfRuns checks what the policies allow a tenant, the portal, the operator
// and impersonated users with Instances, Approvals and generated kinds. Each of them has
// every RBAC right for it.
//
// Shows: operator 19
// Shows: kinds 5 | a namespace with runs in it cannot be deleted
func TestPoliciesOfRuns(t *testing.T) {
	s := newSite(t)
	rig.InstallFlux(t, cluster.Admin(t))
	s.bind("okara-portal", s.system, s.tenants)
	s.kind()
	t.Run("approvals", func(t *testing.T) { s.at(t).approvals() })
	t.Run("launches", func(t *testing.T) { s.at(t).launches() })
	t.Run("assigns", func(t *testing.T) { s.at(t).assigns() })
	t.Run("pools", func(t *testing.T) { s.at(t).pools() })
	t.Run("protect", func(t *testing.T) { s.at(t).protectRuns() })
	t.Run("portal", func(t *testing.T) { s.at(t).portals() })
	t.Run("marks", func(t *testing.T) { s.at(t).marksOfRuns() })
	t.Run("managed", func(t *testing.T) { s.at(t).managedRuns() })
	t.Run("statuses", func(t *testing.T) { s.at(t).statuses() })
	t.Run("self", func(t *testing.T) { s.at(t).selfRuns() })
	t.Run("definitions", func(t *testing.T) { s.at(t).definitions() })
	t.Run("data", func(t *testing.T) { s.at(t).deletionOfData() })
	t.Run("owners", func(t *testing.T) { s.at(t).owners() })
}

// kind creates the kind Vpc as the operator, and waits until it is served.
func (s *site) kind() {
	s.t.Helper()
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "vpcs.apps.okara.dev"}}
	managed(crd)
	crd.Spec = apiextensions.CustomResourceDefinitionSpec{
		Group: "apps.okara.dev", Scope: apiextensions.NamespaceScoped,
		Names: apiextensions.CustomResourceDefinitionNames{Plural: "vpcs", Singular: "vpc", Kind: "Vpc", ListKind: "VpcList"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{{
			Name: "v1alpha1", Served: true, Storage: true, Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
			Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"spec": {
					Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"protected": {Type: "string"}},
				}},
			}},
		}},
	}
	s.must(s.operator.Create(s.t.Context(), crd))
	s.t.Cleanup(func() {
		if err := s.operator.Delete(context.WithoutCancel(s.t.Context()), crd); err != nil {
			s.t.Error(err)
		}
	})
	s.refuses("okara-managed", "the kind of somebody else", patch(s.t.Context(), s.tenant, crd, `{"spec":{"names":{"shortNames":["x"]}}}`))
	var last error
	if err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = s.admin.Create(ctx, s.vpc())
		return last == nil, nil
	}); err != nil {
		s.t.Fatalf("the kind is not served: %v", last)
	}
}

// vpc is an object of the generated kind.
func (s *site) vpc(changes ...func(client.Object)) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"protected": "true"}}}
	o.SetAPIVersion("apps.okara.dev/v1alpha1")
	o.SetKind("Vpc")
	o.SetGenerateName("v-")
	o.SetNamespace(s.tenants)
	for _, change := range changes {
		change(o)
	}
	return o
}

// instance returns a new Instance of the user by, or of a pool if by is "".
func (s *site) instance(by string, changes ...func(client.Object)) *v1alpha1.Instance {
	name := make([]byte, 10)
	for j := range name {
		const letters = "abcdefghjkmnpqrstvwxyz"
		name[j] = letters[rand.IntN(len(letters))]
	}
	i := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Name: string(name), Namespace: instances}}
	i.Spec.Template, i.Spec.CreatedBy = "sandbox/vpc", by
	if by != "" {
		i.Spec.Owner = &v1alpha1.Owner{Kind: "User", ID: by}
	}
	for _, change := range changes {
		change(i)
	}
	return i
}

func (s *site) approval(by string) *v1alpha1.Approval {
	a := &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-", Namespace: instances}}
	a.Spec = v1alpha1.ApprovalSpec{Target: v1alpha1.ApprovalTarget{Kind: "Instance", Name: "i"}, Plan: v1alpha1.PlanRequest, Approver: by}
	return a
}

// impersonates is an administrator as a tenant's user.
func (s *site) impersonates(user string) client.Client {
	s.t.Helper()
	s.must(client.IgnoreAlreadyExists(s.admin.Create(s.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-" + s.tenants + "-" + strings.ReplaceAll(user, ":", "-")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.tenants},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})))
	config := rest.CopyConfig(cluster.Admin(s.t))
	config.Impersonate.UserName = user
	c := s.connect(config)
	var last error
	if err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = c.List(ctx, &v1alpha1.ApprovalList{}, client.InNamespace(instances))
		return last == nil, nil
	}); err != nil {
		s.t.Fatalf("the API server does not learn of the binding of %s: %v", user, last)
	}
	return c
}

func (s *site) anna() string { return "system:serviceaccount:" + s.tenants + ":anna" }

const user = "portal:https://idp.example.com#alice"

func (s *site) approvals() {
	ctx := s.t.Context()
	s.allows("one's own Approval", s.tenant.Create(ctx, s.approval(s.anna())))
	s.allows("a user of the portal", s.portal.Create(ctx, s.approval(user)))
	s.refuses("okara-approver", "another's name", s.tenant.Create(ctx, s.approval("alice")))
	s.refuses("okara-approver", "a user of the portal by a tenant", s.tenant.Create(ctx, s.approval(user)))
	s.refuses("okara-approver", "a user of the portal by an administrator", s.admin.Create(ctx, s.approval(user)))
	s.refuses("okara-approver", "a user of the portal by the operator", s.operator.Create(ctx, s.approval(user)))
	s.refuses("okara-approver", "the portal itself", s.portal.Create(ctx, s.approval("system:serviceaccount:"+s.system+":okara-portal")))
	s.refuses("okara-approver", "somebody else by the portal", s.portal.Create(ctx, s.approval(s.anna())))
	bob := s.impersonates("bob")
	s.allows("who is impersonated", bob.Create(ctx, s.approval("bob")))
	s.refuses("okara-approver", "another than who is impersonated", bob.Create(ctx, s.approval(s.anna())))
	odd := s.impersonates("portal:x")
	s.refuses("okara-approver", "who is called like a user of the portal", odd.Create(ctx, s.approval("portal:x")))
}

func (s *site) launches() {
	ctx := s.t.Context()
	s.allows("one's own Instance", s.tenant.Create(ctx, s.instance(s.anna())))
	s.allows("that of a user of the portal", s.portal.Create(ctx, s.instance(user)))
	s.refuses("okara-approver", "another's", s.tenant.Create(ctx, s.instance("alice")))
	s.refuses("okara-approver", "that of a user of the portal by a tenant", s.tenant.Create(ctx, s.instance(user)))
	s.refuses("okara-approver", "that of a tenant by the portal", s.portal.Create(ctx, s.instance(s.anna())))
	s.refuses("okara-approver", "a member of a pool by a tenant", s.tenant.Create(ctx, s.instance("")))
	s.refuses("okara-approver", "a member of a pool by the portal", s.portal.Create(ctx, s.instance("")))
	s.refuses("okara-approver", "another's by the operator", s.operator.Create(ctx, s.instance(s.anna())))
	mine := s.instance(s.anna())
	s.must(s.tenant.Create(ctx, mine))
	s.refuses("okara-approver", "a change without a name", patch(ctx, s.portal, mine, `{"spec":{"name":"other"}}`))
	s.refuses("okara-approver", "a change in another's name", patch(ctx, s.tenant, mine, `{"spec":{"name":"other","changedBy":"alice"}}`))
	s.refuses("okara-approver", "a wish in another's name", patch(ctx, s.tenant, mine, `{"metadata":{"annotations":{"okara.dev/cancel":"now"}},"spec":{"changedBy":"`+user+`"}}`))
	s.allows("one's own change", patch(ctx, s.tenant, mine, `{"spec":{"name":"other","changedBy":"`+s.anna()+`"}}`))
	s.allows("another field of it by the portal", patch(ctx, s.portal, mine, `{"spec":{"name":"third","changedBy":"`+user+`"}}`))
	s.allows("another annotation of it", patch(ctx, s.tenant, mine, `{"metadata":{"annotations":{"team":"a"}}}`))
	for what, change := range map[string]func(*v1alpha1.InstanceSpec){
		"owner":              func(o *v1alpha1.InstanceSpec) { o.Owner.ID = "alice" },
		"owner of an issuer": func(o *v1alpha1.InstanceSpec) { o.Owner.Issuer = "https://idp.example.com" },
		"group":              func(o *v1alpha1.InstanceSpec) { o.Owner.Kind, o.Owner.ID = "Group", "net" },
		"owner by a claim":   func(o *v1alpha1.InstanceSpec) { o.Owner.Kind, o.Owner.ID = "Claim", "net" },
		"claim":              func(o *v1alpha1.InstanceSpec) { o.Claims = map[string]v1alpha1.ClaimValue{"team": "net"} },
		"owner by such claim": func(o *v1alpha1.InstanceSpec) {
			o.Owner.Kind, o.Owner.ID, o.Claims = "Claim", "net", map[string]v1alpha1.ClaimValue{"team": "net"}
		},
	} {
		s.refuses("okara-approver", "another's "+what, s.tenant.Create(ctx, s.instance(s.anna(), func(o client.Object) { change(&o.(*v1alpha1.Instance).Spec) })))
	}
	s.allows("that of a group of one's own", s.tenant.Create(ctx, s.instance(s.anna(), func(o client.Object) {
		w := o.(*v1alpha1.Instance).Spec.Owner
		w.Kind, w.ID = "Group", "system:serviceaccounts:"+s.tenants
	})))
	s.allows("what a backup brings back", s.admin.Create(ctx, s.instance(user)))
	s.allows("a member that a backup brings back", s.admin.Create(ctx, s.instance("", managed)))
	s.allows("its end by the operator", patch(ctx, s.operator, mine, `{"spec":{"expiresAt":"2030-01-01T00:00:00Z"}}`))
}

// statuses: who may write everything in a namespace, with the UID of another's Instance in the status
// of an older one of his, would have and end what it made.
func (s *site) statuses() {
	ctx := s.t.Context()
	s.must(s.admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "dora", Namespace: s.tenants},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "dora"}},
	}))
	dora := s.impersonates("dora")
	s.must(wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return dora.List(ctx, &v1alpha1.InstanceList{}, client.InNamespace(s.tenants)) == nil, nil
	}))
	here := func(o client.Object) { o.SetNamespace(s.tenants) }
	s.allows("an Instance by who has all verbs in its namespace", dora.Create(ctx, s.instance("dora", here)))
	s.refuses("okara-approver", "one that another is said to have created", dora.Create(ctx, s.instance(user, here)))
	i := s.instance(s.anna(), here)
	for what, o := range map[string]client.Object{"an Instance": i, "an object of a kind": s.vpc()} {
		s.must(s.tenant.Create(s.t.Context(), o))
		write := func(c client.Client) error {
			return c.Status().Patch(s.t.Context(), o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(`{"status":{"uid":"of another"}}`)))
		}
		s.refuses("okara-status", "the status of "+what, write(s.tenant))
		s.refuses("okara-status", "the status of "+what+" by who has all verbs in its namespace", write(dora))
		s.allows("that of "+what+" by the operator", write(s.operator))
		s.allows("that of "+what+" from a backup", write(s.admin))
	}
}

// assigns: an account of GitOps says whose an Instance is, and has what it created.
func (s *site) assigns() {
	ctx := s.t.Context()
	flux := s.assigner(instances)
	const change = `{"spec":{"name":"other","changedBy":"flux"}}`
	annas := s.instance("flux", ownedBy("User", "anna", nil))
	s.allows("another's Instance, by who may assign it", flux.Create(ctx, annas))
	elsewhere := s.instance("flux", ownedBy("User", "anna", nil))
	elsewhere.Namespace = s.tenants
	s.refuses("okara-approver", "another's, where it may not", flux.Create(ctx, elsewhere))
	s.allows("its change", patch(ctx, flux, annas, change))
	s.refuses("okara-approver", "one that another is said to have created", flux.Create(ctx, s.instance("anna")))
	s.refuses("okara-approver", "one of the portal", flux.Create(ctx, s.instance(user)))
	s.allows("one of who logs in at the portal", flux.Create(ctx, s.instance("flux", ownedBy("User", user, nil))))
	others := s.instance(s.anna())
	s.must(s.tenant.Create(ctx, others))
	s.refuses("okara-owner", "the change of what another created", patch(ctx, flux, others, change))
	s.refuses("okara-owner", "its end", flux.Delete(ctx, others))
	s.refuses("okara-owner", "the end by another", s.tenant.Delete(ctx, annas))
	s.allows("the end of what it created", flux.Delete(ctx, annas))
}

func (s *site) pools() {
	ctx := s.t.Context()
	claim := func(by string) string {
		return `{"spec":{"owner":{"kind":"User","id":"x"},"createdBy":"` + by + `"}}`
	}
	member := s.instance("", managed)
	s.must(s.operator.Create(ctx, member))
	s.refuses("okara-approver", "a claim in another's name", patch(ctx, s.tenant, member, claim("alice")))
	s.refuses("okara-approver", "a claim in the name of a user", patch(ctx, s.tenant, member, claim(user)))
	s.refuses("okara-approver", "a claim that says who changed it", patch(ctx, s.portal, member, `{"spec":{"owner":{"kind":"User","id":"x"},"createdBy":"`+user+`","changedBy":"alice"}}`))
	s.refuses("okara-managed, okara-owner", "its labels", patch(ctx, s.tenant, member, `{"metadata":{"labels":{"okara.dev/managed":null}}}`))
	s.allows("a claim", patch(ctx, s.portal, member, claim(user)))
	s.refuses("okara-managed", "its labels by the portal", patch(ctx, s.portal, member, `{"metadata":{"labels":{"okara.dev/uid":"x"}}}`))
	s.allows("its end", s.portal.Delete(ctx, member))
}

func (s *site) protectRuns() {
	ctx := s.t.Context()
	i := s.instance(s.anna(), func(o client.Object) { o.(*v1alpha1.Instance).Spec.Protected = true })
	s.must(s.tenant.Create(ctx, i))
	s.refuses("okara-protect", "deletion", s.tenant.Delete(ctx, i))
	s.refuses("okara-protect", "deletion by the portal", s.portal.Delete(ctx, i))
	s.refuses("okara-protect", "deletion by an administrator", s.admin.Delete(ctx, i))
	s.refuses("okara-protect, okara-owner", "deletion of all", s.tenant.DeleteAllOf(ctx, &v1alpha1.Instance{}, client.InNamespace(instances)))
	s.allows("deletion by the operator, which knows the template", s.operator.Delete(ctx, i))
	v := s.vpc(annotated("okara.dev/protect", "true"))
	s.must(s.tenant.Create(ctx, v))
	s.refuses("okara-protect", "deletion of an object", s.tenant.Delete(ctx, v))
	s.refuses("okara-protect", "deletion of all objects", s.tenant.DeleteAllOf(ctx, s.vpc(), client.InNamespace(s.tenants)))
	s.allows("the annotation away", patch(ctx, s.tenant, v, `{"metadata":{"annotations":{"okara.dev/protect":null}}}`))
	s.allows("deletion of an object with an input that is called protected", s.tenant.Delete(ctx, v))

	ns := s.namespace("okara.dev/runs")
	ns.Labels[v1alpha1.LabelManaged] = ""
	s.must(s.operator.Create(ctx, ns))
	s.refuses("okara-namespace, okara-managed", "deletion of a namespace with runs", s.tenant.Delete(ctx, ns))
	s.refuses("okara-namespace, okara-managed", "the same by an administrator", s.admin.Delete(ctx, ns))
	s.refuses("okara-namespace", "the same by the operator", s.operator.Delete(ctx, ns))
	s.refuses("okara-marks-namespaces, okara-managed", "taking the label away", patch(ctx, s.tenant, ns, `{"metadata":{"labels":{"okara.dev/runs":null}}}`))
	s.allows("the operator, when the runs have ended", patch(ctx, s.operator, ns, `{"metadata":{"labels":{"okara.dev/runs":null}}}`))
	s.allows("deletion then", s.operator.Delete(ctx, ns))
}

func (s *site) portals() {
	ctx := s.t.Context()
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "u"}}
	for what, change := range map[string]func(client.Object){
		"a finalizer":     finalizers("example.com/x"),
		"an owner":        func(o client.Object) { o.SetOwnerReferences(owner) },
		"a label":         func(o client.Object) { o.SetLabels(map[string]string{"team": "x"}) },
		"an annotation":   annotated("kubectl.kubernetes.io/last-applied-configuration", "x"),
		"a label of Helm": func(o client.Object) { o.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"}) },
	} {
		s.refuses("okara-portal", what, s.portal.Create(ctx, s.instance(user, change)))
		a := s.approval(user)
		change(a)
		s.refuses("okara-portal", what+" of an Approval", s.portal.Create(ctx, a))
	}
	i := s.instance(user)
	s.must(s.portal.Create(ctx, i))
	s.allows("a request", patch(ctx, s.portal, i, `{"metadata":{"annotations":{"okara.dev/requestedAt":"now"}},"spec":{"changedBy":"`+user+`"}}`))
	for what, text := range map[string]string{
		"a finalizer": `{"finalizers":["example.com/x"]}`, "an owner": `{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"u"}]}`,
		"a label": `{"labels":{"team":"x"}}`, "an annotation": `{"annotations":{"team":"x"}}`,
	} {
		s.refuses("okara-portal", what+" of what is there", patch(ctx, s.portal, i, `{"metadata":`+text+`}`))
	}
	s.must(patch(ctx, s.admin, i, `{"metadata":{"labels":{"team":"x"},"finalizers":["example.com/x"]}}`))
	s.allows("what others wrote stays", patch(ctx, s.portal, i, `{"spec":{"name":"other","changedBy":"`+user+`"}}`))
	s.refuses("okara-portal", "taking a label of others away", patch(ctx, s.portal, i, `{"metadata":{"labels":{"team":null}}}`))
	s.refuses("okara-portal", "taking a finalizer of others away", patch(ctx, s.portal, i, `{"metadata":{"finalizers":null}}`))
	s.must(patch(ctx, s.admin, i, `{"metadata":{"finalizers":null}}`))
}

func (s *site) marksOfRuns() {
	ctx := s.t.Context()
	for _, mark := range []string{"adopt-state", "abandon", "unlock"} {
		s.refuses("okara-marks", mark+" of a new object", s.tenant.Create(ctx, s.vpc(annotated("okara.dev/"+mark, "x"))))
		s.refuses("okara-marks", mark+" of a new Instance", s.tenant.Create(ctx, s.instance(s.anna(), annotated("okara.dev/"+mark, "x"))))
		v := s.vpc()
		s.must(s.tenant.Create(ctx, v))
		text := `{"metadata":{"annotations":{"okara.dev/` + mark + `":"x"}}}`
		s.refuses("okara-marks", mark, patch(ctx, s.tenant, v, text))
		s.refuses("okara-marks", mark+" by who is impersonated", patch(ctx, s.impersonates("bob"), v, text))
		s.allows(mark+" by an administrator", patch(ctx, s.admin, v, text))
		s.audited("admin", mark, v)
	}
	i := s.instance(user)
	s.must(s.portal.Create(ctx, i))
	s.allows("abandon by the portal, which has the verb", patch(ctx, s.portal, i, `{"metadata":{"annotations":{"okara.dev/abandon":"x"}},"spec":{"changedBy":"`+user+`"}}`))
	s.refuses("okara-marks", "adopt-state by the portal", patch(ctx, s.portal, i, `{"metadata":{"annotations":{"okara.dev/adopt-state":"true"}},"spec":{"changedBy":"`+user+`"}}`))
	s.must(patch(ctx, s.operator, i, `{"metadata":{"finalizers":["okara.dev/run"]}}`))
	s.refuses("okara-marks, okara-owner", "the finalizer by a tenant", patch(ctx, s.tenant, i, `{"metadata":{"finalizers":null}}`))
	if err := patch(ctx, s.portal, i, `{"metadata":{"finalizers":null}}`); !refusedBy(err, "okara-marks") && !refusedBy(err, "okara-portal") {
		s.t.Errorf("the finalizer by the portal: %v", err)
	}
	s.allows("the finalizer by the operator", patch(ctx, s.operator, i, `{"metadata":{"finalizers":null}}`))
}

// audited: one user set a mark, others were refused.
func (s *site) audited(who, mark string, o client.Object) {
	s.t.Helper()
	set, refused := 0, 0
	for line := range strings.Lines(cluster.Audit(s.t)) {
		if !strings.Contains(line, `"name":"`+o.GetName()+`"`) || !strings.Contains(line, `"okara-marks/`+mark+`":"okara.dev/`+mark+`=x"`) {
			continue
		}
		switch {
		case strings.Contains(line, `"code":403`):
			refused++
		case strings.Contains(line, `"user":{"username":"`+who+`"`):
			set++
		default:
			s.t.Errorf("the audit log says of %s: %s", mark, line)
		}
	}
	if set != 1 || refused == 0 {
		s.t.Errorf("the audit log says of %s: set %d times by %s, refused %d times", mark, set, who, refused)
	}
}

func (s *site) managedRuns() {
	ctx := s.t.Context()
	where := s.marked()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-", Namespace: where}}
	managed(secret)
	for who, c := range map[string]client.Client{"a tenant": s.tenant, "the portal": s.portal, "who is impersonated": s.impersonates("bob")} {
		s.refuses("okara-managed", "a Secret by "+who, c.Create(ctx, secret.DeepCopy()))
	}
	s.must(s.operator.Create(ctx, secret))
	for who, c := range map[string]client.Client{"a tenant": s.tenant, "the portal": s.portal, "who is impersonated": s.impersonates("bob")} {
		s.refuses("okara-managed", "its content by "+who, patch(ctx, c, secret, `{"stringData":{"token":"x"}}`))
		s.refuses("okara-managed", "all Secrets by "+who, c.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(where), client.HasLabels{v1alpha1.LabelManaged}))
	}
	flux := s.impersonates("system:serviceaccount:flux-system:tofu-controller")
	s.allows("Flux", patch(ctx, flux, secret, `{"stringData":{"vpc_id":"x"}}`))
	s.allows("an administrator", s.admin.Delete(ctx, secret))
}

func (s *site) selfRuns() {
	ctx := s.t.Context()
	work, tenant := s.namespace("okara.dev/managed"), s.namespace("okara.dev/tenant")
	s.must(s.operator.Create(ctx, work))
	s.must(s.admin.Create(ctx, tenant))
	bound := func(ns, kind, role string, subjects ...rbacv1.Subject) error {
		return s.operator.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "b-", Namespace: ns},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}, Subjects: subjects,
		})
	}
	account := func(ns string) rbacv1.Subject {
		return rbacv1.Subject{Kind: "ServiceAccount", Name: "runner", Namespace: ns}
	}
	group := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "net"}
	s.allows("an account of runs", bound(tenant.Name, "ClusterRole", "okara-runner", account(tenant.Name)))
	s.allows("one with the rights of a chart", bound(work.Name, "ClusterRole", "edit", account(work.Name)))
	s.allows("readers of outputs", bound(tenant.Name, "Role", "okara-vpcs-prod-outputs", group))
	s.refuses("okara-self", "an account of another namespace", bound(tenant.Name, "ClusterRole", "okara-runner", account(work.Name)))
	s.refuses("okara-self", "a group that runs", bound(tenant.Name, "ClusterRole", "okara-runner", group))
	s.refuses("okara-self", "the rights of a chart at a tenant's", bound(tenant.Name, "ClusterRole", "edit", account(tenant.Name)))
	s.refuses("okara-self", "another Role", bound(tenant.Name, "Role", "admin", group))
	s.refuses("okara-self", "a namespace of nobody", bound(s.tenants, "Role", "okara-vpcs-prod-outputs", group))
	s.refuses("okara-self", "a Role", s.operator.Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: tenant.Name}}))
	s.refuses("okara-self", "a ClusterRole away", s.operator.Delete(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}}))
	s.refuses("okara-self", "a kind of another group away", s.operator.Delete(ctx, &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "modules.okara.dev"}}))
	s.attacks(work.Name, tenant.Name)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "okara-vpcs-view", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}}}
	managed(role)
	s.allows("the role of a kind", s.operator.Create(ctx, role))
	s.allows("the role of a kind away", s.operator.Delete(ctx, role))
}

// definitions: none goes with objects, none come while it goes.
func (s *site) definitions() {
	ctx := s.t.Context()
	def := &v1alpha1.ModuleKind{ObjectMeta: metav1.ObjectMeta{Name: "vpcs", Finalizers: []string{"test.example.com/held"}}}
	def.Spec.Names = v1alpha1.KindNames{Kind: "Vpc", Plural: "vpcs", Singular: "vpc"}
	def.Spec.Module.Address = "net/vpc/aws"
	s.must(client.IgnoreNotFound(s.admin.Delete(ctx, def.DeepCopy()))) // the one of the pages, which TestDocs created
	s.must(s.admin.Create(ctx, def))
	s.allows("an object of it", s.tenant.Create(ctx, s.vpc()))
	def.Status.Objects = 1
	s.must(s.admin.Status().Update(ctx, def))
	s.refuses("okara-definition", "deletion under its objects", s.admin.Delete(ctx, def))
	s.must(patch(ctx, s.admin, def, `{"spec":{"deletion":{"orphan":"Keep"}}}`))
	s.allows("deletion that leaves them to people", s.admin.Delete(ctx, def))
	var last error
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = s.tenant.Create(ctx, s.vpc())
		return refusedBy(last, "okara-objects"), nil
	}); err != nil {
		s.t.Errorf("a new object of a definition that goes: %v", last)
	}
	s.must(patch(ctx, s.admin, def, `{"metadata":{"finalizers":null}}`))
}

// attacks checks what an intruder with the operator's token could do: writes of each kind
// that the chart grants, in kube-system, in a namespace of a tenant, and to objects of
// other owners where the operator may write.
func (s *site) attacks(work, tenant string) {
	ctx := s.t.Context()
	of := func(apiVersion, kind string, spec map[string]any) client.Object {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetAPIVersion(apiVersion)
		o.SetKind(kind)
		return o
	}
	from := map[string]any{"kind": "OCIRepository", "name": "x"}
	kinds := map[string]func() client.Object{
		"a Secret":    func() client.Object { return &corev1.Secret{} },
		"a ConfigMap": func() client.Object { return &corev1.ConfigMap{} },
		"an account":  func() client.Object { return &corev1.ServiceAccount{} },
		"a Role":      func() client.Object { return &rbacv1.Role{} },
		"a NetworkPolicy": func() client.Object {
			return of("networking.k8s.io/v1", "NetworkPolicy", map[string]any{"podSelector": map[string]any{}})
		},
		"a Terraform": func() client.Object {
			return of("infra.contrib.fluxcd.io/v1alpha2", "Terraform", map[string]any{"interval": "10m", "sourceRef": from})
		},
		"a HelmRelease": func() client.Object {
			return of("helm.toolkit.fluxcd.io/v2", "HelmRelease", map[string]any{"interval": "10m", "chartRef": from})
		},
		"an OCIRepository": func() client.Object {
			return of("source.toolkit.fluxcd.io/v1", "OCIRepository", map[string]any{"interval": "10m", "url": "oci://registry.example.com/x"})
		},
	}
	n := 0
	named := func(make func() client.Object, ns string) client.Object {
		n++
		o := make()
		o.SetNamespace(ns)
		o.SetName(fmt.Sprintf("okara-%d", n))
		managed(o)
		return o
	}
	for what, make := range kinds {
		for _, ns := range []string{"kube-system", s.tenants} {
			s.refuses("okara-self", what+" in "+ns, s.operator.Create(ctx, named(make, ns)))
		}
		for _, ns := range []string{work, tenant} {
			o := named(make, ns)
			s.allows(what+" in "+ns, s.operator.Create(ctx, o))
			s.allows(what+" away in "+ns, s.operator.Delete(ctx, o))
		}
	}
	for what, make := range map[string]func() client.Object{"a Role": kinds["a Role"], "a Secret": kinds["a Secret"], "a ConfigMap": kinds["a ConfigMap"]} {
		theirs := named(make, tenant)
		theirs.SetLabels(nil)
		s.must(s.admin.Create(ctx, theirs))
		s.refuses("okara-self", what+" of a tenant", patch(ctx, s.operator, theirs, `{"metadata":{"labels":{"okara.dev/managed":""}}}`))
		s.refuses("okara-self", what+" of a tenant away", s.operator.Delete(ctx, theirs))
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
	for _, text := range []string{`{"metadata":{"labels":{"okara.dev/managed":""}}}`, `{"metadata":{"labels":{"okara.dev/runs":""}}}`, `{"metadata":{"annotations":{"okara.dev/addresses":"module:**"}}}`} {
		s.refuses("okara-self", "kube-system as "+text, patch(ctx, s.operator, system, text))
	}
	s.refuses("okara-self", "a tenant's namespace as its own", patch(ctx, s.operator, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, `{"metadata":{"labels":{"okara.dev/managed":""}}}`))
	s.refuses("okara-self", "a namespace of others away", s.operator.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.tenants}}))
	s.refuses("okara-self", "a namespace that it does not mark", s.operator.Create(ctx, s.namespace("")))
	s.refuses("okara-self", "a ClusterRole of the chart away", s.operator.Delete(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "okara-run-admin"}}))
}

// TestPortalAccount has its rules' rights, and reads kinds and Instances.
func TestPortalAccount(t *testing.T) {
	s := newSite(t)
	set := must.Get(kubernetes.NewForConfig(s.token("okara-portal", s.system)))(t)
	everywhere := "okara.dev/instances get list watch, okara.dev/modulekinds get list watch"
	for ns, want := range map[string]string{
		instances: "okara.dev/approvals create, okara.dev/instances get list watch, okara.dev/instances get list watch create update patch delete abandon, okara.dev/modulekinds get list watch" + ", okara.dev/templates get list watch",
		s.tenants: everywhere, s.system: everywhere,
	} {
		r := must.Get(set.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: ns},
		}, metav1.CreateOptions{}))(t)
		var got []string
		for _, rule := range r.Status.ResourceRules {
			if !slices.Contains(rule.APIGroups, "authorization.k8s.io") && !slices.Contains(rule.APIGroups, "authentication.k8s.io") { // rights of every account
				got = append(got, strings.Join(rule.APIGroups, ",")+"/"+strings.Join(rule.Resources, ",")+" "+strings.Join(rule.Verbs, " "))
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, ", "); text != want || r.Status.Incomplete {
			t.Errorf("in %s: %s, want %s", ns, text, want)
		}
	}
}
