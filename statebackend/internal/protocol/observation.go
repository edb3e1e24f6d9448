// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"time"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// A registry that dies, or runs out of space, while it writes a tag may list
// the tag ever after and answer 404 to its GET: an abandoned claim. Its PUT was never
// acknowledged, so nobody won a lock by such a claim, and nobody will release
// it. What looks the same for a moment is a claim that is just being written or
// deleted, and what looks the same for longer is a registry that lost data. So
// an abandoned claim is ended only after it was seen for a while, and then like any lock
// that is taken over: with a forced tombstone, a jump and a seal, which fence
// its owner should there be one after all.
const (
	AbandonedAnswers = 3
	abandonedTime    = time.Minute
)

// Observation is a live claim that stood in the way of this process, and for how
// long it has looked the same.
type Observation struct {
	claim     ClaimID
	Heartbeat string // digest of its manifest; "": its GET answered 404
	Answers   int
	since     time.Time // by our clock, which does not jump
	seen      time.Time
	first     time.Time // by the registry's clock; zero where it has none
	last      time.Time
}

// Again notes one more look at a claim. A 404 begins anew where the clock of the
// registry runs backwards, appears or vanishes. What can be read begins anew
// after a pause that is longer than the one between two heartbeats: in it the
// registry may have answered nobody, its holder included.
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

// Abandoned reports whether an unreadable claim was seen often and long enough: by our
// own clock, and by that of the registry where it has one.
func (g Observation) Abandoned() bool {
	often := g.Answers >= AbandonedAnswers
	longByUs := g.seen.Sub(g.since) >= abandonedTime
	longByRegistry := g.first.IsZero() || g.last.Sub(g.first) >= abandonedTime
	return g.Heartbeat == "" && often && longByUs && longByRegistry
}

// Expired reports whether the lease of the claim l, which was seen, may be taken
// over: it is over by the registry's clock, which agrees with ours, and the same
// heartbeat was seen for two thirds of it by a clock that does not jump. The Date of a
// registry may be hours wrong, or another node's; a holder that sends heartbeats shows.
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
	// has whole seconds, and heartbeats take their time.
	leaseGrace = 30 * time.Second
	// beatsPerLease is how often a claim is renewed within its lease.
	HeartbeatsPerLease = 3
	// maxSkew is how far our clock and the registry's may be apart where an age
	// decides about somebody else's lock.
	maxSkew = 5 * time.Minute
)
