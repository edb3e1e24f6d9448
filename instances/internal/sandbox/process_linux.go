// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Harden protects this process from others of its user: it writes no core dump, and its
// memory and environment are unreadable. Orphaned descendants become its children, so
// that they are found and ended. On other systems than Linux it does nothing.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("making the process unreadable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping the processes of a run: %w", err)
	}
	return nil
}

// procInfo is the content of /proc/PID/stat (proc_pid_stat(5)).
type procInfo struct {
	Process
	state                  byte
	parent, group, session int
	threads                int // including the one whose state this is
}

// readProc reads one process; fs.ErrNotExist if there is none, or only a dead one that
// waits to be reaped.
func readProc(pid int) (procInfo, error) {
	p, err := readStat(pid)
	if err == nil && p.isDead() {
		err = fs.ErrNotExist
	}
	return p, err
}

func readStat(pid int) (p procInfo, err error) {
	for range maxReads {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrNotExist) {
			if processExists(pid) {
				continue // its first thread was reaped during the lookup
			}
			return procInfo{}, fs.ErrNotExist
		}
		if err != nil {
			return procInfo{}, err
		}
		// No threads: the thread was reaped while its line was written. If another one
		// executes a new program, this ID is that thread's by now (execve(2)).
		if p, err = parseStat(b); err != nil || p.threads > 0 {
			return p, err
		}
	}
	if p.PID == 0 {
		return p, fs.ErrNotExist
	}
	return p, nil
}

// processExists reports whether a process with an ID exists, including a dead one that waits to
// be reaped. A signal finds the new first thread when another thread executes a new
// program; /proc may briefly find neither.
func processExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// maxReads bounds how often a process is read that seems to have no threads, or that
// exists without a line.
const maxReads = 100

// isDead reports whether no thread of a process runs. The state in its line is that of its
// first thread. That may have ended while others run, as it has briefly when another
// thread executes a new program (execve(2)).
func (p procInfo) isDead() bool { return (p.state == 'Z' || p.state == 'X') && p.threads <= 1 }

// parseStat parses the line of a process. Its second field is the name of the program in
// parentheses, which may contain anything.
func parseStat(b []byte) (procInfo, error) {
	open := bytes.IndexByte(b, '(')
	end := bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return procInfo{}, errors.New("reading the state of a process: no name of a program")
	}
	rest := strings.Fields(string(b[end+1:]))
	if len(rest) < 20 || len(rest[0]) != 1 {
		return procInfo{}, fmt.Errorf("reading the state of a process: %d fields", len(rest))
	}
	p := procInfo{state: rest[0][0]}
	for _, f := range []struct {
		to   *int
		text string
	}{{&p.PID, strings.TrimSpace(string(b[:open]))}, {&p.parent, rest[1]}, {&p.group, rest[2]}, {&p.session, rest[3]}, {&p.threads, rest[17]}} {
		n, err := strconv.Atoi(f.text)
		if err != nil {
			return procInfo{}, fmt.Errorf("reading the state of a process: %w", err)
		}
		*f.to = n
	}
	start, err := strconv.ParseUint(rest[19], 10, 64)
	if err != nil {
		return procInfo{}, fmt.Errorf("reading the state of a process: %w", err)
	}
	p.Start = start
	return p, nil
}

// Identify identifies the process that has this ID now; fs.ErrNotExist if there is none,
// errors.ErrUnsupported on other systems than Linux.
func Identify(pid int) (Process, error) {
	p, err := readStat(pid)
	return p.Process, err
}

// Alive reports whether the process still runs. Its ID alone may belong to another process by now.
func (p Process) Alive() bool {
	now, err := readProc(p.PID)
	return err == nil && now.Process == p
}

// allProcesses lists all running processes; those that end meanwhile are left out.
func allProcesses() ([]procInfo, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var list []procInfo
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		p, err := readStat(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// descendantsOf returns the members and all their descendants, without dead ones that are not
// reaped yet.
func descendantsOf(all []procInfo, member func(procInfo) bool) []Process {
	in := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !in[p.PID] && (member(p) || in[p.parent]) {
				in[p.PID] = true
				grown = true
			}
		}
	}
	all = slices.DeleteFunc(slices.Clone(all), func(p procInfo) bool { return !in[p.PID] || p.isDead() })
	list := make([]Process, len(all))
	for i, p := range all {
		list[i] = p.Process
	}
	return list
}

// Signal sends a signal if the process is still the same one, which a pidfd ensures; if it
// is gone, that is no error.
func (p Process) Signal(s syscall.Signal) error {
	return p.withPidfd(func(fd int) error { return unix.PidfdSendSignal(fd, s, nil, 0) })
}

// killAndWait kills a process and waits for its death, which also ends all processes in its
// namespace if it was the first one.
func (p Process) killAndWait() error {
	return p.withPidfd(func(fd int) error {
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
			return err
		}
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
}

func (p Process) withPidfd(do func(pidfd int) error) error {
	if p.PID <= 0 {
		return nil // there was no process
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err != nil:
		return fmt.Errorf("opening process %d: %w", p.PID, err)
	}
	file := os.NewFile(uintptr(fd), "process") // the file closes fd
	defer file.Close()
	if !p.Alive() {
		return nil
	}
	if err := do(fd); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ending process %d: %w", p.PID, err)
	}
	return nil
}

// reapDead collects the status of dead children that nothing else waits for: those that a
// command left, and orphans reparented to this process.
func reapDead(all []procInfo, not func(pid int) bool) {
	self := os.Getpid()
	for _, p := range all {
		if p.parent == self && p.state == 'Z' && !not(p.PID) {
			var status unix.WaitStatus
			_, _ = unix.Wait4(p.PID, &status, unix.WNOHANG, nil) // the status may be collected already
		}
	}
}

// user returns the user of a process; -1 if it is not known any more.
func (p procInfo) user() int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/status")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			if f := strings.Fields(ids); len(f) > 0 {
				if uid, err := strconv.Atoi(f[0]); err == nil {
					return uid
				}
			}
		}
	}
	return -1
}

// ForceSignal asks a child to kill its tool and to end.
const ForceSignal = syscall.SIGUSR1

// Alive reports whether any process of the attempt lives: its child, or one that the
// child started. If that cannot be found out, it does.
func (a Processes) Alive() bool {
	if a.Child.Alive() {
		return true
	}
	rest, _, err := a.restOfRun()
	return err != nil || len(rest) > 0 // if unknown, it must not be started again
}

// restOfRun lists what is left of a run whose child is dead, and the leader of the tool's
// group: the processes in the control group; in the session of the child, or in the group
// that the child recorded; of the run's user; and the descendants of any of these.
func (a Processes) restOfRun() (list []Process, tool Process, err error) {
	if a.Scratch != "" {
		if b, err := os.ReadFile(filepath.Join(a.Scratch, toolFile)); err == nil {
			_ = json.Unmarshal(b, &tool) // an incomplete file names no process
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, tool, err
		}
	}
	all, err := allProcesses()
	if err != nil {
		return nil, tool, err
	}
	session := a.Child.PID
	group := tool.PID
	for _, p := range all { // if an ID was reused, no process of the run is left in that session or group
		if p.PID == a.Child.PID && p.Process != a.Child {
			session = 0
		}
		if p.PID == tool.PID && p.Process != tool {
			group = 0
		}
	}
	var cgroup []Process
	if a.Cgroup != "" {
		if cgroup, err = cgroupProcesses(a.Cgroup); err != nil {
			return nil, tool, err
		}
	}
	list = descendantsOf(all, func(p procInfo) bool {
		inSession := session > 0 && p.session == session
		inGroup := group > 0 && (p.group == group || p.session == group)
		ofUser := a.UID > 0 && p.user() == a.UID
		return inSession || inGroup || slices.Contains(cgroup, p.Process) || ofUser
	})
	return list, tool, nil
}

// Interrupt asks what is left of a run to end, after its child has died.
func (a Processes) Interrupt() error {
	rest, tool, err := a.restOfRun()
	if err != nil {
		return err
	}
	if tool.Alive() {
		return tool.interrupt()
	}
	var errs []error
	for _, p := range rest { // the child died before it recorded the tool
		errs = append(errs, p.Signal(syscall.SIGINT))
	}
	return errors.Join(errs...)
}

// Kill kills all processes of an attempt, the child first, so that it starts nothing more.
func (a Processes) Kill() error {
	if err := a.Child.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if a.Cgroup != "" {
		if err := killCgroup(a.Cgroup); err != nil {
			return err
		}
	}
	rest, _, err := a.restOfRun()
	if err != nil {
		return err
	}
	return killProcesses(rest)
}
