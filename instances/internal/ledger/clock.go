// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"github.com/seed-141914ff/okara/statebackend"
)

const (
	// maxApart is how far two clocks may be apart before nothing expires by them.
	maxApart = 5 * time.Minute
	// maxAway is how long the built-in registry, which has no other clock to
	// compare with, may be away before nothing expires by its own.
	maxAway = 7 * 24 * time.Hour
	// noise is what a Date in whole seconds and the way of an answer make up.
	noise = 2 * time.Second
	// slide is after how long the reference for jumps is a newer beat: clocks
	// drift, which is no jump.
	slide = time.Hour
)

// Why expiry is held. The texts are stable: a change is a commit.
const (
	heldApart = "the clocks of the registry and of this server are more than 5 minutes apart"
	heldJump  = "the clock of the registry jumped by more than 5 minutes"
	heldAway  = "the server was away for more than 7 days, by its own clock"
	heldAhead = "the last commit is more than 5 minutes ahead of the clock of the registry"
)

// clock is the time of a leader: that of the registry, which every replica has in
// common. Where it cannot be believed, time goes on from where it was when it
// could, and expiry is held. The owner's lock guards it.
type clock struct {
	local  func() time.Time
	uptime func() time.Duration

	last   statebackend.Heartbeat
	base   statebackend.Heartbeat // to which a jump is relative
	floor  time.Time              // what was told last
	apart  time.Duration          // between the clocks, as a person has confirmed it
	latch  string                 // held until a person confirms; "": not
	reason string                 // why expiry is held
	anchor time.Time              // the time when it began to be held,
	since  time.Duration          // and the uptime then
}

// newClock begins with the first beat of a lock. committed is the time of the last
// commit and beat of the last beat that anybody is known to have sent, both by
// the clock of the ledger; zero: there was none. held is why the last leader held.
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
			c.latch = held // nothing here can tell that it is over
		}
	}
	c.observe(first)
	return c
}

// observe judges the clocks at a beat.
func (c *clock) observe(b statebackend.Heartbeat) {
	if b == c.last {
		return
	}
	first := c.last == statebackend.Heartbeat{}
	before := c.now()
	c.last = b
	diff := b.Date.Sub(b.Now.Round(0)) // as the clock of the wall says
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
			c.anchor = b.Date // nothing better is known, and what expires waits
			if now := b.Now.Round(0); reason == heldApart && now.Before(b.Date) {
				c.anchor = now
			}
		}
	}
	c.reason = reason
}

// accepted is the clock once a person has said that it is right, even where the
// last commit was ahead of it.
func (c *clock) accepted() *clock {
	a := *c
	a.latch = ""
	a.reason = ""
	a.floor = time.Time{}
	a.apart = a.last.Date.Sub(a.last.Now.Round(0))
	a.base = a.last
	return &a
}

// now is the time, never behind what it was.
func (c *clock) now() time.Time {
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
