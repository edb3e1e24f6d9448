// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// maxRequest is the maximum length of a request in a status, in bytes. Its schema has
// that bound, and a longer one would keep the whole status from being written.
const maxRequest = 256

// RequestOf returns what requests a run of an object, as statuses store it: the value of
// [v1alpha1.AnnotationRequest], and that of Flux's annotation. A long value is replaced by
// its digest.
func RequestOf(o metav1.Object) string {
	asked := o.GetAnnotations()[v1alpha1.AnnotationRequest]
	if flux := o.GetAnnotations()[meta.ReconcileRequestAnnotation]; flux != "" {
		asked = strings.TrimSpace(asked + " " + flux)
	}
	if len(asked) <= maxRequest {
		return asked
	}
	sum := sha256.Sum256([]byte(asked))
	return "sha256:" + hex.EncodeToString(sum[:])
}
