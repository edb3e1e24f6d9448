// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"net/http"
	"sync"
)

// maxUploads bounds the uploads of one subject that run at once.
const maxUploads = 4

// memory bounds what the states that are being taken in hold of memory, all of
// them together and those of each subject. Nobody waits for it: a slow upload may
// take hours, and the tools come again by themselves when they are told to.
//
// A subject has at most half of it, or one upload that needs more: so whoever sends
// large states a byte a second leaves room for everybody else.
type memory struct {
	size int64

	mu   sync.Mutex // guards the fields below
	used int64
	by   map[string]*share
}

// share is what one subject has of a memory.
type share struct {
	uploads int
	used    int64
}

func newMemory(size int64) *memory { return &memory{size: size, by: map[string]*share{}} }

// take takes room for n bytes, at most all there is, until release is called. It is
// refused where there is none.
func (m *memory) take(subject string, n int64) (release func(), err error) {
	n = min(n, m.size)
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.by[subject]
	if own == nil {
		own = &share{}
	}
	if own.uploads >= maxUploads || own.uploads > 0 && own.used+n > m.size/2 || m.used+n > m.size {
		return nil, refuse(http.StatusServiceUnavailable, "service unavailable", "too much is being uploaded; try again in a moment")
	}
	own.uploads++
	own.used += n
	m.used += n
	m.by[subject] = own
	return sync.OnceFunc(func() { m.give(subject, n) }), nil
}

func (m *memory) give(subject string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.by[subject]
	own.uploads--
	own.used -= n
	m.used -= n
	if own.uploads == 0 {
		delete(m.by, subject)
	}
}
