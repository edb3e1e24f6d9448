// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// This file copies the head after another holder was overtaken, or ended by force.

// Sealer copies the head after a lock was ended by force, as the next holder would: it takes the
// lock under an id of its own and releases it. Then no late write can become the current state.
type Sealer struct {
	LockID string // not known to anybody else
	Floor  int64  // the first number that the holder cannot write
	Base   uint32
	Can    Abilities
	Err    error // the head may not be copied

	snapshot bool // a list is the state at one instant
	phase    sealerPhase
	rounds   uint32
	acq      Acquirer
	rel      releaser
}

type sealerPhase uint8

const (
	sealerStart sealerPhase = iota
	sealerLocks
	sealerPoints
	sealerReleases
	sealerEnd
)

// Next takes the reply to the last request and returns the next. After OpDone, Err and Can are set.
func (s *Sealer) Next(r Reply) Request {
	switch s.phase {
	case sealerStart:
		s.phase = sealerLocks
		s.acq = Acquirer{LockID: s.LockID, Base: s.Base + s.rounds<<4, Patience: MaxAnew, Can: s.Can, snapshot: s.snapshot}
		return s.lock(Reply{})
	case sealerLocks:
		return s.lock(r)
	case sealerPoints: // best effort
		return s.release(Reply{})
	case sealerReleases:
		return s.release(r)
	}
	return Request{Op: OpDone}
}

// lock takes the lock. Another client that has it copies the head or withdraws: then it retries.
func (s *Sealer) lock(r Reply) Request {
	req := s.acq.Next(r)
	if req.Op != OpDone {
		return req
	}
	s.Can = s.acq.Can
	res := s.acq.Result
	sealed := s.acq.last.Newest >= s.Floor || res.Sealed
	switch {
	case res.Won:
		h := s.acq.Hold()
		s.rel = *h.Release()
		s.rel.Can = s.Can
		if !res.Sealed {
			return s.release(Reply{})
		}
		s.phase = sealerPoints
		return Request{Op: OpPutPointer, N: res.newest}
	case !sealed && res.Held && s.rounds < maxRounds:
		s.rounds++
		s.phase = sealerStart
		return Request{Op: OpWait, Wait: Pause{100 * time.Millisecond, time.Second}}
	case !sealed && res.Held:
		s.Err = errContended
	case !sealed:
		s.Err = res.Err
	}
	s.phase = sealerEnd
	return Request{Op: OpDone}
}

func (s *Sealer) release(r Reply) Request {
	s.phase = sealerReleases
	req := s.rel.Next(r)
	if req.Op == OpDone {
		s.phase = sealerEnd
		s.Can = s.rel.Can
		s.Err = s.rel.Err
	}
	return req
}

// copyHead copies the head, so that no late write of an overtaken holder can become the head.
func (a *Acquirer) copyHead() Request {
	a.phase = phaseSeal
	return Request{Op: OpPutSeal, Claim: a.Claim, N: a.contestIn(a.last).sealNumber(), Head: a.last.Newest}
}

func (a *Acquirer) afterSeal(r Reply) Request {
	if r.Status == StatusDone {
		return a.listForPhase(phaseSealed)
	}
	if a.repeats++; r.MayPass() && a.repeats < maxRepeats {
		return a.copyHead()
	}
	return a.endClaim(releaser{forced: a.contestIn(a.last).sealNumber() == a.Claim.Fence}, afterEnd, Acquired{Err: r.Err})
}

// sealListed verifies that the seal counts, as saver does for a version.
func (a *Acquirer) sealListed(r Reply) Request {
	n := a.contestIn(a.last).sealNumber()
	first := n == a.Claim.Fence // else an older claim of the id may have written above the seal
	switch {
	case r.Status != StatusDone:
		return a.endClaim(releaser{forced: first}, afterEnd, Acquired{Err: r.Err})
	case r.Snapshot.Ended[a.Claim] != 0 || r.Snapshot.Newest > a.Claim.Fence:
		return a.endAcquire(Acquired{Err: errOvertaken})
	case r.Snapshot.Newest < n:
		return a.endClaim(releaser{forced: first}, afterEnd, Acquired{Err: errStaleList})
	}
	a.Result = Acquired{Won: true, newest: r.Snapshot.Newest, next: max(n+1, a.Claim.Fence), Sealed: first, joined: a.Result.joined, beside: a.Result.beside || len(a.contestIn(r.Snapshot).siblingClaims()) > 0}
	a.phase = phaseMark
	return Request{Op: OpPutMarker, Claim: a.Claim}
}

// sealNumber is the number of a copy of the head, above all that overtaken holders may write: our
// first. Beside an older claim of our id, by which the client may write while we copy, it is the
// one below the floor, which overtaken holders leave free, see [reach]. If another claim was
// overtaken after the older one had been made, no number is between both.
func (s contest) sealNumber() int64 {
	if c := s.oldestSibling(); c != (ClaimID{}) && c.Fence >= s.Floor() {
		return s.Floor() - 1
	}
	return s.own.Fence
}
