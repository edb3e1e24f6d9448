// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// pidFD is the file descriptor to which [Enter] writes the ID of the process it started.
const pidFD = 3

// Enter runs another program in a new mount namespace, in which [Mount] is the tool's
// folder. The namespace needs a new process, whose ID Enter writes as a line to file
// descriptor 3; Enter returns then, and its process should end. On other systems than
// Linux the error is errors.ErrUnsupported.
func Enter(o EnterOptions, line, env []string) error {
	if o.Inside {
		return o.runInside(line, env)
	}
	unix.CloseOnExec(pidFD)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	inside := o
	inside.Inside = true
	cmd := exec.Command(self, append(inside.args(), line...)...)
	cmd.Env = env
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		a := cmd.SysProcAttr
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("creating a namespace for the run: %w", err)
	}
	_, err = fmt.Fprintln(os.NewFile(pidFD, "pid"), cmd.Process.Pid)
	return err
}

// runInside mounts the folder, drops the capability to mount, and runs the program.
func (o EnterOptions) runInside(line, env []string) error {
	if err := o.mount(); err != nil {
		return fmt.Errorf("mounting the folder of the run: %w", err)
	}
	runtime.LockOSThread() // capabilities are per thread
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return fmt.Errorf("starting %s: %w", line[0], syscall.Exec(line[0], line, env))
}

// pageSize is the least space that a file takes.
const pageSize = 4 << 10

func (o EnterOptions) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	// The files are opened before anything is mounted over them.
	var shown []*os.File
	for _, name := range o.Show {
		f, err := os.OpenFile(name, unix.O_PATH, 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		shown = append(shown, f)
	}
	var errored *os.File
	if o.Errored != "" {
		f, err := os.OpenFile(o.Errored, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		if errored = f; o.UID > 0 {
			if err := f.Chown(o.UID, o.GID); err != nil {
				return err
			}
		}
	}
	data := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0711", o.Size, max(o.Size/pageSize, 64))
	if err := unix.Mount("okara", Mount, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(Mount, placedMark), nil, 0o600); err != nil {
		return err
	}
	for i, f := range shown {
		if err := bindMount(f, filepath.Join(Mount, shownPart(i))); err != nil {
			return err
		}
	}
	return bindMount(errored, filepath.Join(Mount, erroredPart))
}

// bindMount mounts an open file or folder under another name; a nil f is ignored.
func bindMount(f *os.File, name string) error {
	if f == nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(name, 0o755)
	} else {
		err = os.WriteFile(name, nil, 0o600)
	}
	if err != nil {
		return err
	}
	return unix.Mount("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), name, "", unix.MS_BIND|unix.MS_REC, "")
}

func isFull(dir string) (bool, error) {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return s.Bavail == 0 || s.Ffree == 0, err
}

// onDisk returns the disk space that a file takes; files may have holes.
func onDisk(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}
