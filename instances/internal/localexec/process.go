// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"sync"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
)

// machine is where a process ID is valid: not after a boot, nor in another namespace.
type machine struct {
	Host      string `json:"host"`
	Boot      string `json:"boot"`      // boot ID of the kernel
	Namespace string `json:"namespace"` // of process ids
}

func (l *Local) attemptProcesses(folder string, m marker) sandbox.Processes {
	a := sandbox.Processes{Scratch: folder, Child: m.Process, Cgroup: m.Cgroup}
	if l.isolation.Mode == sandbox.ModeUser {
		a.UID = m.UID
	}
	return a
}

// isRunning reports whether any process of an attempt lives on this machine.
func (l *Local) isRunning(folder string, m marker) bool {
	return m.Boot == l.here.Boot && m.Namespace == l.here.Namespace && l.attemptProcesses(folder, m).Alive()
}

func (l *Local) kill(at workDir) error { return l.attemptProcesses(at.folder, at.marker).Kill() }

// reaper waits for children that end while this process lives.
type reaper struct {
	reaping sync.WaitGroup
	mu      sync.Mutex                      // guards ends
	ends    map[lifecycle.Ref]chan struct{} // of living children; closed when they end
}

// reapChild waits for a child, and notifies those that wait for the end of its attempt.
func (p *reaper) reapChild(r lifecycle.Ref, wait func()) {
	ended := make(chan struct{})
	p.mu.Lock()
	p.ends[r] = ended
	p.mu.Unlock()
	p.reaping.Go(func() {
		wait()
		close(ended)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ends[r] == ended {
			delete(p.ends, r)
		}
	})
}

// Ended implements [run.MachineExecutor].
func (p *reaper) Ended(r lifecycle.Ref) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends[r]
}
