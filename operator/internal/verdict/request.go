// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// maxRequest is how many bytes a status keeps of a request: its schema has that bound, and
// one that is longer would keep the whole status from being written.
const maxRequest = 256

// RequestOf is what somebody asks for by [v1alpha1.AnnotationRequest], as statuses keep it: of a long
// one the digest.
func RequestOf(o metav1.Object) string {
	asked := o.GetAnnotations()[v1alpha1.AnnotationRequest]
	if len(asked) <= maxRequest {
		return asked
	}
	sum := sha256.Sum256([]byte(asked))
	return "sha256:" + hex.EncodeToString(sum[:])
}
