// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"time"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// A registry that dies, or runs out of space, while it writes a tag may list the tag
// from then on and answer 404 to its GET: an abandoned claim. Its PUT was never
// acknowledged, so no client won a lock by such a claim, and none will release it. A
// claim that is just being written or deleted looks the same for a short time, and a
// claim in a registry that lost data for longer. So an abandoned claim is ended only
// after it was observed for a while, and then like any lock that is taken over: with a
// forced tombstone, a jump and a seal, which fence its owner if there is one after all.
const (
	AbandonedAnswers = 3
	abandonedTime    = time.Minute
)

// Observation is a live claim that blocked this process, and for how long it has been
// unchanged.
type Observation struct {
	claim     ClaimID
	Heartbeat string // digest of its manifest; "": its GET answered 404
	Answers   int
	since     time.Time // by our own clock, which does not jump
	seen      time.Time
	first     time.Time // by the registry's clock; zero if it sends none
	last      time.Time
}

// Again notes one more observation of a claim. For an unreadable claim the observation
// restarts if the registry's clock runs backwards, appears or vanishes. For a readable
// one it restarts after a pause longer than the interval of heartbeats: during such a
// pause the registry may have answered no client, not even the holder.
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

// Abandoned reports whether an unreadable claim was observed often and long enough: by
// our own clock, and by that of the registry if it sends one.
func (g Observation) Abandoned() bool {
	often := g.Answers >= AbandonedAnswers
	longByUs := g.seen.Sub(g.since) >= abandonedTime
	longByRegistry := g.first.IsZero() || g.last.Sub(g.first) >= abandonedTime
	return g.Heartbeat == "" && often && longByUs && longByRegistry
}

// Expired reports whether the observed claim l may be taken over because its lease has
// expired: by the registry's clock, which must agree with ours, and after the same
// heartbeat was observed for two thirds of the lease by a clock that does not jump. The
// Date may be hours wrong or come from another node; new heartbeats show a live holder.
func (g Observation) Expired(l format.LockManifest, clock time.Time) bool {
	date := g.last
	if date.IsZero() || l.Heartbeat.IsZero() || l.TTL <= 0 || clock.Sub(date).Abs() > maxSkew {
		return false
	}
	seen := g.seen.Sub(g.since) >= l.TTL*2/3
	return date.Sub(l.Heartbeat) > l.TTL+leaseGrace && seen
}

const (
	// leaseGrace is added to a lease before it counts as expired: the Date header
	// has whole seconds, and heartbeats take time to arrive.
	leaseGrace = 30 * time.Second
	// HeartbeatsPerLease is how often a claim is renewed within its lease.
	HeartbeatsPerLease = 3
	// maxSkew is how far our clock and the registry's may be apart for a decision about
	// the lease of another client.
	maxSkew = 5 * time.Minute
)

// Overdue are claims that may be ended without a command, and why: their lease
// has expired, or they were never acknowledged.
type Overdue map[ClaimID]format.LockReason
