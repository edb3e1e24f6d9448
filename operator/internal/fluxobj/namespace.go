// SPDX-License-Identifier: Apache-2.0

package fluxobj

import (
	"cmp"
	"context"
	"errors"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

const (
	// Account runs modules by default; its ClusterRole, binding and NetworkPolicy have its name.
	Account = "okara-runner"
	// secretsRole is the ClusterRole that reads and writes Secrets, and its binding.
	secretsRole = "okara-operator-secrets"
	// defaultFlux is the default namespace of tofu-controller.
	defaultFlux = "flux-system"
)

// AddToScheme registers the kinds that this package reads and writes.
func AddToScheme(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, authenticationv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(s); err != nil {
			return err
		}
	}
	return nil
}

// RunNamespace describes a namespace that the operator creates for the runs of an object.
type RunNamespace struct {
	Name        string
	UID         types.UID         // of the object
	Account     string            // the account that runs modules; "": [Account]
	Annotations map[string]string // of the account, such as a role at a cloud provider
	Network     RunNetwork
	// Charts says that charts are installed: the account may edit the namespace, all can reach it.
	Charts bool
}

// RunNetwork is what the NetworkPolicy of a run namespace depends on.
type RunNetwork struct {
	Flux   string                                 // namespace of tofu-controller; "": flux-system
	None   bool                                   // no policy; an earlier one is deleted
	Egress []networkingv1.NetworkPolicyEgressRule // allowed in addition
}

func (h RunNamespace) accountRole() string {
	if h.Charts {
		return "edit"
	}
	return Account
}

// EnsureNamespace makes or labels the namespace of an object's runs; [*TakenError] for another's.
func EnsureNamespace(ctx context.Context, c client.Client, name string, uid types.UID, labels map[string]string) error {
	_, err := Write(ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, uid, func(ns *corev1.Namespace) error {
		if ns.DeletionTimestamp != nil {
			return fmt.Errorf("namespace %s is being deleted, and will be recreated afterwards", name)
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

// DeleteNamespace deletes what [EnsureNamespace] made, first the label that prevents it, and
// reports whether it is gone. Another owner's stays, and counts as gone.
func DeleteNamespace(ctx context.Context, c client.Client, name string, uid types.UID) (gone bool, err error) {
	ns := &corev1.Namespace{}
	err = c.Get(ctx, client.ObjectKey{Name: name}, ns)
	if err != nil || !Ours(ns, uid) {
		return client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
	}
	if _, runs := ns.Labels[v1alpha1.LabelRuns]; runs && ns.DeletionTimestamp == nil {
		delete(ns.Labels, v1alpha1.LabelRuns)
		if err := c.Update(ctx, ns); err != nil {
			return false, client.IgnoreNotFound(err)
		}
	}
	return Delete(ctx, c, ns, uid)
}

// Provision makes what a run needs in its namespace. Another owner's object is a [*TakenError].
func (h RunNamespace) Provision(ctx context.Context, c client.Client) error {
	if err := ensureBound(ctx, c, h.Name); err != nil {
		return err
	}
	if h.Network.None {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: h.Name, Name: Account}}
		if _, err := Delete(ctx, c, policy, h.UID); err != nil {
			return err
		}
	}
	for _, o := range h.emptyObjects() {
		if _, err := Write(ctx, c, o, h.UID, func(o client.Object) error { h.fillObject(o); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// Objects returns the namespace and what is made in it, but the Secrets' binding. It is pure.
func (h RunNamespace) Objects() []client.Object {
	all := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.Name, Labels: map[string]string{v1alpha1.LabelRuns: ""}}}}
	all = append(all, h.emptyObjects()...)
	kinds := []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Namespace"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
	}
	for i := range all {
		all[i].GetObjectKind().SetGroupVersionKind(kinds[i])
		h.fillObject(all[i])
		Mark(all[i], h.UID)
	}
	return all
}

// emptyObjects returns the objects of a run namespace with only their names set.
func (h RunNamespace) emptyObjects() []client.Object {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: h.Name, Name: name} }
	all := []client.Object{&corev1.ServiceAccount{ObjectMeta: meta(h.account())}, &rbacv1.RoleBinding{ObjectMeta: meta(Account)}}
	if !h.Network.None {
		all = append(all, &networkingv1.NetworkPolicy{ObjectMeta: meta(Account)})
	}
	return all
}

func (h RunNamespace) account() string { return cmp.Or(h.Account, Account) }

func (h RunNamespace) fillObject(o client.Object) {
	switch o := o.(type) {
	case *corev1.ServiceAccount:
		o.Annotations = h.Annotations
	case *rbacv1.RoleBinding:
		o.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: h.accountRole()}
		o.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.Name, Name: h.account()}}
	case *networkingv1.NetworkPolicy:
		o.Spec = h.Network.policy()
		if h.Charts { // the chart decides about ingress
			o.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
			o.Spec.Ingress = nil
		}
	}
}

// nodeDNS is a node-local DNS cache, the one link-local address that runs need.
const nodeDNS = "169.254.20.10/32"

// apiServer is the port of API servers that run on nodes of the cluster.
const apiServer = 6443

// policy allows ingress from tofu-controller, egress to all but link-local. Cilium matches no pods
// or nodes by address (cilium/cilium#20550, #35212): pods by selector, API servers by port.
func (n RunNetwork) policy() networkingv1.NetworkPolicySpec {
	from := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: cmp.Or(n.Flux, defaultFlux)}}
	port := func(p corev1.Protocol, number int32) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: &p, Port: new(intstr.FromInt32(number))}
	}
	return networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: from}}}},
		Egress: append([]networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{
			{NamespaceSelector: &metav1.LabelSelector{}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"169.254.0.0/16"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: []string{"fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"}}},
		}}, {
			To:    []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: nodeDNS}}},
			Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, 53), port(corev1.ProtocolTCP, 53)},
		}, {
			Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, apiServer)},
		}}, n.Egress...),
	}
}

// NotAllowedError means that no administrator has marked a namespace as a tenant's
// ([v1alpha1.ReasonNamespaceNotAllowed]).
type NotAllowedError struct{ Namespace string }

func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("the operator may not read Secrets of namespace %s: an administrator can set the label %s on it", e.Namespace, v1alpha1.LabelTenant)
}

// NamespaceMeta returns an object for reading only the metadata of a namespace.
func NamespaceMeta(name string) *metav1.PartialObjectMetadata {
	ns := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return ns
}

// Namespace reads a namespace's metadata; the name is there even after an error.
func Namespace(ctx context.Context, c client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	ns := NamespaceMeta(name)
	return ns, c.Get(ctx, client.ObjectKey{Name: name}, ns)
}

// Adopts reports whether a namespace's objects may adopt what earlier ones made.
func Adopts(ctx context.Context, c client.Reader, namespace string) bool {
	ns, err := Namespace(ctx, c, namespace)
	return err == nil && ns.Annotations[v1alpha1.AnnotationAdopt] == "true"
}

// Enter gives the operator the Secrets of a namespace that an administrator marked as a tenant's.
// Without the mark the error is a [*NotAllowedError]: else creating a namespace would hand them
// out.
func Enter(ctx context.Context, c client.Client, namespace string) error {
	ns, err := Namespace(ctx, c, namespace)
	if err != nil {
		return err
	}
	if _, marked := ns.Labels[v1alpha1.LabelTenant]; !marked {
		return &NotAllowedError{namespace}
	}
	return ensureBound(ctx, c, namespace)
}

// ensureBound calls Bind unless the binding exists.
func ensureBound(ctx context.Context, c client.Client, namespace string) error {
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secretsRole}, &rbacv1.RoleBinding{})
	if apierrors.IsNotFound(err) {
		return Bind(ctx, c, namespace)
	}
	return err
}

// Bind gives the operator a namespace's Secrets. The caller must check before. It reads nothing.
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

// Unbind undoes [Bind]. reader must have no cache; if it may not read, there is no such right.
func Unbind(ctx context.Context, reader client.Reader, c client.Client, namespace string) error {
	b := &rbacv1.RoleBinding{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secretsRole}, b)
	if apierrors.IsForbidden(err) || err == nil && !Ours(b, "") {
		return nil
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(c.Delete(ctx, b, client.Preconditions{UID: &b.UID}))
}

func subjectOf(username string) rbacv1.Subject {
	if account, ok := strings.CutPrefix(username, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: username}
}

// boundsPolicy is the admission policy that bounds what the operator writes.
const boundsPolicy = "okara-self"

// ErrUnbounded says that no policy bounds what the operator writes.
var ErrUnbounded = errors.New("the admission policies of the chart are not in force for this account")

// Bounded returns nil if the API server keeps the operator from what it must not do, as a dry run
// shows: else the rights of runs amount to those of a cluster administrator.
func Bounded(ctx context.Context, c client.Client) error {
	err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "okara-bounds-", Labels: map[string]string{v1alpha1.LabelTenant: ""},
	}}, client.DryRunAll)
	switch {
	case err == nil:
		return ErrUnbounded
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "'"+boundsPolicy+"'"):
		return nil
	}
	return err
}
