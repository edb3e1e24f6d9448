// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"bytes"
	"sync"
)

// Audit is an audit log in memory.
type Audit struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (a *Audit) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.buf.Write(p)
}

func (a *Audit) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.buf.String()
}
