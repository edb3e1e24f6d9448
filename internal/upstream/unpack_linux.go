// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitChild bounds this process. The kernel ends it at the limit of processor
// time, and the Go runtime at the limit of memory.
func limitChild(memory uint64, limit time.Duration) error {
	set := func(which int, value uint64) error {
		return syscall.Setrlimit(which, &syscall.Rlimit{Cur: value, Max: value})
	}
	return errors.Join(
		set(unix.RLIMIT_CORE, 0),
		set(unix.RLIMIT_DATA, memory),
		set(unix.RLIMIT_CPU, uint64(limit.Seconds())),
	)
}
