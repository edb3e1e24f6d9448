// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"sync"

	"github.com/seed-141914ff/okara/instances/lifecycle"
)

// machine is where the id of a process means something: names of hosts repeat,
// and ids repeat after a boot and in another namespace.
type machine struct {
	Host      string `json:"host"`
	Boot      string `json:"boot"`      // id of the boot of the kernel
	Namespace string `json:"namespace"` // of process ids
}

// process is one process for ever.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // ticks of the clock since the boot
}

// reaper waits for the children that end while this process lives.
type reaper struct {
	reaping sync.WaitGroup
	mu      sync.Mutex                      // guards ends
	ends    map[lifecycle.Ref]chan struct{} // of those that live; closed when they end
}

// reap waits for a child, and tells who waits for the end of its attempt.
func (p *reaper) reap(r lifecycle.Ref, wait func()) {
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

// Ended implements [run.Ender].
func (p *reaper) Ended(r lifecycle.Ref) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends[r]
}
