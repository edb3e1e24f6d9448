// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"github.com/seed-141914ff/okara/statebackend"
)

const (
	// maxApart is the largest difference of two clocks at which instances still expire.
	maxApart = 5 * time.Minute
	// maxAway is how long the built-in registry may be down before expiry is held.
	maxAway = 7 * 24 * time.Hour
	// noise bounds the error from a Date in whole seconds and from the network delay.
	noise = 2 * time.Second
	// slide is the age at which a heartbeat replaces the reference: slow drift is no jump.
	slide = time.Hour
)

// Reasons for which expiry is held. The texts are stable, since each change is a commit.
const (
	heldApart = "the clocks of the registry and of this server are more than 5 minutes apart"
	heldJump  = "the clock of the registry jumped by more than 5 minutes"
	heldAway  = "the server was away for more than 7 days, by its own clock"
	heldAhead = "the last commit is more than 5 minutes ahead of the clock of the registry"
)

// clock is the time of a leader: the registry's. While it is not trusted, it continues by uptime
// from the last trusted one, and expiry is held. The ledger's lock guards it.
type clock struct {
	local  func() time.Time
	uptime func() time.Duration

	last   statebackend.Heartbeat
	base   statebackend.Heartbeat // reference for jumps
	floor  time.Time              // the last time returned
	apart  time.Duration          // difference of the clocks that an admin has confirmed
	latch  string                 // held until an admin confirms the clock; "": not
	reason string                 // why expiry is held
	anchor time.Time              // the time when the hold began,
	since  time.Duration          // and the uptime at that time
}

// newClock starts a clock at the first heartbeat. committed and heartbeat are the last ones known,
// by the ledger's clock; zero: none. held is why the previous leader held it.
func newClock(o *Options, first statebackend.Heartbeat, committed, heartbeat time.Time, held string) *clock {
	c := &clock{local: o.Now, uptime: o.Uptime, floor: committed, base: first}
	if heartbeat.Before(committed) {
		heartbeat = committed
	}
	if o.BuiltIn {
		switch {
		case !heartbeat.IsZero() && first.Date.Sub(heartbeat) > maxAway:
			c.latch = heldAway
		case held != "":
			c.latch = held // this replica cannot tell whether the reason is gone
		}
	}
	c.observe(first)
	return c
}

func (c *clock) observe(b statebackend.Heartbeat) {
	if b == c.last {
		return
	}
	first := c.last == statebackend.Heartbeat{}
	before := c.clockTime()
	c.last = b
	diff := b.Date.Sub(b.Now.Round(0)) // by the wall clock
	if diff.Abs() <= maxApart {
		c.apart = 0
	}
	jump := b.Date.Sub(c.base.Date) - (b.Uptime - c.base.Uptime)
	reason := ""
	switch {
	case c.latch != "":
		reason = c.latch
	case (diff - c.apart).Abs() > maxApart:
		reason = heldApart
	case jump.Abs() > maxApart:
		reason = heldJump
	case c.floor.Sub(b.Date) > maxApart:
		reason = heldAhead
	case b.Uptime-c.base.Uptime > slide:
		c.base = b
	}
	if reason != "" && c.reason == "" {
		c.anchor = before
		c.since = b.Uptime
		if first {
			c.anchor = b.Date // the best guess; what expires waits anyway
			if now := b.Now.Round(0); reason == heldApart && now.Before(b.Date) {
				c.anchor = now
			}
		}
	}
	c.reason = reason
}

// acceptClock returns the clock that an admin confirmed, though the last commit was ahead of it.
func (c *clock) acceptClock() *clock {
	a := *c
	a.latch = ""
	a.reason = ""
	a.floor = time.Time{}
	a.apart = a.last.Date.Sub(a.last.Now.Round(0))
	a.base = a.last
	return &a
}

// clockTime returns the time, which never goes back.
func (c *clock) clockTime() time.Time {
	t := c.floor
	switch {
	case c.last == (statebackend.Heartbeat{}):
	case c.reason != "":
		t = c.anchor.Add(c.uptime() - c.since)
	default:
		t = c.last.Date
		if d := c.last.Now.Round(0).Sub(t); d > -noise && d < noise {
			t = c.last.Now.Round(0)
		}
		t = t.Add(c.uptime() - c.last.Uptime)
	}
	if t.Before(c.floor) {
		t = c.floor
	}
	c.floor = t
	return t.UTC()
}
