// SPDX-License-Identifier: Apache-2.0

package registry

import "testing"

// FillPulls reserves the packages' disk space until free.
func (h *Handler) FillPulls(t *testing.T, left int64) (free func()) {
	t.Helper()
	if !h.s.pull.packages.disk.TryAcquire(maxPulled - left) {
		t.Fatalf("there is no room for %d bytes", maxPulled-left)
	}
	return func() { h.s.pull.packages.disk.Release(maxPulled - left) }
}
