// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

// TestRegistryAway: an unreachable registry is reported within ten seconds.
func TestRegistryAway(t *testing.T) {
	r := newRetry()
	total, pause := time.Duration(r.MaxAttempts)*registryConnect, r.InitialBackoff
	for range r.MaxAttempts - 1 {
		total, pause = total+pause, 2*pause
	}
	if r.MaxAttempts < 1 || total > 10*time.Second {
		t.Errorf("a registry that does not answer is told after %v", total)
	}
}
