// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/seed-141914ff/okara/internal/lease"
	"github.com/seed-141914ff/okara/statebackend"
)

// workspaceRef is one workspace of one repository.
type workspaceRef struct{ repository, workspace string }

// held is a lock of this process.
type held struct {
	lock    *statebackend.Lock
	written atomic.Bool // a state was written under it, so the replicas are behind
	end     func()      // ends what watches the lease
}

// locks are those that this process holds. It ends with its tool, which started it,
// but not in the middle of a write.
type locks struct {
	tool    *os.Process // the parent, nil where it is not known
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

// endWith ends this process when its tool is gone. Without that a killed tool would
// leave a process that keeps the lease of the lock alive. A write that was begun is
// finished: the last state of a killed tool is worth keeping.
func (l *locks) endWith(tool *os.Process) {
	waitForParent(tool)
	l.writing.Lock()
	os.Exit(1)
}

// write runs do, in which this process does not end by itself.
func (l *locks) write(do func() error) error {
	l.writing.RLock()
	defer l.writing.RUnlock()
	return do()
}

// keep remembers a lock, and from now on stops the tool before its lease ends.
func (l *locks) keep(p workspaceRef, lock *statebackend.Lock, failed func(error)) {
	h := &held{lock: lock, end: func() {}}
	if _, ttl := lock.Lease(); ttl > 0 && l.tool != nil {
		h.end = lease.Guard(l.tool, lock.Lease, failed)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[p] = h
}

// of returns the lock of a place, nil without one.
func (l *locks) of(p workspaceRef) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[p]
}

// forget is for a lock that was released.
func (l *locks) forget(p workspaceRef, h *held) {
	h.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, p)
}
