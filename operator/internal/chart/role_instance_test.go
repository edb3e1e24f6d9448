// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// ownNamespace: the roles in a namespace of one's own, and its quota.
func (s *site) ownNamespace(carol client.Client, name string) {
	ctx, team := s.t.Context(), cluster.Namespace(s.t, nil).Name
	for _, role := range []string{"okara-instance-edit", "okara-instance-view"} {
		s.must(s.admin.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role, Namespace: team}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
		}))
	}
	hard := corev1.ResourceList{"count/instances.okara.dev": resource.MustParse("1")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: team}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	s.must(s.admin.Create(ctx, quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{"count/instances.okara.dev": resource.MustParse("0")}}
	s.must(s.admin.Status().Update(ctx, quota)) // as the controller of quotas does
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return carol.List(ctx, &v1alpha1.InstanceList{}, client.InNamespace(team)) == nil, nil
	}); err != nil {
		s.t.Fatal("the role lists no Instances of the namespace")
	}
	web := s.instance(name, func(o client.Object) { o.SetNamespace(team); o.SetName("web") })
	var last error
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = carol.Create(ctx, web)
		return last == nil, nil
	}); err != nil {
		s.t.Fatalf("an Instance in one's own namespace: %v", last)
	}
	if err := carol.Create(ctx, s.instance(name, func(o client.Object) { o.SetNamespace(team) })); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		s.t.Errorf("one more than the quota of the namespace: %v", err)
	}
	s.refuses("okara-approver", "another's there", carol.Create(ctx, s.instance("alice", func(o client.Object) { o.SetNamespace(team) })))
	s.allows("its end there", carol.Delete(ctx, web))
}

// TestInstanceRole: create, change and end one's own.
func TestInstanceRole(t *testing.T) {
	s := newSite(t)
	const name = "carol"
	s.must(s.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.tenants, Namespace: instances},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "okara-instance-edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	}))
	config := rest.CopyConfig(cluster.Admin(t))
	config.Impersonate.UserName = name
	carol, ctx, here := s.connect(config), t.Context(), client.InNamespace(instances)
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return carol.List(ctx, &v1alpha1.TemplateList{}, here) == nil, nil
	}); err != nil {
		t.Fatal("the role lists no Templates")
	}
	mine := s.instance(name)
	s.allows("an Instance of one's own", carol.Create(ctx, mine))
	s.allows("to look at it", carol.Get(ctx, client.ObjectKeyFromObject(mine), &v1alpha1.Instance{}))
	others := s.instance("alice")
	s.must(s.admin.Create(ctx, others))
	s.refuses("okara-owner", "a change of another's", patch(ctx, carol, others, `{"spec":{"name":"mine","changedBy":"carol"}}`))
	s.refuses("okara-owner", "the end of another's", carol.Delete(ctx, others))
	s.allows("a change of it", patch(ctx, carol, mine, `{"spec":{"name":"mine","changedBy":"carol"}}`))
	s.refuses("okara-approver", "another's Instance", carol.Create(ctx, s.instance("alice")))
	s.refuses("okara-marks", "giving it up", patch(ctx, carol, mine, `{"metadata":{"annotations":{"okara.dev/abandon":"`+mine.Name+`"}},"spec":{"changedBy":"carol"}}`))
	s.ownNamespace(carol, name)
	mine.Status.Phase = "Ready"
	template := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Name: "a.b", Namespace: instances}}
	template.Spec.Module = &v1alpha1.TemplateModule{Address: "net/vpc/aws"}
	elsewhere := s.instance(name)
	elsewhere.Namespace = s.tenants
	for what, err := range map[string]error{
		"everyone's values":  carol.List(ctx, &v1alpha1.InstanceList{}, here),
		"its status":         carol.Status().Update(ctx, mine),
		"an Approval":        carol.Create(ctx, s.approval(name)),
		"a Template":         carol.Create(ctx, template),
		"Secrets":            carol.List(ctx, &corev1.SecretList{}, here),
		"all Instances":      carol.DeleteAllOf(ctx, &v1alpha1.Instance{}, here),
		"another namespace":  carol.Create(ctx, elsewhere),
		"Modules of tenants": carol.List(ctx, &v1alpha1.ModuleList{}, here),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.allows("its end", carol.Delete(ctx, mine))
}
