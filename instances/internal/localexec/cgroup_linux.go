// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupRoot returns the folder of version 2 groups: /sys/fs/cgroup or unified in it (cgroups(7)).
func cgroupRoot() string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		return "/sys/fs/cgroup/unified"
	}
	return "/sys/fs/cgroup"
}

// serverCgroup is the control group of the server, beside those of its runs: only a group
// without processes may delegate controllers to its children.
const serverCgroup = "server"

// delegatedCgroup returns the control group that systemd delegated to the server, or "": its own,
// or with DelegateSubgroup=server the one above it (systemd.resource-control(5), Delegate=).
func delegatedCgroup() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		own := filepath.Join(cgroupRoot(), name)
		switch {
		case isDelegated(own):
			return own, joinCgroup(filepath.Join(own, serverCgroup), os.Getpid())
		case filepath.Base(own) == serverCgroup && isDelegated(filepath.Dir(own)):
			return filepath.Dir(own), nil
		}
	}
	return "", nil
}

// isDelegated checks the attribute that systemd sets on delegated groups.
func isDelegated(dir string) bool {
	value := make([]byte, 8)
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

func joinCgroup(dir string, pid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

// newCgroup makes the control group of an attempt. Controllers not delegated limit nothing.
func newCgroup(parent, name string, memory int64, pids int, cpus float64) (string, error) {
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("creating a control group: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return "", fmt.Errorf("reading the delegated control groups: %w", err)
	}
	const period = 100_000 // microseconds, the kernel's default
	for c := range strings.FieldsSeq(string(b)) {
		var file, value string
		switch {
		case c == "memory" && memory > 0:
			file = "memory.max"
			value = strconv.FormatInt(memory, 10)
		case c == "pids" && pids > 0:
			file = "pids.max"
			value = strconv.Itoa(pids)
		case c == "cpu" && cpus > 0:
			file = "cpu.max"
			value = fmt.Sprintf("%d %d", int64(cpus*period), period)
		default:
			continue
		}
		err := errors.Join(
			os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+c), 0o644),
			os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644))
		if err != nil {
			return "", fmt.Errorf("limiting %s: %w", c, err)
		}
	}
	return dir, nil
}
