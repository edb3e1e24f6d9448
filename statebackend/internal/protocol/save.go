// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"time"

	"github.com/seed-141914ff/okara/oci"
)

// saver writes one version under a lock and verifies that it counts.
type saver struct {
	claim ClaimID
	n     int64 // its version number, used up when it is first sent

	phase    savePhase
	repeats  int
	repeated bool  // the pointer was sent twice
	judge    int64 // lost: the version whose parent is read
	final    bool  // lost: that version is the one that decided
	Result   Saved
}

// Saved is the result of a saver.
type Saved struct {
	Written   bool  // version n is in the registry
	Stored    bool  // acknowledged: every later holder sees the version
	Lost      bool  // the lock is gone
	Refused   bool  // lost, and version n never is the current state
	Next      int64 // lost: the version that was made from version n; 0: none known
	uncertain bool  // version n may still arrive
	Behind    bool  // stored, but the pointer could not be moved
	Err       error
}

type savePhase uint8

const (
	saveStart savePhase = iota
	saveWritten
	saveHeld
	saveListed
	saveWaited
	saveJudged
	savePointed
	saveLooked
	saveEnd
)

var ErrNumbersUsed = errors.New("this lock has used up its version numbers")

// Next takes the reply to the last request and returns the next. After OpDone, Result is set.
func (s *saver) Next(r Reply) Request {
	switch s.phase {
	case saveStart:
		return s.startSave()
	case saveWritten:
		return s.afterWrite(r)
	case saveHeld:
		return s.putVersion()
	case saveWaited:
		return s.listForSave()
	case saveListed:
		return s.afterSaveList(r)
	case saveJudged:
		return s.afterParent(r)
	case savePointed:
		return s.afterPoint(r)
	case saveLooked:
		return s.afterLook(r)
	}
	return Request{Op: OpDone}
}

func (s *saver) endSave() Request {
	s.phase = saveEnd
	return Request{Op: OpDone}
}

func (s *saver) startSave() Request {
	if s.n >= s.claim.Fence+reach {
		s.Result = Saved{Lost: true, Err: ErrNumbersUsed}
		return s.endSave()
	}
	return s.putVersion()
}

func (s *saver) putVersion() Request {
	s.phase = saveWritten
	return Request{Op: OpPutVersion, Claim: s.claim, N: s.n}
}

func (s *saver) afterWrite(r Reply) Request {
	switch r.Status {
	case StatusDone:
		s.Result = Saved{Written: true}
		s.repeats = 0
		return s.listForSave()
	case StatusUncertain:
		s.Result.uncertain = true
		if s.repeats++; s.repeats < maxRepeats {
			return s.putVersion() // the same bytes under the same number
		}
	default:
		if p, ok := backoff(s.repeats); ok && oci.Passing(r.Err) && r.After <= maxHeld {
			s.repeats++
			s.phase = saveHeld
			return Request{Op: OpWait, Wait: Pause{max(p.Min, r.After), max(p.Max, r.After)}}
		}
	}
	s.Result.Err = r.Err
	return s.endSave()
}

// maxHeld bounds the Retry-After of a registry for which a write waits and retries.
const maxHeld = 30 * time.Second

func (s *saver) listForSave() Request {
	s.phase = saveListed
	return Request{Op: OpList}
}

// afterSaveList decides whether the version counts: it must be listed as the newest, with our claim
// and without its tombstone. Other live claims cannot win while ours is listed.
func (s *saver) afterSaveList(r Reply) Request {
	v := r.Snapshot
	switch {
	case r.Status != StatusDone:
		s.Result.Err = r.Err
		return s.endSave()
	case v.Ended[s.claim] != 0, v.Newest > s.n:
		s.Result.Lost = true
		return s.findFate(v)
	case v.Newest == s.n && v.Has(s.claim):
		return s.movePointer()
	case v.Newest == s.n:
		s.Result.Lost = true // our claim was removed
		return s.endSave()
	}
	p, ok := backoff(s.repeats)
	if !ok {
		s.Result.uncertain = true
		s.Result.Err = errStaleList
		return s.endSave()
	}
	s.repeats++
	s.phase = saveWaited
	return Request{Op: OpWait, Wait: p}
}

// findFate finds out what became of a version written under a lost lock. Whoever continued decided
// that by the list after which it copied the head. So it lists until there is a version of another
// claim, and once more: only a claim that was not overtaken after its version has decided.
func (s *saver) findFate(v Snapshot) Request {
	n := v.decisiveVersion(s.claim.Fence + Jump)
	if n > 0 && n == s.judge {
		s.repeats = 0
		s.final = true
		return s.readParent(n)
	}
	s.judge = n
	p, ok := backoff(s.repeats)
	if !ok || s.repeats >= maxJudgements || v.Ended[s.claim] != EndedForced {
		return s.endSave()
	}
	s.repeats++
	if n > 0 {
		return s.listForSave()
	}
	s.phase = saveWaited
	return Request{Op: OpWait, Wait: p}
}

// maxJudgements bounds lists and reads after a lost lock: a forcer copies the head within 3 s.
const maxJudgements = 5

func (s *saver) readParent(n int64) Request {
	s.phase = saveJudged
	s.judge = n
	return Request{Op: OpReadParent, N: n}
}

// afterParent follows the versions above ours down to where they leave the numbers of our claim.
// The version counts if a [Sealer] copied it: with a lock id of its own, no copy of another head
// can come above. A copy by the server of a client may have another one beside it.
func (s *saver) afterParent(r Reply) Request {
	above := r.Parent >= s.claim.Fence+reach
	switch {
	case r.Status != StatusDone:
	case above && r.Parent < s.judge && s.repeats < maxJudgements:
		s.repeats++
		s.final = false
		return s.readParent(r.Parent)
	case above:
	case r.Parent < s.n:
		s.Result.Refused = true
	default:
		s.Result.Next = s.judge
		s.Result.Stored = r.Final && s.final
	}
	return s.endSave()
}

// movePointer moves state-W. The version counts even if that fails, unless it shows a takeover.
func (s *saver) movePointer() Request {
	s.Result.Stored = true
	s.phase = savePointed
	return Request{Op: OpPutPointer, N: s.n}
}

func (s *saver) afterPoint(r Reply) Request {
	switch r.Status {
	case StatusDone:
		return s.endSave()
	case StatusUncertain:
		s.phase = saveLooked
		return Request{Op: OpReadPointer, N: s.n}
	}
	s.Result.Behind = true
	s.Result.Err = r.Err
	return s.endSave()
}

func (s *saver) afterLook(r Reply) Request {
	switch {
	case r.Status == StatusDone && r.Owner == OwnerOurs:
		return s.endSave()
	case r.Status == StatusDone && r.Owner == OwnerForeign:
		s.Result.Stored = false
		s.Result.Lost = true
		return s.endSave()
	case r.Status == StatusUncertain || r.Status == StatusRefused || s.repeated:
		s.Result.Behind = true
		s.Result.Err = r.Err
		return s.endSave()
	}
	s.repeated = true // the write was not applied: repeat it
	return s.movePointer()
}
