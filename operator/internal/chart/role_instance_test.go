// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

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
