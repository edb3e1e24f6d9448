// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestPostpone checks that only the first collection is delayed, and that GOGC
// from the environment and a value set later by a server are not changed.
func TestPostpone(t *testing.T) {
	before := debug.SetGCPercent(usual)
	defer debug.SetGCPercent(before)
	if postpone(func(string) string { return "50" }) || current() != usual {
		t.Errorf("with GOGC in the environment it is %d", current())
	}
	if !postpone(func(string) string { return "" }) || current() != percent {
		t.Errorf("without it, it is %d", current())
	}
	debug.SetGCPercent(300)
	restore()
	if current() != 300 {
		t.Errorf("a server's own value became %d", current())
	}
	debug.SetGCPercent(percent)
	for current() != usual && t.Context().Err() == nil {
		runtime.GC()
		runtime.Gosched() // the cleanup runs beside this
	}
}
