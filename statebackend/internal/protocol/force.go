// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"cmp"
	"slices"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// Forcer ends all claims of a lock id. It never deletes: without a claim of a holder that still
// runs, the next holder would not know to skip numbers.
type Forcer struct {
	LockID string
	Owned  bool  // end them only for their owner
	Sealed int64 // claims below this number end cleanly, since a write above them is known

	phase   forcePhase
	last    Snapshot
	known   []ClaimID // of the owner
	others  []ClaimID // of another owner
	asked   ClaimID   // whose owner is being read
	doomed  []ClaimID
	over    []ClaimID         // claims that have their tombstone
	reason  format.LockReason // "": forced
	rounds  int
	waits   int
	repeats int
	marked  bool // locked-W must be set to unlocked
	Result  forced
}

type forced struct {
	Ended   bool
	Floor   int64     // the first number that no claim ended here can write; 0: none may write any more
	Held    []ClaimID // live claims of other ids
	Foreign ClaimID   // the lock has another owner, by this claim; zero: it has not
	Asked   bool      // the marker is an older tool's lock
	Err     error
}

type forcePhase uint8

const (
	forceStart forcePhase = iota
	forceListed
	forceOwner
	forceRead
	forceEnding
	forceMarker
	forceMarked
	forceWaited
	forceEnd
)

// maxRounds bounds how often a forcer finds claims that were made after its last list.
const maxRounds = 10

// Next takes the reply to the last request and returns the next. After OpDone, Result is set.
func (f *Forcer) Next(r Reply) Request {
	switch f.phase {
	case forceStart, forceWaited:
		return f.listClaims()
	case forceListed:
		return f.afterForceList(r)
	case forceOwner:
		return f.readOwner(r)
	case forceRead:
		return f.afterClaimRead(r)
	case forceEnding:
		return f.afterEnding(r)
	case forceMarker:
		f.Result.Asked = r.Status == StatusDone && r.Owner == OwnerForeign
	}
	return f.endForce()
}

func (f *Forcer) endForce() Request {
	f.phase = forceEnd
	return Request{Op: OpDone}
}

func (f *Forcer) listClaims() Request {
	f.phase = forceListed
	return Request{Op: OpList}
}

// afterForceList ends claims of the id until a list shows none. A process that joined saw an older
// claim live after it had made its own: a list with the end of the older shows the newer, too.
func (f *Forcer) afterForceList(r Reply) Request {
	if r.Status != StatusDone {
		f.Result.Err = r.Err
		return f.endForce()
	}
	f.last = r.Snapshot
	return f.chooseDoomed()
}

// chooseDoomed ends the claims of the id and, if it has to be theirs, of the owner.
func (f *Forcer) chooseDoomed() Request {
	f.doomed = nil
	f.Result.Held = nil
	stale := false
	for _, c := range f.last.Live() {
		switch ours := format.ClaimOf(c.X, f.LockID) || c.X == f.LockID; { // LockID may be an x, for a claim that cannot be read
		case ours && slices.Contains(f.over, c):
			stale = true
		case ours && f.Owned && !slices.Contains(f.known, c) && !slices.Contains(f.others, c):
			f.phase = forceOwner
			f.asked = c
			return Request{Op: OpReadOwner, Claim: c}
		case ours && !slices.Contains(f.others, c):
			f.doomed = append(f.doomed, c)
		default:
			f.Result.Held = append(f.Result.Held, c)
		}
	}
	f.marked = f.last.Marker
	switch {
	case len(f.doomed) > 0:
		return f.endAll()
	case stale:
		return f.wait()
	case f.Result.Ended && f.marked && len(f.Result.Held) == 0:
		f.phase = forceMarked
		return Request{Op: OpPutUnlocked}
	case !f.Result.Ended && len(f.others) > 0:
		f.Result.Foreign = f.others[0]
	case f.marked && !f.Result.Ended:
		f.phase = forceMarker
		return Request{Op: OpReadMarker}
	}
	return f.endForce()
}

func (f *Forcer) endAll() Request {
	if f.rounds++; f.rounds > maxRounds {
		f.Result.Err = ErrBeside
		return f.endForce()
	}
	return f.endNext()
}

// readOwner notes whose a claim is that looks like one of the owner.
func (f *Forcer) readOwner(r Reply) Request {
	switch {
	case r.Status != StatusDone && r.Status != StatusMissing:
		f.Result.Err = r.Err
		return f.endForce()
	case r.Foreign:
		f.others = append(slices.Clip(f.others), f.asked)
	default:
		f.known = append(slices.Clip(f.known), f.asked)
	}
	return f.chooseDoomed()
}

// wait pauses before the next list, since the last one does not show the tombstones yet.
func (f *Forcer) wait() Request {
	p, ok := backoff(f.waits)
	if !ok {
		f.Result.Err = errStaleList
		return f.endForce()
	}
	f.waits++
	f.phase = forceWaited
	return Request{Op: OpWait, Wait: p}
}

// afterClaimRead notes whether a claim that its x names can be read. If not, it was never
// acknowledged, and its end is not that of its client's lock.
func (f *Forcer) afterClaimRead(r Reply) Request {
	f.reason = format.ReasonForced
	if r.Status == StatusMissing {
		f.reason = format.ReasonAbandoned
	}
	return f.endNext()
}

func (f *Forcer) endNext() Request {
	f.phase = forceEnding
	c := f.doomed[0]
	switch {
	case c.X == f.LockID && f.reason == "":
		f.phase = forceRead
		return Request{Op: OpReadClaim, Claim: c}
	case c.Fence < f.Sealed:
		return Request{Op: OpPutTombstone, Claim: c, Reason: format.ReasonReleased}
	}
	return Request{Op: OpPutTombstone, Claim: c, Forced: true, Reason: cmp.Or(f.reason, format.ReasonForced)}
}

func (f *Forcer) afterEnding(r Reply) Request {
	if r.Status != StatusDone {
		if f.repeats++; f.repeats < maxRepeats {
			return f.endNext()
		}
		f.Result.Err = r.Err
		return f.endForce()
	}
	c := f.doomed[0]
	f.over = append(slices.Clip(f.over), c)
	if c.Fence >= f.Sealed {
		f.Result.Floor = max(f.Result.Floor, c.Fence+Jump)
	}
	f.doomed = f.doomed[1:]
	f.repeats = 0
	f.Result.Ended = true
	if len(f.doomed) > 0 {
		return f.endNext()
	}
	return f.listClaims()
}
