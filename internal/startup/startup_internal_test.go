// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestPostpone shows that only the first collection is put off, that GOGC of the
// environment is left alone, and so is what a server sets later.
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
