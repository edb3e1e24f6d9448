// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"time"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// A registry that dies, or runs out of space, while it writes a tag may list it and answer 404 to
// its GET: an abandoned claim. Its PUT was never acknowledged, so no client won by it, and none
// will release it. A claim just being written or deleted looks the same for a short time, one in a
// registry that lost data for longer. So it is ended only after a while, and like any lock that is
// taken over: a forced tombstone, a jump and a seal fence its owner if there is one after all.
const (
	AbandonedAnswers = 3
	abandonedTime    = time.Minute
)

// Observation is a live claim that blocked this process, and how long it has been unchanged.
type Observation struct {
	claim     ClaimID
	Heartbeat string // digest of its manifest; "": its GET answered 404
	Answers   int
	since     time.Time // by our own clock, which does not jump
	seen      time.Time
	first     time.Time // by the registry's clock; zero if it sends none
	last      time.Time
}

// Again notes one more observation. For an unreadable claim it restarts if the registry's clock
// runs backwards, appears or vanishes; for a readable one after a pause longer than the interval of
// heartbeats, in which the registry may have answered nobody, not even the holder.
func (g Observation) Again(c ClaimID, l format.LockManifest, now, date time.Time) Observation {
	heartbeat := l.Manifest.Digest.String()
	anew := g.claim != c || g.Heartbeat != heartbeat
	if heartbeat == "" {
		anew = anew || g.first.IsZero() != date.IsZero() || date.Before(g.last)
	} else {
		anew = anew || now.Sub(g.seen) > l.TTL/HeartbeatsPerLease
	}
	if anew {
		g = Observation{claim: c, Heartbeat: heartbeat, since: now, first: date}
	}
	g.Answers++
	g.seen = now
	g.last = date
	return g
}

// Abandoned reports whether a claim was unreadable often and long enough, by all known clocks.
func (g Observation) Abandoned() bool {
	often := g.Answers >= AbandonedAnswers
	longByUs := g.seen.Sub(g.since) >= abandonedTime
	longByRegistry := g.first.IsZero() || g.last.Sub(g.first) >= abandonedTime
	return g.Heartbeat == "" && often && longByUs && longByRegistry
}

// Expired reports whether claim l may be taken over since its lease has expired: by the registry's
// clock, which must agree with ours, and after the same heartbeat was seen for two thirds of the
// lease by a clock that does not jump. The Date may be wrong; new heartbeats show a live holder.
func (g Observation) Expired(l format.LockManifest, clock time.Time) bool {
	date := g.last
	if date.IsZero() || l.Heartbeat.IsZero() || l.TTL <= 0 || clock.Sub(date).Abs() > maxSkew {
		return false
	}
	seen := g.seen.Sub(g.since) >= l.TTL*2/3
	return date.Sub(l.Heartbeat) > l.TTL+leaseGrace && seen
}

const (
	// leaseGrace is added to a lease: the Date header has whole seconds, and heartbeats take time.
	leaseGrace = 30 * time.Second
	// HeartbeatsPerLease is how often a claim is renewed within its lease.
	HeartbeatsPerLease = 3
	// maxSkew is how far two clocks may differ for a decision about another client's lease.
	maxSkew = 5 * time.Minute
)

// Overdue are claims that may be ended without a command, and why: expired, or never acknowledged.
type Overdue map[ClaimID]format.LockReason
