// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/seed-141914ff/okara/internal/lease"
	"github.com/seed-141914ff/okara/statebackend"
)

// workspaceRef identifies a workspace of a repository.
type workspaceRef struct{ repository, workspace string }

// held is a lock that this process holds.
type held struct {
	lock    *statebackend.Lock
	written atomic.Bool // a state was written under it, so the replicas are outdated
	end     func()      // stops the watch of the lease
}

// locks holds the locks of this process. The process ends with the tool that started it,
// but not in the middle of a write.
type locks struct {
	tool    *os.Process // the parent, nil if unknown
	writing sync.RWMutex

	mu   sync.Mutex // guards held
	held map[workspaceRef]*held
}

func newLocks() *locks {
	l := &locks{held: map[workspaceRef]*held{}}
	if tool, err := os.FindProcess(os.Getppid()); err == nil {
		l.tool = tool
		go l.endWith(tool)
	}
	return l
}

// endWith ends this process when its tool is gone. Otherwise a killed tool would leave a
// process that keeps renewing the lease of the lock. A write in progress is finished,
// since the last state of a killed tool is worth keeping.
func (l *locks) endWith(tool *os.Process) {
	waitForParent(tool)
	l.writing.Lock()
	os.Exit(1)
}

// guardWrite calls do, and keeps this process from ending by itself meanwhile.
func (l *locks) guardWrite(do func() error) error {
	l.writing.RLock()
	defer l.writing.RUnlock()
	return do()
}

// keep stores a lock, and from now on stops the tool before its lease expires.
func (l *locks) keep(p workspaceRef, lock *statebackend.Lock, failed func(error)) {
	h := &held{lock: lock, end: func() {}}
	if _, ttl := lock.Lease(); ttl > 0 && l.tool != nil {
		h.end = lease.Guard(l.tool, lock.Lease, failed)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[p] = h
}

// lockOf returns the lock of a workspace, or nil without one.
func (l *locks) lockOf(p workspaceRef) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[p]
}

// forget removes a lock that was released.
func (l *locks) forget(p workspaceRef, h *held) {
	h.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, p)
}
