// SPDX-License-Identifier: Apache-2.0

//go:build unix

package plugin

import (
	"os"
	"time"
)

// waitForParent waits until the process that started this one is gone: then another
// one is the parent. No system call waits for that everywhere.
func waitForParent(parent *os.Process) {
	for os.Getppid() == parent.Pid {
		time.Sleep(time.Second)
	}
}
