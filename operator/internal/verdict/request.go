// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// maxRequest is the maximum length of a request in a status, in bytes. Its schema has
// that bound, and a longer one would keep the whole status from being written.
const maxRequest = 256

// RequestOf returns the value of [v1alpha1.AnnotationRequest] as statuses store it. A
// long value is replaced by its digest.
func RequestOf(o metav1.Object) string {
	asked := o.GetAnnotations()[v1alpha1.AnnotationRequest]
	if len(asked) <= maxRequest {
		return asked
	}
	sum := sha256.Sum256([]byte(asked))
	return "sha256:" + hex.EncodeToString(sum[:])
}
