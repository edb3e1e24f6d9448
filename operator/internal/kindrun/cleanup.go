// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

// runNamespacePrefix begins the names of namespaces for a single run.
const runNamespacePrefix = "okara-run-"

func namespaceKind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Namespace") }

// leftovers are objects in a cluster, some of which deleted objects left behind.
type leftovers struct {
	*Objects
	runs, sources, runNamespaces []metav1.PartialObjectMetadata

	live  map[types.UID]bool        // objects that exist, by UID
	kinds map[string]bool           // kinds that have a definition and are served
	at    map[client.ObjectKey]bool // all Terraforms, including those that okara did not make
	busy  map[string]bool           // namespaces that have a Terraform
}

// CleanUp removes what deleted objects left and no Terraform uses, after finalizers were removed by
// hand, or a restore. A Terraform without an object is suspended and returned, never deleted, which
// would destroy what it made. defs are all definitions: leftovers of other kinds stay.
func (c *Objects) CleanUp(ctx context.Context, defs []v1alpha1.ModuleKind) (orphans []client.ObjectKey, err error) {
	l := &leftovers{Objects: c}
	if err := l.readLeftovers(ctx, defs); err != nil {
		if meta.IsNoMatchError(err) {
			err = nil // without Flux there are no runs
		}
		return nil, err
	}
	var all error
	for _, o := range l.runs {
		if !l.isGone(&o) || o.DeletionTimestamp != nil {
			continue
		}
		orphans = append(orphans, client.ObjectKeyFromObject(&o))
		all = errors.Join(all, c.Executor.Cancel(ctx, fluxexec.Spec{Namespace: o.Namespace, Name: o.Name, UID: uidOf(&o)}))
	}
	for _, o := range l.sources {
		if l.isGone(&o) && !l.at[client.ObjectKeyFromObject(&o)] && !strings.HasPrefix(o.Namespace, runNamespacePrefix) {
			all = errors.Join(all, l.dropSource(ctx, &o))
		}
	}
	for _, o := range l.runNamespaces {
		if l.isGone(&o) && !l.busy[o.Name] && strings.HasPrefix(o.Name, runNamespacePrefix) && o.DeletionTimestamp == nil {
			_, err := fluxobj.DeleteNamespace(ctx, l.Client, o.Name, uidOf(&o))
			all = errors.Join(all, err)
		}
	}
	return orphans, all
}

// readLeftovers reads leftovers before objects, so that nothing new counts.
func (l *leftovers) readLeftovers(ctx context.Context, defs []v1alpha1.ModuleKind) (err error) {
	ours := client.HasLabels{v1alpha1.LabelManaged, v1alpha1.LabelUID}
	ofKinds := client.HasLabels{v1alpha1.LabelManaged, v1alpha1.LabelUID, v1alpha1.LabelKind, v1alpha1.LabelObject}
	every, err := l.listMeta(ctx, fluxexec.Terraforms())
	if err != nil {
		return err
	}
	if l.runs, err = l.listMeta(ctx, fluxexec.Terraforms(), ofKinds); err != nil {
		return err
	}
	if l.sources, err = l.listMeta(ctx, schema.FromAPIVersionAndKind(fluxobj.SourceVersion, fluxobj.OCIKind), ofKinds); err != nil {
		return err
	}
	if l.runNamespaces, err = l.listMeta(ctx, namespaceKind(), ours); err != nil {
		return err
	}
	l.at = map[client.ObjectKey]bool{}
	l.busy = map[string]bool{}
	for _, o := range every {
		l.at[client.ObjectKeyFromObject(&o)] = true
		l.busy[o.Namespace] = true
	}
	l.live, l.kinds, err = l.objects(ctx, defs)
	return err
}

func (c *Objects) listMeta(ctx context.Context, kind schema.GroupVersionKind, how ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	err := c.Client.List(ctx, list, how...)
	return list.Items, err
}

// objects returns the UIDs of kinds' objects and Instances; an invalid definition has none.
func (c *Objects) objects(ctx context.Context, defs []v1alpha1.ModuleKind) (all map[types.UID]bool, kinds map[string]bool, err error) {
	all = map[types.UID]bool{}
	kinds = map[string]bool{}
	read := func(kind schema.GroupVersionKind) error {
		return fluxobj.EachObject(ctx, c.Client, kind, func(o *unstructured.Unstructured) error {
			all[v1alpha1.UIDOf(o)] = true
			return nil
		})
	}
	if err := read(v1alpha1.GroupVersion().WithKind("Instance")); err != nil {
		return nil, nil, err
	}
	for _, def := range defs {
		kind := def.Spec.Names.Kind
		err := read(schema.GroupVersionKind{Group: v1alpha1.KindsGroup, Version: v1alpha1.KindsVersion, Kind: kind})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		kinds[kind] = true
	}
	return all, kinds, nil
}

func uidOf(o client.Object) types.UID { return types.UID(o.GetLabels()[v1alpha1.LabelUID]) }

// isGone reports whether the object that o was made for no longer exists.
func (l *leftovers) isGone(o client.Object) bool {
	kind, ofKind := o.GetLabels()[v1alpha1.LabelKind]
	return uidOf(o) != "" && !l.live[uidOf(o)] && (!ofKind || l.kinds[kind])
}

// dropSource removes a source whose object is gone, and what its run read.
func (l *leftovers) dropSource(ctx context.Context, source client.Object) error {
	run := runaccess.Run{UID: uidOf(source), RunNamespace: source.GetNamespace(), Name: source.GetName()}
	if _, err := l.Access.Clean(ctx, run); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	_, err := l.Executor.Clean(ctx, fluxexec.Spec{Namespace: run.RunNamespace, Name: run.Name, UID: run.UID})
	return err
}

// Unowned counts the states that have resources and whose object is gone: nothing destroys these.
func (c *Objects) Unowned(ctx context.Context, defs []v1alpha1.ModuleKind) (int, error) {
	all, err := c.listMeta(ctx, namespaceKind())
	if err != nil {
		return 0, err
	}
	live, _, err := c.objects(ctx, defs)
	if err != nil {
		return 0, err
	}
	known, err := c.Access.Namespaces(ctx)
	if err != nil {
		return 0, err
	}
	for _, ns := range all {
		known = append(known, ns.Name)
	}
	slices.Sort(known)
	n := 0
	for _, ns := range slices.Compact(known) {
		in, err := c.Access.Unowned(ctx, ns, func(uid types.UID) bool { return live[uid] })
		if err != nil {
			return 0, err
		}
		n += in
	}
	return n, nil
}
