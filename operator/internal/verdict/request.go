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

// RequestOf returns what requests a run: [v1alpha1.AnnotationRequest] and Flux's.
func RequestOf(o metav1.Object) string { return JoinRequests(RequestsOf(o)) }

// RequestsOf returns the values of [v1alpha1.AnnotationRequest] and of Flux's annotation as statuses
// have them, each in a field that whoever set it can wait for; a long one by digest.
func RequestsOf(o metav1.Object) (own, flux string) {
	return clipRequest(o.GetAnnotations()[v1alpha1.AnnotationRequest]), clipRequest(o.GetAnnotations()[meta.ReconcileRequestAnnotation])
}

// JoinRequests is [RequestOf] of what a status has.
func JoinRequests(own, flux string) string { return strings.TrimSpace(own + " " + flux) }

func clipRequest(asked string) string {
	if len(asked) <= maxRequest {
		return asked
	}
	sum := sha256.Sum256([]byte(asked))
	return "sha256:" + hex.EncodeToString(sum[:])
}
