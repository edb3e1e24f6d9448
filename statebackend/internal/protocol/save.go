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
	repeated bool // the pointer was sent twice
	Result   Saved
}

// Saved is the result of a saver.
type Saved struct {
	Written   bool // version n is in the registry
	Stored    bool // acknowledged: every later holder sees the version
	Lost      bool // the lock is gone
	uncertain bool // version n may still arrive
	Behind    bool // stored, but the pointer could not be moved
	Err       error
}

type savePhase uint8

const (
	saveStart savePhase = iota
	saveWritten
	saveHeld
	saveListed
	saveWaited
	savePointed
	saveLooked
	saveEnd
)

var ErrNumbersUsed = errors.New("this lock has used up its version numbers")

// Next takes the reply to the last request and returns the next one. After
// OpDone, Result is set.
func (s *saver) Next(r Reply) Request {
	switch s.phase {
	case saveStart:
		return s.start()
	case saveWritten:
		return s.wrote(r)
	case saveHeld:
		return s.write()
	case saveWaited:
		return s.list()
	case saveListed:
		return s.listed(r)
	case savePointed:
		return s.pointed(r)
	case saveLooked:
		return s.looked(r)
	}
	return Request{Op: OpDone}
}

func (s *saver) end() Request {
	s.phase = saveEnd
	return Request{Op: OpDone}
}

func (s *saver) start() Request {
	if s.n >= s.claim.Fence+reach {
		s.Result = Saved{Lost: true, Err: ErrNumbersUsed}
		return s.end()
	}
	return s.write()
}

func (s *saver) write() Request {
	s.phase = saveWritten
	return Request{Op: OpPutVersion, Claim: s.claim, N: s.n}
}

func (s *saver) wrote(r Reply) Request {
	switch r.Status {
	case StatusDone:
		s.Result = Saved{Written: true}
		s.repeats = 0
		return s.list()
	case StatusUncertain:
		s.Result.uncertain = true
		if s.repeats++; s.repeats < maxRepeats {
			return s.write() // the same bytes under the same number
		}
	default:
		if p, ok := backoff(s.repeats); ok && oci.Passing(r.Err) && r.After <= maxHeld {
			s.repeats++
			s.phase = saveHeld
			return Request{Op: OpWait, Wait: Pause{max(p.Min, r.After), max(p.Max, r.After)}}
		}
	}
	s.Result.Err = r.Err
	return s.end()
}

// maxHeld bounds the Retry-After of a registry for which a write waits and retries.
const maxHeld = 30 * time.Second

func (s *saver) list() Request {
	s.phase = saveListed
	return Request{Op: OpList}
}

// listed decides whether the version counts: the list must show it as the newest,
// together with our claim and without its tombstone. Other live claims do not
// matter; they cannot win while ours is listed.
func (s *saver) listed(r Reply) Request {
	v := r.Snapshot
	switch {
	case r.Status != StatusDone:
		s.Result.Err = r.Err
		return s.end()
	case v.Ended[s.claim] != 0, v.Newest > s.n:
		s.Result.Lost = true
		return s.end()
	case v.Newest == s.n && v.Has(s.claim):
		return s.point()
	case v.Newest == s.n:
		s.Result.Lost = true // our claim was removed
		return s.end()
	}
	p, ok := backoff(s.repeats)
	if !ok {
		s.Result.uncertain = true
		s.Result.Err = errStaleList
		return s.end()
	}
	s.repeats++
	s.phase = saveWaited
	return Request{Op: OpWait, Wait: p}
}

// point moves state-W. From here on the version is acknowledged regardless of what
// happens to that copy, unless the copy shows that another client took over.
func (s *saver) point() Request {
	s.Result.Stored = true
	s.phase = savePointed
	return Request{Op: OpPutPointer, N: s.n}
}

func (s *saver) pointed(r Reply) Request {
	switch r.Status {
	case StatusDone:
		return s.end()
	case StatusUncertain:
		s.phase = saveLooked
		return Request{Op: OpReadPointer, N: s.n}
	}
	s.Result.Behind = true
	s.Result.Err = r.Err
	return s.end()
}

func (s *saver) looked(r Reply) Request {
	switch {
	case r.Status == StatusDone && r.Owner == OwnerOurs:
		return s.end()
	case r.Status == StatusDone && r.Owner == OwnerForeign:
		s.Result.Stored = false
		s.Result.Lost = true
		return s.end()
	case r.Status == StatusUncertain || r.Status == StatusRefused || s.repeated:
		s.Result.Behind = true
		s.Result.Err = r.Err
		return s.end()
	}
	s.repeated = true // the write was not applied: repeat it
	return s.point()
}
