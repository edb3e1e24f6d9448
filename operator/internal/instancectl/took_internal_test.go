// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"testing"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestTook: a later request waits for changes that were not processed, not for refused ones.
func TestTook(t *testing.T) {
	o := &v1alpha1.Instance{}
	o.Generation, o.Spec.Name = 2, "mine"
	o.Status.Handled = requestedNow(o)
	o.Status.Handled.Refused, o.Status.Handled.RefusedGeneration = "not this one", 2
	if !isProcessed(o) {
		t.Error("a change that was refused is not taken for heard")
	}
	o.Spec.Protected = true
	if isProcessed(o) {
		t.Error("a change that nobody heard is taken for heard")
	}
}
