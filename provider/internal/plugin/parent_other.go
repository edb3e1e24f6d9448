// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package plugin

import "os"

// waitForParent waits until the process that started this one is gone.
func waitForParent(parent *os.Process) { _, _ = parent.Wait() }
