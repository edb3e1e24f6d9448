// SPDX-License-Identifier: Apache-2.0

package statebackend

import "sync"

// memo keeps what was read under tags that are written once: records, and what
// manifests say of versions. What is kept is shared and not to be changed.
type memo struct {
	mu   sync.Mutex // guards the fields below
	kept map[string]remembered
	size int // about, in bytes
}

type remembered struct {
	value any // *Record or Head
	size  int
}

const (
	// maxMemo bounds a memo, in bytes: 30,000 workspaces, or 2,000 with the largest
	// records.
	maxMemo = 32 << 20
	// headSize is about what a Head takes, and what anything takes beside its own.
	headSize = 512
)

// keep remembers a value; where there is no room, others are forgotten.
func (m *memo) keep(tag string, value any, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size += headSize + len(tag)
	m.size += size - m.kept[tag].size
	m.kept[tag] = remembered{value, size}
	for other, r := range m.kept { // in any order
		if m.size <= maxMemo {
			return
		}
		if other != tag {
			m.size -= r.size
			delete(m.kept, other)
		}
	}
}

// recall returns what was kept under a tag as a T.
func recall[T any](m *memo, tag string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.kept[tag].value.(T)
	return value, ok
}
