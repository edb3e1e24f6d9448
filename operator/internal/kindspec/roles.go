// SPDX-License-Identifier: Apache-2.0

package kindspec

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// ClusterRoles returns a kind's roles: view is aggregated to view, edit to edit and admin. Neither
// may write status, which decides which version runs and which namespace is deleted.
func ClusterRoles(def *v1alpha1.ModuleKind) []*rbacv1.ClusterRole {
	role := func(name string, to []string, verbs ...string) *rbacv1.ClusterRole {
		r := &rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: "okara-" + def.Spec.Names.Plural + "-" + name, Labels: Labels(def)},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{Group}, Resources: []string{def.Spec.Names.Plural}, Verbs: verbs}},
		}
		for _, built := range to {
			r.Labels["rbac.authorization.k8s.io/aggregate-to-"+built] = "true"
		}
		return r
	}
	return []*rbacv1.ClusterRole{
		role("view", []string{"view"}, "get", "list", "watch"),
		role("edit", []string{"edit", "admin"}, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
	}
}

// OutputsRole lets readers read an object's Secret of outputs and plan's text, each unless ""; nil
// without readers.
func OutputsRole(def *v1alpha1.ModuleKind, o metav1.Object, secret, plan string) (*rbacv1.Role, *rbacv1.RoleBinding) {
	if len(def.Spec.Outputs.Readers) == 0 || secret == "" && plan == "" {
		return nil, nil
	}
	meta := metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: "okara-" + def.Spec.Names.Plural + "-" + o.GetName() + "-outputs", Labels: ObjectLabels(def, o)}
	role := &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: meta}
	for _, object := range []struct{ resource, name string }{{"secrets", secret}, {"configmaps", plan}} {
		if object.name != "" {
			role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{object.resource}, ResourceNames: []string{object.name}, Verbs: []string{"get"}})
		}
	}
	binding := &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: meta,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	}
	for _, reader := range def.Spec.Outputs.Readers {
		subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: reader.Kind, Name: reader.Name}
		if reader.Kind == rbacv1.ServiceAccountKind {
			subject.APIGroup = ""
			subject.Namespace = reader.Namespace
		}
		binding.Subjects = append(binding.Subjects, subject)
	}
	return role, binding
}

// ObjectLabels returns the labels of what is made for an object of a kind.
func ObjectLabels(def *v1alpha1.ModuleKind, o metav1.Object) map[string]string {
	return map[string]string{
		v1alpha1.LabelManaged: "", v1alpha1.LabelUID: string(v1alpha1.UIDOf(o)), v1alpha1.LabelKind: def.Spec.Names.Kind, v1alpha1.LabelObject: o.GetName(),
	}
}
