// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// secretsRole is the ClusterRole that reads Secrets, and the RoleBinding of it. The
// operator may bind it and nothing else.
const secretsRole = "okara-operator-secrets"

// AddToScheme tells a scheme all kinds that the controllers read and write.
func AddToScheme(s *runtime.Scheme) error {
	var errs []error
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, authenticationv1.AddToScheme} {
		errs = append(errs, add(s))
	}
	return errors.Join(errs...)
}

// bind gives the operator the Secrets of a namespace that an administrator marked as
// one of a tenant. Without the mark whoever makes namespaces would hand them out.
func (r *entries) bind(ctx context.Context, ns *metav1.PartialObjectMetadata) error {
	if _, marked := ns.Labels[v1alpha1.LabelTenant]; !marked {
		return &problem{v1alpha1.ReasonNamespaceNotAllowed, fmt.Sprintf(
			"the operator may not read Secrets of namespace %s: an administrator can set the label %s on it", ns.Name, v1alpha1.LabelTenant)}
	}
	var self authenticationv1.SelfSubjectReview
	if err := r.Create(ctx, &self); err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(r.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: secretsRole, Labels: map[string]string{v1alpha1.LabelManaged: ""}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: secretsRole},
		Subjects:   []rbacv1.Subject{subjectOf(self.Status.UserInfo.Username)},
	}))
}

// subjectOf is an account as a binding names it.
func subjectOf(username string) rbacv1.Subject {
	if account, ok := strings.CutPrefix(username, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: username}
}
