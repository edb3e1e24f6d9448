// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
)

// What an acquirer does where a client asks for, or holds, a lock through several
// processes.

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

// readRoot goes on if that claim is found. Without one, what is live joined a lock that
// has ended since, and whoever made it has not noticed yet, or died.
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

// refuse ends the other claims of our id, which an earlier request left whose answer
// its client did not get: now the client gets a refusal.
func (a *Acquirer) refuse() Request {
	a.doomed = a.in(a.last).siblings()
	return a.overtake()
}
