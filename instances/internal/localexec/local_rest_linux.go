// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

const (
	killSignal   = syscall.SIGKILL
	cancelSignal = syscall.SIGTERM
	forceSignal  = syscall.SIGUSR1
)

// running tells whether anything of an attempt lives on this machine: its child,
// or what that started.
func (l *Local) running(folder string, m marker) bool {
	if m.Boot != l.here.Boot || m.Namespace != l.here.Namespace {
		return false
	}
	if m.process.alive() {
		return true
	}
	rest, _, err := l.rest(folder, m)
	return err != nil || len(rest) > 0 // what cannot be told must not be started again
}

// rest lists what is left of a run whose child is dead, and the leader of the
// group of the tool. It is what is in the control group; in the session of the
// child, or the group that the child named; of the user of its place; and what
// descends from any of these.
func (l *Local) rest(folder string, m marker) (list []process, tool process, err error) {
	if folder != "" {
		if b, err := os.ReadFile(filepath.Join(folder, toolFile)); err == nil {
			_ = json.Unmarshal(b, &tool) // half of it names nobody
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, tool, err
		}
	}
	all, err := processes()
	if err != nil {
		return nil, tool, err
	}
	session, group := m.PID, tool.PID
	for _, p := range all { // the ids belong to others by now: nothing of the run is left in them
		if p.PID == m.PID && p.process != m.process {
			session = 0
		}
		if p.PID == tool.PID && p.process != tool {
			group = 0
		}
	}
	var cgroup []process
	if m.Cgroup != "" {
		if cgroup, err = cgroupProcesses(m.Cgroup); err != nil {
			return nil, tool, err
		}
	}
	own := l.isolation.Mode == OwnUser && m.UID > 0
	list = descent(all, func(p procInfo) bool {
		return session > 0 && p.session == session || group > 0 && (p.group == group || p.session == group) ||
			slices.Contains(cgroup, p.process) || own && p.user() == m.UID
	})
	return list, tool, nil
}

// interrupt asks what is left of a run to end.
func (l *Local) interrupt(at place) error {
	rest, tool, err := l.rest(at.folder, at.marker)
	if err != nil {
		return err
	}
	if tool.alive() {
		return tool.interrupt()
	}
	var errs []error
	for _, p := range rest { // the child died before it wrote down which is the tool
		errs = append(errs, p.signal(syscall.SIGINT))
	}
	return errors.Join(errs...)
}

// kill ends all of an attempt, its child first, so that it starts nothing more.
func (l *Local) kill(at place) error {
	if err := at.process.signal(killSignal); err != nil {
		return err
	}
	if at.Cgroup != "" {
		if err := killCgroup(at.Cgroup); err != nil {
			return err
		}
	}
	rest, _, err := l.rest(at.folder, at.marker)
	if err != nil {
		return err
	}
	return kill(rest)
}
