// SPDX-License-Identifier: Apache-2.0

package rig

import "syscall"

// dieWithParent kills a program when the tests are killed, such as by their time limit.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
