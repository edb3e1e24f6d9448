// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// remove takes the next steps to remove a definition; nil: only its finalizer is left.
func (d *definitions) remove(ctx context.Context, def *v1alpha1.ModuleKind) error {
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kindspec.CRDName(def)}}
	err := d.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && fluxobj.Ours(crd, def.UID) {
		return d.removeObjects(ctx, def, crd)
	}
	if err := d.kinds.stop(ctx, def); err != nil {
		return err
	}
	for _, o := range d.objectsBeside(def) {
		if _, err := fluxobj.Delete(ctx, d.Client, o, def.UID); err != nil {
			return err
		}
	}
	delete(d.made, def.Name)
	delete(d.heirs, def.Name)
	return nil
}

func (d *definitions) objectsBeside(def *v1alpha1.ModuleKind) []client.Object {
	all := []client.Object{&corev1.ConfigMap{ObjectMeta: d.storeMeta(def)}}
	for _, role := range kindspec.ClusterRoles(def) {
		all = append(all, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role.Name}})
	}
	return all
}

// inheritObjects gives a definition what an earlier one of its name made, as after a restore: names
// are unique, and only the operator labels.
func (d *definitions) inheritObjects(ctx context.Context, def *v1alpha1.ModuleKind) error {
	if d.heirs[def.Name] == def.UID {
		return nil
	}
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kindspec.CRDName(def)}}
	for _, o := range append(d.objectsBeside(def), crd) {
		err := d.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		_, managed := o.GetLabels()[v1alpha1.LabelManaged]
		of := types.UID(o.GetLabels()[v1alpha1.LabelUID])
		if err == nil && managed && of != "" && of != def.UID {
			fluxobj.Mark(o, def.UID)
			err = d.Client.Update(ctx, o)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	d.heirs[def.Name] = def.UID
	return nil
}

// removeObjects deletes the objects, then their CRD, reconciling until that is gone.
func (d *definitions) removeObjects(ctx context.Context, def *v1alpha1.ModuleKind, crd *apiextensions.CustomResourceDefinition) error {
	if !isEstablished(crd) {
		return d.removeCRD(ctx, crd)
	}
	k, err := d.kinds.startWatch(ctx, def)
	if err != nil {
		return err
	}
	if err := d.keepRevisions(ctx, def, k); err != nil {
		return err
	}
	count := int32(0)
	if err := fluxobj.EachObject(ctx, d.Client, kindspec.GroupVersionKind(def), func(o *unstructured.Unstructured) error {
		count++
		if def.Spec.Deletion.Orphan != v1alpha1.OrphanKeep || o.GetDeletionTimestamp() != nil {
			return nil
		}
		uid := o.GetUID()
		return client.IgnoreNotFound(d.Client.Delete(ctx, o, client.Preconditions{UID: &uid}))
	}); err != nil {
		return err
	}
	def.Status.Objects = count
	switch {
	case count > 0 && def.Spec.Deletion.Orphan == v1alpha1.OrphanKeep:
		return &verdict.Problem{Reason: v1alpha1.ReasonRunning, Message: fmt.Sprintf("%d objects are orphaned", count), Retry: true}
	case count > 0:
		return &verdict.Problem{Reason: v1alpha1.ReasonObjectsExist, Message: fmt.Sprintf("%d of its objects exist: delete them first, or set deletion.orphan to Keep, which leaves the resources they created to you", count), Retry: true}
	}
	return d.removeCRD(ctx, crd)
}

// removeCRD deletes a CRD if it has not changed since it was read.
func (d *definitions) removeCRD(ctx context.Context, crd *apiextensions.CustomResourceDefinition) error {
	if crd.DeletionTimestamp == nil {
		uid := crd.UID
		version := crd.ResourceVersion
		if err := d.Client.Delete(ctx, crd, client.Preconditions{UID: &uid, ResourceVersion: &version}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return &verdict.Problem{Reason: v1alpha1.ReasonRunning, Message: "the kind is being removed", Retry: true}
}

// release lets the API server remove a definition.
func (d *definitions) release(ctx context.Context, def *v1alpha1.ModuleKind) error {
	before := def.DeepCopy()
	controllerutil.RemoveFinalizer(def, v1alpha1.FinalizerDefinition)
	return client.IgnoreNotFound(d.Client.Patch(ctx, def, verdict.Since(before)))
}
