// SPDX-License-Identifier: Apache-2.0

package site

import (
	"sync"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
)

const (
	maxRenders       = 8 // of one replica
	maxCallerRenders = 2 // of one caller; all callers without a token count as one
)

// RenderLimiter bounds the concurrent work on large input that is not cached: archives,
// docs, states, comparisons. A caller over the limit gets a 503 to try again, instead of
// waiting on an open connection. The zero value is ready.
type RenderLimiter struct {
	mu    sync.Mutex // guards the fields below
	taken int
	by    map[string]int
}

// Do calls render if the limiter has a place for the caller.
func (c *RenderLimiter) Do(caller access.Caller, render func() error) error {
	key := caller.Mode + "\n" + caller.Issuer + "\n" + caller.Subject
	if !c.acquire(key) {
		return service.TooMany("large pages")
	}
	defer c.release(key)
	return render()
}

func (c *RenderLimiter) acquire(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken >= maxRenders || c.by[key] >= maxCallerRenders {
		return false
	}
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.taken++
	c.by[key]++
	return true
}

func (c *RenderLimiter) release(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken--
	if c.by[key]--; c.by[key] == 0 {
		delete(c.by, key)
	}
}
