// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ExecOptions are the settings that [Exec] applies before the tool runs. Zero means
// unset.
type ExecOptions struct {
	UID, GID  int
	Base, Dir string // Dir is in Base; links out of Base are refused
	Memory    int64  // bytes of data, per process
	FileSize  int64  // bytes, per file
	Processes int    // processes and threads of the user
}

// Exec changes the user of this process, sets limits, and executes another program. It
// returns only on error.
//
// The limits apply to this program too until then. Go aborts a program whose runtime gets
// no memory or thread, so nothing may run concurrently from here on.
func Exec(o ExecOptions, line, env []string) error {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()
	if o.UID > 0 {
		if err := become(o.UID, o.GID); err != nil {
			return fmt.Errorf("becoming user %d: %w", o.UID, err)
		}
	}
	if err := leaveKeys(); err != nil {
		return err
	}
	if o.Dir != "" { // only now: it may be readable only by that user
		if err := enter(o.Base, o.Dir); err != nil {
			return err
		}
		env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, "PWD=") })
		env = append(env, "PWD="+filepath.Join(o.Base, o.Dir))
	}
	for _, l := range []struct {
		what  string
		which int
		value uint64
		set   bool
	}{
		{"core files", unix.RLIMIT_CORE, 0, true},
		{"the size of files", unix.RLIMIT_FSIZE, uint64(o.FileSize), o.FileSize > 0},
		{"processes", unix.RLIMIT_NPROC, uint64(o.Processes), o.Processes > 0},
		{"memory", unix.RLIMIT_DATA, uint64(o.Memory), o.Memory > 0},
	} {
		if !l.set {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(l.which, &now); err != nil {
			return fmt.Errorf("limiting %s: %w", l.what, err)
		}
		value := min(l.value, now.Max) // only root may raise it
		if err := unix.Setrlimit(l.which, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("limiting %s: %w", l.what, err)
		}
	}
	return fmt.Errorf("starting %s: %w", line[0], syscall.Exec(line[0], line, env))
}

// leaveKeys replaces the session keyring of the server by an empty one (keyrings(7)). A
// kernel without keys, or one that denies access to them, is fine too.
func leaveKeys() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err == nil || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return fmt.Errorf("leaving the keys of the server: %w", err)
}

// become changes to another user, without capabilities: none is left that any program
// could regain, whoever owns it.
func become(uid, gid int) error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // there are no further capabilities
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(
		syscall.Setgroups(nil), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(uid, uid, uid),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// enter makes dir, a name in base, the working directory. A link in the path is an error,
// since the tool can have made it.
func enter(base, dir string) error {
	root, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("entering %s: %w", base, err)
	}
	fd, err := unix.Openat2(root, dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		err = unix.Fchdir(fd)
	}
	if err != nil {
		return fmt.Errorf("entering %s in %s: %w", dir, base, err)
	}
	return nil
}

// cgroupRoot returns the folder of version 2 control groups: /sys/fs/cgroup or, if that
// has version 1, unified below it (cgroups(7)).
func cgroupRoot() string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		return "/sys/fs/cgroup/unified"
	}
	return "/sys/fs/cgroup"
}

// serverCgroup is the control group of the server, beside those of its runs: only a group
// without processes may delegate controllers to its children.
const serverCgroup = "server"

// delegatedCgroup returns the control group that systemd delegated to the server, "" if
// there is none (systemd.resource-control(5), Delegate=): the server's own or, with
// DelegateSubgroup=server, the one above it. Running as root is not enough: the groups of
// a host have other owners.
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
		case delegated(own):
			return own, joinCgroup(filepath.Join(own, serverCgroup), os.Getpid())
		case filepath.Base(own) == serverCgroup && delegated(filepath.Dir(own)):
			return filepath.Dir(own), nil
		}
	}
	return "", nil
}

// delegated checks the attribute that systemd sets on delegated groups.
func delegated(dir string) bool {
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

// newCgroup makes the control group of an attempt below a delegated one. Controllers that
// were not delegated limit nothing.
func newCgroup(parent, name string, memory int64, pids int, cpus float64) (string, error) {
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("making a control group: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return "", fmt.Errorf("reading what control groups are delegated: %w", err)
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

// killCgroup kills all processes in a control group.
func killCgroup(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the group is gone, or the kernel is older than 5.14: other ways of killing follow
	}
	return err
}

// cgroupProcesses lists the processes in a control group.
func cgroupProcesses(dir string) ([]process, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []process
	for f := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		if p, err := readProc(pid); err == nil {
			list = append(list, p.process)
		}
	}
	return list, nil
}
