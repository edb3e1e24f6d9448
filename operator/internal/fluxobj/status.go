// SPDX-License-Identifier: Apache-2.0

package fluxobj

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SourceVersion is the sources' API version, OCIKind the kind in registries.
const (
	SourceVersion = "source.toolkit.fluxcd.io/v1"
	OCIKind       = "OCIRepository"
)

// AnnotationRequest is the annotation that requests a run from Flux.
const AnnotationRequest = "reconcile.fluxcd.io/requestedAt"

// Condition is a condition of a status. The zero value means that it does not exist.
type Condition struct {
	Status, Reason, Message string
	Generation              int64  // 0: unknown
	Since                   string // when Status changed last, RFC 3339
}

// True and False report what the condition says.
func (c Condition) True() bool  { return c.Status == "True" }
func (c Condition) False() bool { return c.Status == "False" }

// Conditions returns the conditions of an object by type.
func Conditions(o *unstructured.Unstructured) map[string]Condition {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions") // invalid means none
	all := map[string]Condition{}
	for _, condition := range list {
		m, _ := condition.(map[string]any)
		generation, _ := m["observedGeneration"].(int64)
		all[stringAt(m, "type")] = Condition{stringAt(m, "status"), stringAt(m, "reason"), stringAt(m, "message"), generation, stringAt(m, "lastTransitionTime")}
	}
	return all
}

func stringAt(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// Text returns a string field of an object, or "" if it does not exist.
func Text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// Number returns an integer field of an object, or 0 if it does not exist.
func Number(o *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return n
}

// Suspended reports whether the object is suspended, so that Flux starts no run.
func Suspended(o *unstructured.Unstructured) bool {
	is, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend")
	return is
}

// Handled reports whether Flux has seen the last request for a run.
func Handled(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()[AnnotationRequest] == Text(o, "status", "lastHandledReconcileAt")
}

// Observed reports whether the status is that of the current object.
func Observed(o *unstructured.Unstructured) bool {
	return Handled(o) && Number(o, "status", "observedGeneration") == o.GetGeneration()
}

// pageSize is how many objects are read at a time.
const pageSize = 500

// EachObject calls do with all objects of a kind. c reads without a cache, which has no pages.
func EachObject(ctx context.Context, c client.Reader, kind schema.GroupVersionKind, do func(*unstructured.Unstructured) error) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	for more := true; more; more = list.GetContinue() != "" {
		if err := c.List(ctx, list, client.Limit(pageSize), client.Continue(list.GetContinue())); err != nil {
			return err
		}
		for i := range list.Items {
			if err := do(&list.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
