// SPDX-License-Identifier: Apache-2.0

package kindctl

import "testing"

// TestWatchThatFailed: an ended watch begins again.
func TestWatchThatFailed(t *testing.T) {
	k := &kind{done: make(chan struct{})}
	s := &kinds{running: map[string]*kind{"vpcs": k}}
	if s.kindOfDefinition("vpcs") != k || s.kindOfDefinition("others") != nil {
		t.Error("what is watched is another kind")
	}
	close(k.done)
	if s.kindOfDefinition("vpcs") != nil {
		t.Error("a watch that has ended counts as one")
	}
}
