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

// maxRequest bounds a request in a status, in bytes, as its schema: a longer one would keep all
// from being written.
const maxRequest = 256

// RequestOf returns what requests a run: [v1alpha1.AnnotationRequest] and Flux's; a long one by
// digest.
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
