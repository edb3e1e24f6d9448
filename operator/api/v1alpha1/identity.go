// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// UIDOf returns the UID that identifies everything that was created for an object. An
// object restored from a backup has a different UID itself; its status.uid then has the
// original one.
func UIDOf(o metav1.Object) types.UID {
	uid := types.UID("")
	switch o := o.(type) {
	case *Instance:
		uid = o.Status.UID
	case *unstructured.Unstructured:
		text, _, _ := unstructured.NestedString(o.Object, "status", "uid")
		uid = types.UID(text)
	}
	if uid == "" {
		return o.GetUID()
	}
	return uid
}
