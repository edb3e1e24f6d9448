// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// ownersPage is the page with the table of [site.owners], which OKARA_UPDATE writes.
const ownersPage = "docs/kubernetes/instance-rights.md"

// owners holds each caller's rights to each object to the page's table.
func (s *site) owners() {
	ctx := s.t.Context()
	bob := s.as("bob", map[string][]string{"team": {"net"}}, "net")
	flux := s.assigner(s.tenants)
	here := func(o client.Object) { o.SetNamespace(s.tenants) }
	callers := []struct {
		name, id string
		client.Client
	}{{"anna", s.anna(), s.tenant}, {"ben, of group `net`", "bob", bob}, {"flux, with `assign`", "flux", flux}, {"the portal", user, s.portal}, {"the operator", user, s.operator}, {"with `override`", "admin", s.admin}}
	objects := []struct {
		name string
		make func() client.Object
	}{
		{"anna's Instance", func() client.Object { return s.instance(s.anna()) }},
		{"an Instance of group `net`", func() client.Object { return s.instance("admin", ownedBy("Group", "net", nil)) }},
		{"an Instance of who has the claim team `net`", func() client.Object {
			return s.instance("admin", ownedBy("Claim", "net", map[string]v1alpha1.ClaimValue{"team": "net"}))
		}},
		{"an Instance of a user of the portal", func() client.Object { return s.instance(user, ownedBy("User", user, nil)) }},
		{"anna's Instance in her namespace", func() client.Object { return s.instance(s.anna(), here) }},
		{"one there for anna by flux", func() client.Object { return s.instance("flux", ownedBy("User", s.anna(), nil), here) }},
		{"a member of a pool", func() client.Object { return s.instance("", managed) }},
		{"anna's Approval", func() client.Object { return s.approval(s.anna()) }},
	}
	verbs := []struct {
		name string
		do   func(c client.Client, o client.Object, by string) error
	}{
		{"change", func(c client.Client, o client.Object, by string) error {
			return patch(ctx, c, o, `{"spec":{"name":"other","changedBy":"`+by+`"}}`)
		}},
		{"request", func(c client.Client, o client.Object, by string) error {
			return patch(ctx, c, o, `{"metadata":{"annotations":{"okara.dev/cancel":"now"}},"spec":{"changedBy":"`+by+`"}}`)
		}},
		{"delete", func(c client.Client, o client.Object, _ string) error { return c.Delete(ctx, o) }},
	}
	var table strings.Builder
	table.WriteString("| object | verb |")
	for _, caller := range callers {
		fmt.Fprintf(&table, " %s |", caller.name)
	}
	table.WriteString("\n|---|---|" + strings.Repeat("---|", len(callers)) + "\n")
	for _, object := range objects {
		for _, verb := range verbs {
			fmt.Fprintf(&table, "| %s | %s |", object.name, verb.name)
			for _, caller := range callers {
				o := object.make()
				s.must(s.maker(o).Create(ctx, o))
				err := verb.do(caller.Client, o, caller.id)
				switch {
				case err == nil:
					table.WriteString(" yes |")
				case refusedBy(err, "okara-owner"):
					table.WriteString(" no |")
				default:
					s.t.Errorf("%s: %s by %s: %v", object.name, verb.name, caller.name, err)
				}
			}
			table.WriteString("\n")
		}
	}
	s.comparePage(table.String())
}

// assigner returns the account flux, which may say in a namespace whose an Instance is.
func (s *site) assigner(namespace string) client.Client {
	s.t.Helper()
	s.must(s.admin.Create(s.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "flux-" + s.tenants, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "okara-instance-assign"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "flux"}},
	}))
	flux := s.impersonates("flux")
	var last error
	if err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		o := s.instance("flux", ownedBy("User", "anna", nil))
		o.Namespace = namespace
		last = flux.Create(ctx, o, client.DryRunAll)
		return last == nil, nil
	}); err != nil {
		s.t.Fatalf("another's Instance, by who may assign it: %v", last)
	}
	return flux
}

// maker returns the caller who can create the object.
func (s *site) maker(o client.Object) client.Client {
	if _, ok := o.(*v1alpha1.Approval); ok {
		return s.tenant
	}
	return s.admin
}

// as returns a client of a user who has a tenant's rights, groups and claims.
func (s *site) as(user string, extra map[string][]string, groups ...string) client.Client {
	s.t.Helper()
	s.impersonates(user)
	config := rest.CopyConfig(cluster.Admin(s.t))
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups, Extra: extra}
	return s.connect(config)
}

func ownedBy(kind, id string, claims map[string]v1alpha1.ClaimValue) func(client.Object) {
	return func(o client.Object) {
		spec := &o.(*v1alpha1.Instance).Spec
		spec.Owner, spec.Claims = &v1alpha1.Owner{Kind: kind, ID: id}, claims
		if strings.HasPrefix(id, "portal:") {
			spec.Owner.ID, spec.Owner.Issuer = "alice", "https://idp.example.com"
		}
	}
}

// comparePage compares the table of the page with what was answered.
func (s *site) comparePage(table string) {
	s.t.Helper()
	name := filepath.Join(rig.Root(), filepath.FromSlash(ownersPage))
	text, err := os.ReadFile(name)
	s.must(err)
	before, rest, _ := strings.Cut(string(text), "| object | verb |")
	_, after, _ := strings.Cut(rest, "\n\n")
	want := before + table + "\n" + after
	if os.Getenv("OKARA_UPDATE") != "" {
		s.must(os.WriteFile(name, []byte(want), 0o644))
	} else if string(text) != want {
		s.t.Errorf("%s has another table than the API server answers:\n%s", ownersPage, table)
	}
}

// deletionOfData: nothing goes while objects live, all after.
func (s *site) deletionOfData() {
	ctx := s.t.Context()
	crd := func(name string) client.Object {
		o := s.vpc()
		o.SetAPIVersion("apiextensions.k8s.io/v1")
		o.SetKind("CustomResourceDefinition")
		o.SetName(name)
		o.SetNamespace("")
		return o
	}
	dry := client.DryRunAll
	s.must(s.admin.Create(ctx, s.instance(user)))
	s.must(s.admin.Create(ctx, s.instance(user, func(o client.Object) { o.SetNamespace(s.tenants) })))
	def := &v1alpha1.ModuleKind{}
	def.Name, def.Finalizers = "vpcs", []string{"test.example.com/held"}
	def.Spec.Names = v1alpha1.KindNames{Kind: "Vpc", Plural: "vpcs", Singular: "vpc"}
	def.Spec.Module.Address = "net/vpc/aws"
	s.must(s.admin.Create(ctx, def))
	def.Status.Objects = 1
	s.must(s.admin.Status().Update(ctx, def))
	home, release, team := s.namespace(""), s.namespace(""), s.namespace("")
	home.Name, release.Name, team.Name = instances, s.system, s.tenants
	for what, o := range map[string]client.Object{
		"okara-data-instances: the kind of Instances":   crd("instances.okara.dev"),
		"okara-data-instances: their namespace":         home,
		"okara-data-instances: the namespace of okara":  release,
		"okara-data-namespaces: another with Instances": team,
		"okara-data-kinds: the kind of ModuleKinds":     crd("modulekinds.okara.dev"),
		"okara-data-kinds: a kind that a module became": crd("vpcs.apps.okara.dev"),
	} {
		policy, _, _ := strings.Cut(what, ":")
		var last error
		if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			last = s.admin.Delete(ctx, o, dry)
			return refusedBy(last, policy) || o == client.Object(release) && refusedBy(last, "okara-data-kinds"), nil
		}); err != nil {
			s.t.Errorf("%s: %v", what, last)
		} else if !strings.Contains(last.Error(), "delete them first") && !strings.Contains(last.Error(), "delete Templates and Instances first") {
			s.t.Errorf("%s: the refusal does not say what to do first: %v", what, last)
		}
	}
	s.allows("a namespace without them", s.admin.Delete(ctx, cluster.Namespace(s.t, nil), dry))
	s.allows("another kind", client.IgnoreNotFound(s.admin.Delete(ctx, crd("depots.okara.dev"), dry)))
	s.allows("the kind of a module, by the operator", s.operator.Delete(ctx, crd("vpcs.apps.okara.dev"), dry))
	s.must(patch(ctx, s.admin, def, `{"metadata":{"finalizers":null},"spec":{"deletion":{"orphan":"Keep"}}}`))
	s.must(s.admin.Delete(ctx, def))
	var last error
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		if last = s.endInstances(ctx); last == nil {
			last = s.admin.Delete(ctx, release, dry)
		}
		return last == nil, nil
	}); err != nil {
		s.t.Errorf("the namespace once all objects are gone: %v", last)
	}
}

// endInstances deletes all Instances, also those that finalizers of other tests hold.
func (s *site) endInstances(ctx context.Context) error {
	all := &v1alpha1.InstanceList{}
	if err := s.operator.List(ctx, all); err != nil {
		return err
	}
	for i := range all.Items {
		o := &all.Items[i]
		if len(o.Finalizers) > 0 {
			if err := patch(ctx, s.operator, o, `{"metadata":{"finalizers":null}}`); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if err := client.IgnoreNotFound(s.operator.Delete(ctx, o)); err != nil {
			return err
		}
	}
	return nil
}
