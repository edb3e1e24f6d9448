// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"slices"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// What an acquirer does where a client asks for, or holds, a lock through several
// processes.

// ours tells whether a claim is of our id.
func (a *acquirer) ours(c claimID) bool { return format.ClaimOf(c.x, a.lockID) }

// siblings are the live claims of our id beside the current one, oldest first.
func (a *acquirer) siblings(v view) []claimID {
	return slices.DeleteFunc(v.live(), func(c claimID) bool { return c == a.claim || !a.ours(c) })
}

// join looks for the claim by which the client won: the oldest live one of its id that
// did not join another. It stays live until the client ends the lock.
func (a *acquirer) join(ours []claimID) request {
	if len(ours) == 0 {
		return a.end(acquired{ended: true})
	}
	a.phase, a.root = phaseRoot, ours[0]
	return request{op: opReadClaim, claim: a.root}
}

// readRoot goes on if that claim is found. Without one, what is live joined a lock that
// has ended since, and whoever made it has not noticed yet, or died.
func (a *acquirer) readRoot(r reply) request {
	switch {
	case r.status == statusMissing: // ended since the list, or being written
		return a.anew(acquired{err: r.err}, 0)
	case r.status != statusDone:
		return a.end(acquired{err: r.err})
	case r.joined:
		ours := a.siblings(a.seen)
		return a.join(ours[slices.Index(ours, a.root)+1:])
	}
	return a.makeClaim()
}

// refuse ends the other claims of our id, which an earlier request left whose answer
// its client did not get: now the client is told no.
func (a *acquirer) refuse() request {
	a.doomed = a.siblings(a.seen)
	return a.overtake()
}
