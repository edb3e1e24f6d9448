// SPDX-License-Identifier: Apache-2.0

package sandbox

import "syscall"

// Process identifies one process unambiguously.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since the boot
}

// Identify identifies the process that has this ID now; fs.ErrNotExist if there is none,
// errors.ErrUnsupported on other systems than Linux.
func Identify(pid int) (Process, error) { return identify(pid) }

// Alive reports whether the process still runs. Its ID alone may belong to another
// process by now.
func (p Process) Alive() bool { return p.alive() }

// Signal sends a signal if the process is still the same one; if it is gone, that is no
// error.
func (p Process) Signal(s syscall.Signal) error { return p.signal(s) }

// ForceSignal asks a child to kill its tool and to end.
const ForceSignal = forceSignal

// Processes says by what the processes of an attempt are found on this machine. The child is
// one of them, with all that it started.
type Processes struct {
	Scratch string  // its folder; "": none is here
	Child   Process // which may be dead
	Cgroup  string  // folder of its control group; "": none
	UID     int     // of its tool, if no other attempt has that user; 0: none
}

// Alive reports whether any process of the attempt lives: its child, or one that the
// child started. If that cannot be found out, it does.
func (a Processes) Alive() bool { return a.alive() }

// Interrupt asks what is left of a run to end, after its child has died.
func (a Processes) Interrupt() error { return a.interrupt() }

// Kill kills all processes of an attempt, the child first, so that it starts nothing
// more.
func (a Processes) Kill() error { return a.kill() }
