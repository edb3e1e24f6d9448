// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
)

// This file is the part of an acquirer for a client with several processes.

// join looks for the claim by which the client won, which stays live until the client ends the
// lock: the oldest live one of its id, after the one tried last, that did not join another.
func (a *Acquirer) join() Request {
	ours := slices.DeleteFunc(a.contestIn(a.last).siblingClaims(), func(c ClaimID) bool { return CompareClaims(c, a.Root) <= 0 })
	switch {
	case len(ours) > 0:
	case a.unread != nil:
		return a.startAnew(Acquired{Err: a.unread}, 0)
	case len(a.others) > 0:
		return a.endAcquire(Acquired{Held: true, By: a.others[0]})
	default:
		return a.endAcquire(Acquired{Ended: true})
	}
	a.phase = phaseRoot
	a.Root = ours[0]
	return Request{Op: OpReadClaim, Claim: a.Root}
}

// readRoot continues if that claim is found. If there is none, the live claims joined a lock that
// has ended, and their processes do not know yet, or died. A claim that cannot be read has ended
// since, is being written, or was never acknowledged: another may be the one.
func (a *Acquirer) readRoot(r Reply) Request {
	switch {
	case r.Status == StatusMissing:
		a.unread = r.Err
		return a.join()
	case r.Status != StatusDone:
		return a.endAcquire(Acquired{Err: r.Err})
	case r.Foreign:
		a.others = append(slices.Clip(a.others), a.Root)
		return a.join()
	case r.Joined:
		return a.join()
	}
	a.live = r.Beside
	return a.makeClaim()
}

// readEnd reads why claims of our id ended that the root does not know of; r is the last answer. If
// another client ended one, the root is a late request of a process that died before it won: only a
// younger claim may hold. A tombstone that cannot be read counts as another client's.
func (a *Acquirer) readEnd(r Reply) Request {
	switch {
	case r.Status != StatusDone && r.Status != StatusMissing:
		return a.endClaim(releaser{}, afterAnew, Acquired{Err: r.Err})
	case r.Status == StatusMissing || r.Reason.IsTakeover():
		return a.endClaim(releaser{}, afterRoot, Acquired{})
	case len(a.ends) == 0:
		return a.decideAlone()
	}
	next := a.ends[0]
	a.ends = a.ends[1:]
	a.phase = phaseEnds
	return Request{Op: OpReadTombstone, Claim: next}
}

// refuseSiblings ends the other claims of our id: left by a request whose answer the client did not
// get, before the refusal that it gets now.
func (a *Acquirer) refuseSiblings() Request {
	a.doomed = a.contestIn(a.last).siblingClaims()
	return a.overtakeDoomed()
}
