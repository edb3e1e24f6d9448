// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is the time since the machine started, including sleep, which Go's own clock leaves out.
func Uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return wallTime() // a kernel before 2.6.39
	}
	return time.Duration(t.Nano())
}
