// SPDX-License-Identifier: Apache-2.0

package protocol

// This file is the part of an acquirer that copies the head after another holder was
// overtaken.

// seal copies the head, so that no late write of an overtaken holder can become the head.
func (a *Acquirer) seal() Request {
	a.phase = phaseSeal
	return Request{Op: OpPutSeal, Claim: a.Claim, N: a.in(a.last).sealNumber(), Head: a.last.Newest}
}

func (a *Acquirer) sealed(r Reply) Request {
	if r.Status == StatusDone {
		return a.list(phaseSealed)
	}
	if a.repeats++; r.MayPass() && a.repeats < maxRepeats {
		return a.seal()
	}
	return a.endClaim(releaser{forced: a.in(a.last).sealNumber() == a.Claim.Fence}, afterEnd, Acquired{Err: r.Err})
}

// sealListed verifies that the seal counts, as saver does for a version.
func (a *Acquirer) sealListed(r Reply) Request {
	n := a.in(a.last).sealNumber()
	first := n == a.Claim.Fence // else an older claim of the id may have written above the seal
	switch {
	case r.Status != StatusDone:
		return a.endClaim(releaser{forced: first}, afterEnd, Acquired{Err: r.Err})
	case r.Snapshot.Ended[a.Claim] != 0 || r.Snapshot.Newest > a.Claim.Fence:
		return a.end(Acquired{Err: errOvertaken})
	case r.Snapshot.Newest < n:
		return a.endClaim(releaser{forced: first}, afterEnd, Acquired{Err: errStaleList})
	}
	a.Result = Acquired{Won: true, newest: r.Snapshot.Newest, next: max(n+1, a.Claim.Fence), Sealed: first, joined: a.Result.joined}
	a.phase = phaseMark
	return Request{Op: OpPutMarker, Claim: a.Claim}
}

// sealNumber is the number of a copy of the head, above all that overtaken holders may
// write. It is our first one. Beside an older claim of our id, by which the client may hold
// and write while we copy, it is below all that this one may write: overtaken holders leave
// the number below the floor free, see [reach]. If another claim was overtaken after the
// older one had been made, no number is between both.
func (s contest) sealNumber() int64 {
	if c := s.oldest(); c != (ClaimID{}) && c.Fence >= s.floor() {
		return s.floor() - 1
	}
	return s.own.Fence
}
