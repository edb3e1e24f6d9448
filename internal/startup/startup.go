// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// percent is the value of GOGC until the first collection, which it delays until 16 MiB.
const percent = 400

// usual is GOGC after that. With Go's default of 100 a command that parses much spends a fifth of its
// processor time more; at 200 it takes a quarter more memory.
const usual = 200

var _ = postponeGC(os.Getenv)

// postponeGC delays the first collection. If GOGC is set, it changes nothing and returns false.
func postponeGC(getenv func(string) string) bool {
	if getenv("GOGC") != "" {
		return false
	}
	debug.SetGCPercent(percent)
	runtime.AddCleanup(new([16]byte), func(int) { restoreGOGC() }, 0) // runs at the first collection
	return true
}

// restoreGOGC sets GOGC to what is usual, unless it has been changed since, as okara serve does.
func restoreGOGC() {
	if currentGOGC() == percent {
		debug.SetGCPercent(usual)
	}
}

func currentGOGC() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}
