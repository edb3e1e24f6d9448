// SPDX-License-Identifier: Apache-2.0

package sandbox

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

// Exec changes the user of this process, sets limits, and executes another program with
// the arguments after its name in line. It returns only on error; on other systems than
// Linux the error is errors.ErrUnsupported.
//
// The limits apply to this program too until then. Go aborts a program whose runtime gets
// no memory or thread, so nothing may run concurrently from here on.
func Exec(o ExecOptions, line, env []string) error {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()
	if o.UID > 0 {
		if err := becomeUser(o.UID, o.GID); err != nil {
			return fmt.Errorf("switching to user %d: %w", o.UID, err)
		}
	}
	if err := leaveKeys(); err != nil {
		return err
	}
	if o.Dir != "" { // only now: it may be readable only by that user
		if err := enterFolder(o.Base, o.Dir); err != nil {
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
	return fmt.Errorf("leaving the keyring of the server: %w", err)
}

// becomeUser changes to another user, without capabilities: none is left that any program
// could regain, whoever owns it.
func becomeUser(uid, gid int) error {
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

// enterFolder makes dir, a name in base, the working directory. A link in the path is an
// error, since the tool can have made it.
func enterFolder(base, dir string) error {
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

// killCgroup kills all processes in a control group.
func killCgroup(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the group is gone, or the kernel is older than 5.14: other ways of killing follow
	}
	return err
}

// cgroupProcesses lists the processes in a control group.
func cgroupProcesses(dir string) ([]Process, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Process
	for f := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		if p, err := readProc(pid); err == nil {
			list = append(list, p.Process)
		}
	}
	return list, nil
}
