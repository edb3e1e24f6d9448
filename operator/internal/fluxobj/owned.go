// SPDX-License-Identifier: Apache-2.0

package fluxobj

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TakenError means that an existing object is not the operator's ([v1alpha1.ReasonNameTaken]).
type TakenError struct {
	Kind string
	Key  client.ObjectKey
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s %s exists and is not okara's: delete or rename it", e.Kind, e.Key.Name)
}

// Ours reports whether the operator made an object for the UID, or for itself (uid "").
func Ours(o client.Object, uid types.UID) bool {
	_, managed := o.GetLabels()[v1alpha1.LabelManaged]
	return managed && o.GetLabels()[v1alpha1.LabelUID] == string(uid)
}

// Mark sets the labels on an object that [Ours] checks.
func Mark(o client.Object, uid types.UID) {
	o.SetLabels(With(o.GetLabels(), v1alpha1.LabelManaged, ""))
	if uid != "" {
		o.SetLabels(With(o.GetLabels(), v1alpha1.LabelUID, string(uid)))
	}
}

// Labels returns labels with those of [Mark], unless uid is "".
func Labels(own map[string]string, uid types.UID) map[string]string {
	if uid == "" {
		return own
	}
	return labels.Merge(own, labels.Set{v1alpha1.LabelManaged: "", v1alpha1.LabelUID: string(uid)})
}

// Write creates or updates an object by set, and reports a change; o then has the result. If it is
// not ours the error is a [*TakenError]; if set fails nothing is written. c must have no cache.
func Write[T client.Object](ctx context.Context, c client.Client, o T, uid types.UID, set func(T) error) (changed bool, err error) {
	key := client.ObjectKeyFromObject(o)
	err = c.Get(ctx, key, o)
	if apierrors.IsNotFound(err) {
		if err := set(o); err != nil {
			return false, err
		}
		Mark(o, uid)
		return true, c.Create(ctx, o)
	}
	if err != nil {
		return false, err
	}
	if !Ours(o, uid) {
		return false, takenError(c, o, key)
	}
	before := o.DeepCopyObject()
	if err := set(o); err != nil {
		return false, err
	}
	Mark(o, uid)
	if equality.Semantic.DeepEqual(before, o) {
		return false, nil
	}
	return true, c.Update(ctx, o)
}

// Delete removes our object, and reports whether it is gone; another's stays, and counts as gone.
func Delete(ctx context.Context, c client.Client, o client.Object, uid types.UID) (gone bool, err error) {
	err = c.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) || err == nil && !Ours(o, uid) {
		return true, nil
	}
	if err != nil || o.GetDeletionTimestamp() != nil {
		return false, err
	}
	own := o.GetUID()
	version := o.GetResourceVersion()
	return false, client.IgnoreNotFound(c.Delete(ctx, o, client.Preconditions{UID: &own, ResourceVersion: &version}))
}

func takenError(c client.Client, o client.Object, key client.ObjectKey) error {
	kind, err := apiutil.GVKForObject(o, c.Scheme())
	if err != nil {
		return err
	}
	return &TakenError{kind.Kind, key}
}
