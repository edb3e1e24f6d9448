// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestPostpone delays the first collection only, and respects GOGC.
func TestPostpone(t *testing.T) {
	before := debug.SetGCPercent(usual)
	defer debug.SetGCPercent(before)
	if postponeGC(func(string) string { return "50" }) || currentGOGC() != usual {
		t.Errorf("with GOGC in the environment it is %d", currentGOGC())
	}
	if !postponeGC(func(string) string { return "" }) || currentGOGC() != percent {
		t.Errorf("without it, it is %d", currentGOGC())
	}
	debug.SetGCPercent(300)
	restoreGOGC()
	if currentGOGC() != 300 {
		t.Errorf("a server's own value became %d", currentGOGC())
	}
	debug.SetGCPercent(percent)
	for currentGOGC() != usual && t.Context().Err() == nil {
		runtime.GC()
		runtime.Gosched() // the cleanup runs beside this
	}
}
