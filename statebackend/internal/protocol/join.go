// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// This file is the part of an acquirer for a client that requests or holds a lock
// through several processes.

// join looks for the claim by which the client won: the oldest live one of its id that
// did not join another. It stays live until the client ends the lock.
func (a *Acquirer) join(ours []ClaimID) Request {
	if len(ours) == 0 {
		return a.end(Acquired{Ended: true})
	}
	a.phase = phaseRoot
	a.Root = ours[0]
	return Request{Op: OpReadClaim, Claim: a.Root}
}

// readRoot continues if that claim is found. If there is none, the live claims joined a
// lock that has ended since, and their processes have not noticed yet, or died.
func (a *Acquirer) readRoot(r Reply) Request {
	switch {
	case r.Status == StatusMissing: // ended since the list, or being written
		return a.anew(Acquired{Err: r.Err}, 0)
	case r.Status != StatusDone:
		return a.end(Acquired{Err: r.Err})
	case r.Joined:
		ours := a.in(a.last).siblings()
		return a.join(ours[slices.Index(ours, a.Root)+1:])
	}
	return a.makeClaim()
}

// readEnd reads one after the other why claims of our id ended that the root does not
// know of; r is the last answer. If one of them was ended by another client, the client
// no longer holds, and the root is a claim that arrived late: a request of a process that
// died before it had won.
func (a *Acquirer) readEnd(r Reply) Request {
	switch {
	case r.Status != StatusDone:
		return a.endClaim(releaser{}, afterAnew, Acquired{Err: r.Err})
	case r.Reason == format.ReasonForced || r.Reason == format.ReasonExpired:
		return a.endClaim(releaser{}, afterEnd, Acquired{Ended: true})
	case len(a.ends) == 0:
		return a.alone()
	}
	next := a.ends[0]
	a.ends = a.ends[1:]
	a.phase = phaseEnds
	return Request{Op: OpReadTombstone, Claim: next}
}

// refuse ends the other claims of our id. An earlier request, whose answer the client
// did not get, left them; now the client gets a refusal.
func (a *Acquirer) refuse() Request {
	a.doomed = a.in(a.last).siblings()
	return a.overtake()
}
