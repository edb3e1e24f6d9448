// SPDX-License-Identifier: Apache-2.0

package rig

import "syscall"

// dieWithParent ends a program when the tests are killed, as by their time limit.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
