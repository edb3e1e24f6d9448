// SPDX-License-Identifier: Apache-2.0

//go:build unix

package plugin

import (
	"os"
	"time"
)

// waitForParent waits until the parent of this process is gone, and polls for a new
// parent, since no portable system call waits for that.
func waitForParent(parent *os.Process) {
	for os.Getppid() == parent.Pid {
		time.Sleep(time.Second)
	}
}
