// SPDX-License-Identifier: Apache-2.0

package site

import (
	"sync"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
)

const (
	coldPlaces = 8 // of a replica
	coldEach   = 2 // of one caller; all who bring no token are one
)

// Cold bounds the work on big input that nobody did before: archives, docs, states,
// comparisons. Who has no place is told to come again, rather than kept waiting with
// an open connection. The zero value is ready.
type Cold struct {
	mu    sync.Mutex // guards the fields below
	taken int
	by    map[string]int
}

// Do works if there is a place for the caller of a page.
func (c *Cold) Do(caller access.Caller, work func() error) error {
	who := caller.Mode + "\n" + caller.Issuer + "\n" + caller.Subject
	if !c.take(who) {
		return service.TooMany("large pages")
	}
	defer c.leave(who)
	return work()
}

func (c *Cold) take(who string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken >= coldPlaces || c.by[who] >= coldEach {
		return false
	}
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.taken++
	c.by[who]++
	return true
}

func (c *Cold) leave(who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken--
	if c.by[who]--; c.by[who] == 0 {
		delete(c.by, who)
	}
}
