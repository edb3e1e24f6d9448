// SPDX-License-Identifier: Apache-2.0

//go:build unix

package bridge

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// endWithParent ends a process when okara dies: a shell reads from a pipe that only okara
// holds, which closes at okara's death, and then terminates the process gracefully.
// Without a shell there is no such protection.
//
// Linux has a signal for the death of a parent, but sends it again for each thread of
// the parent that ends, and the tools take a second one as "stop at once", without
// storing a state.
func endWithParent(p *os.Process) (end func()) {
	watcher := exec.Command("/bin/sh", "-c", `read -r end; kill -TERM "$1"`, "sh", strconv.Itoa(p.Pid))
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that a signal to okara's group does not end it first
	pipe, err := watcher.StdinPipe()
	if err != nil || watcher.Start() != nil {
		return func() {}
	}
	return func() {
		_ = watcher.Process.Kill() // before the pipe closes: the pid may belong to another process by now
		_ = watcher.Wait()
		_ = pipe.Close()
	}
}
