// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// percent is the value of GOGC until the first collection, which comes at 16 MiB with it.
const percent = 400

// usual is the value of GOGC after that, as Go has it.
const usual = 100

var _ = postpone(os.Getenv)

// postpone puts the first collection off. Where GOGC is set it changes nothing, and
// returns false.
func postpone(getenv func(string) string) bool {
	if getenv("GOGC") != "" {
		return false
	}
	debug.SetGCPercent(percent)
	runtime.AddCleanup(new([16]byte), func(int) { restore() }, 0) // the first collection finds it
	return true
}

// restore has garbage collected as usual, unless somebody has set another value since,
// as okara serve does.
func restore() {
	if current() == percent {
		debug.SetGCPercent(usual)
	}
}

// current is the value of GOGC.
func current() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}
