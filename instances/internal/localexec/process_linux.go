// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// thisMachine returns where process IDs of this process are valid.
func thisMachine() (machine, error) {
	host, err := os.Hostname()
	if err != nil {
		return machine{}, fmt.Errorf("reading the host name: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return machine{}, fmt.Errorf("reading the boot ID: %w", err)
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return machine{}, fmt.Errorf("reading the PID namespace: %w", err)
	}
	namespace = strings.TrimSuffix(strings.TrimPrefix(namespace, "pid:["), "]")
	return machine{Host: host, Boot: strings.TrimSpace(string(boot)), Namespace: namespace}, nil
}

// ownSession lets a command outlive this process, and signals to its group.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func ownedBy(info fs.FileInfo, uid int) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == uid
}
