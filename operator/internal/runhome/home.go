// SPDX-License-Identifier: Apache-2.0

package runhome

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/owned"
)

const (
	// Account runs modules where nobody names another. Its ClusterRole, the binding of
	// that, and the NetworkPolicy are called so, too.
	Account = "okara-runner"
	// secretsRole is the ClusterRole that reads and writes Secrets, and its binding.
	secretsRole = "okara-operator-secrets"
	// defaultFlux is the namespace of tofu-controller where nobody names another.
	defaultFlux = "flux-system"
)

// AddToScheme tells a scheme the kinds that this package reads and writes.
func AddToScheme(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, authenticationv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(s); err != nil {
			return err
		}
	}
	return nil
}

// Home is a namespace that the operator made for the runs of an object.
type Home struct {
	Name        string
	UID         types.UID         // of the object
	Account     string            // that runs modules; "": [Account]
	Annotations map[string]string // of the account: a role at a cloud, say
	Flux        string            // namespace of tofu-controller; "": flux-system
	// Charts are installed: the account may edit the namespace, by the ClusterRole edit,
	// and what it installs is reached from everywhere.
	Charts bool
}

// role is the ClusterRole of the account, in the namespace.
func (h Home) role() string {
	if h.Charts {
		return "edit"
	}
	return Account
}

// Make makes sure of a namespace for the runs of an object, with more labels. One that
// somebody else made is an [*owned.TakenError].
func Make(ctx context.Context, c client.Client, name string, uid types.UID, labels map[string]string) error {
	_, err := owned.Write(ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, uid, func(ns *corev1.Namespace) error {
		if ns.DeletionTimestamp != nil {
			return fmt.Errorf("namespace %s is being deleted, and is made anew then", name)
		}
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		maps.Copy(ns.Labels, labels)
		ns.Labels[v1alpha1.LabelRuns] = ""
		return nil
	})
	return err
}

// Remove deletes a namespace that [Make] made, and reports whether it is gone. The mark of
// runs, which keeps everybody from deleting it, goes first. One of somebody else stays, and
// counts as gone.
func Remove(ctx context.Context, c client.Client, name string, uid types.UID) (gone bool, err error) {
	ns := &corev1.Namespace{}
	err = c.Get(ctx, client.ObjectKey{Name: name}, ns)
	if err != nil || !owned.Ours(ns, uid) {
		return client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
	}
	if _, runs := ns.Labels[v1alpha1.LabelRuns]; runs && ns.DeletionTimestamp == nil {
		delete(ns.Labels, v1alpha1.LabelRuns)
		if err := c.Update(ctx, ns); err != nil {
			return false, client.IgnoreNotFound(err)
		}
	}
	return owned.Delete(ctx, c, ns, uid)
}

// Furnish makes what a run needs in its namespace, as far as it is not there. What is
// somebody else's is an [*owned.TakenError].
func (h Home) Furnish(ctx context.Context, c client.Client) error {
	if err := bound(ctx, c, h.Name); err != nil {
		return err
	}
	account, binding, policy := h.objects()
	if _, err := owned.Write(ctx, c, &corev1.ServiceAccount{ObjectMeta: account.ObjectMeta}, h.UID, func(a *corev1.ServiceAccount) error {
		a.Annotations = h.Annotations
		return nil
	}); err != nil {
		return err
	}
	if _, err := owned.Write(ctx, c, &rbacv1.RoleBinding{ObjectMeta: binding.ObjectMeta}, h.UID, func(b *rbacv1.RoleBinding) error {
		b.RoleRef, b.Subjects = binding.RoleRef, binding.Subjects
		return nil
	}); err != nil {
		return err
	}
	_, err := owned.Write(ctx, c, &networkingv1.NetworkPolicy{ObjectMeta: policy.ObjectMeta}, h.UID, func(p *networkingv1.NetworkPolicy) error {
		p.Spec = policy.Spec
		return nil
	})
	return err
}

// Objects are the namespace and what [Home.Furnish] makes in it, but for the binding by
// which the operator reaches its Secrets. It is pure.
func (h Home) Objects() []client.Object {
	account, binding, policy := h.objects()
	account.Annotations = h.Annotations
	account.TypeMeta = metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ServiceAccount"}
	binding.TypeMeta = metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}
	policy.TypeMeta = metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"}
	all := []client.Object{&corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: h.Name, Labels: map[string]string{v1alpha1.LabelRuns: ""}},
	}, account, binding, policy}
	for _, o := range all {
		owned.Mark(o, h.UID)
	}
	return all
}

func (h Home) objects() (account *corev1.ServiceAccount, binding *rbacv1.RoleBinding, policy *networkingv1.NetworkPolicy) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: h.Name, Name: name} }
	account = &corev1.ServiceAccount{ObjectMeta: meta(cmp.Or(h.Account, Account))}
	binding = &rbacv1.RoleBinding{
		ObjectMeta: meta(Account),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: h.role()},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.Name, Name: account.Name}},
	}
	policy = &networkingv1.NetworkPolicy{ObjectMeta: meta(Account), Spec: policyOf(cmp.Or(h.Flux, defaultFlux))}
	if h.Charts { // who may come in is for the chart to say
		policy.Spec.PolicyTypes, policy.Spec.Ingress = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, nil
	}
	return account, binding, policy
}

// nodeDNS is where the cache of names listens that a node can have: the one link-local
// address that runs need.
const nodeDNS = "169.254.20.10/32"

// policyOf lets tofu-controller in, and everything out but to link-local addresses.
func policyOf(flux string) networkingv1.NetworkPolicySpec {
	from := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: flux}}
	port := func(p corev1.Protocol) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: &p, Port: new(intstr.FromInt32(53))}
	}
	return networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: from}}}},
		Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"169.254.0.0/16"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: []string{"fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"}}},
		}}, {
			To:    []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: nodeDNS}}},
			Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP), port(corev1.ProtocolTCP)},
		}},
	}
}

// NotAllowedError says that nobody gave a namespace to tenants. The reason of a condition
// is [v1alpha1.ReasonNamespaceNotAllowed].
type NotAllowedError struct{ Namespace string }

func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("the operator may not read Secrets of namespace %s: an administrator can set the label %s on it", e.Namespace, v1alpha1.LabelTenant)
}

// Enter gives the operator the Secrets of a namespace that an administrator marked as one
// of a tenant. Without the mark whoever makes namespaces would hand them out: then it is
// a [*NotAllowedError].
func Enter(ctx context.Context, c client.Client, namespace string) error {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return err
	}
	if _, marked := ns.Labels[v1alpha1.LabelTenant]; !marked {
		return &NotAllowedError{namespace}
	}
	return bound(ctx, c, namespace)
}

// bound is Bind where that is not done.
func bound(ctx context.Context, c client.Client, namespace string) error {
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secretsRole}, &rbacv1.RoleBinding{})
	if apierrors.IsNotFound(err) {
		return Bind(ctx, c, namespace)
	}
	return err
}

// Bind gives the operator the Secrets of a namespace. Whether it may have them is for the
// caller to find out first. It reads nothing.
func Bind(ctx context.Context, c client.Client, namespace string) error {
	var self authenticationv1.SelfSubjectReview
	if err := c.Create(ctx, &self); err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(c.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretsRole, Labels: map[string]string{v1alpha1.LabelManaged: ""}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: secretsRole},
		Subjects:   []rbacv1.Subject{subjectOf(self.Status.UserInfo.Username)},
	}))
}

// Unbind takes the right to the Secrets of a namespace from the operator. reader reads what
// is there now. Where the operator may not even look it has no such right.
func Unbind(ctx context.Context, reader client.Reader, c client.Client, namespace string) error {
	b := &rbacv1.RoleBinding{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secretsRole}, b)
	if apierrors.IsForbidden(err) || err == nil && !owned.Ours(b, "") {
		return nil
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(c.Delete(ctx, b, client.Preconditions{UID: &b.UID}))
}

// subjectOf is an account as a binding names it.
func subjectOf(username string) rbacv1.Subject {
	if account, ok := strings.CutPrefix(username, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: username}
}
