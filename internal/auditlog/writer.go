// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"io"
	"sync"
)

// maxPending bounds the bytes that a [Writer] holds.
const maxPending = 1 << 20

// Writer collects concurrent writes, which go out in order while requests go on; these wait only
// beyond maxPending. Nothing is dropped.
type Writer struct {
	to     io.Writer
	failed func(error)
	ended  chan struct{}

	mu      sync.Mutex // guards the fields below
	changed sync.Cond
	pending []byte
	closed  bool
}

// NewWriter returns a writer and starts it. failed is called for each write that fails.
func NewWriter(to io.Writer, failed func(error)) *Writer {
	l := &Writer{to: to, failed: failed, ended: make(chan struct{})}
	l.changed.L = &l.mu
	go l.run()
	return l
}

// Write copies p, which is written soon.
func (l *Writer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) > maxPending && !l.closed {
		l.changed.Wait()
	}
	if l.closed {
		return 0, io.ErrClosedPipe
	}
	l.pending = append(l.pending, p...)
	l.changed.Broadcast()
	return len(p), nil
}

func (l *Writer) run() {
	defer close(l.ended)
	var out []byte
	for {
		l.mu.Lock()
		for len(l.pending) == 0 && !l.closed {
			l.changed.Wait()
		}
		out, l.pending = l.pending, out[:0]
		l.changed.Broadcast()
		l.mu.Unlock()
		if len(out) == 0 {
			return
		}
		if _, err := l.to.Write(out); err != nil {
			l.failed(err)
		}
	}
}

// Close waits until everything is written.
func (l *Writer) Close() error {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	<-l.ended
	return nil
}
