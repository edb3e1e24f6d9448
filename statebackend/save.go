// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"errors"
	"time"

	"github.com/seed-141914ff/okara/oci"
)

// saver writes one version under a lock and makes sure that it counts.
type saver struct {
	claim claimID
	n     int64 // its number, used up when it is first sent

	phase    savePhase
	repeats  int
	repeated bool // the pointer was sent twice
	result   saved
}

// saved is the outcome of a saver.
type saved struct {
	written   bool // version n is in the registry
	stored    bool // and every later holder sees it: acknowledged
	lost      bool // the lock is gone
	uncertain bool // version n may still arrive
	behind    bool // stored, but the pointer could not be moved
	err       error
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

var errNumbersUsed = errors.New("this lock has used up its version numbers")

// next takes the reply to the last request and returns the next one. After
// opDone, result is set.
func (s *saver) Next(r reply) request {
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
	return request{op: opDone}
}

func (s *saver) end() request {
	s.phase = saveEnd
	return request{op: opDone}
}

func (s *saver) start() request {
	if s.n >= s.claim.fence+jump {
		s.result = saved{lost: true, err: errNumbersUsed}
		return s.end()
	}
	return s.write()
}

func (s *saver) write() request {
	s.phase = saveWritten
	return request{op: opPutVersion, claim: s.claim, n: s.n}
}

func (s *saver) wrote(r reply) request {
	switch r.status {
	case statusDone:
		s.result, s.repeats = saved{written: true}, 0
		return s.list()
	case statusUncertain:
		s.result.uncertain = true
		if s.repeats++; s.repeats < maxRepeats {
			return s.write() // the same bytes under the same number
		}
	default:
		if p, ok := backoff(s.repeats); ok && oci.Passing(r.err) && r.after <= maxHeld {
			s.repeats++
			s.phase = saveHeld
			return request{op: opWait, wait: pause{max(p.least, r.after), max(p.most, r.after)}}
		}
	}
	s.result.err = r.err
	return s.end()
}

// maxHeld is for how long a registry that takes no version yet is waited for at once.
const maxHeld = 30 * time.Second

func (s *saver) list() request {
	s.phase = saveListed
	return request{op: opList}
}

// listed decides whether the version counts: it must be seen, as the newest,
// together with our claim and without its tombstone. Other live claims do not
// matter; they cannot win while ours is listed.
func (s *saver) listed(r reply) request {
	v := r.view
	switch {
	case r.status != statusDone:
		s.result.err = r.err
		return s.end()
	case v.ended[s.claim] != 0, v.newest > s.n:
		s.result.lost = true
		return s.end()
	case v.newest == s.n && v.has(s.claim):
		return s.point()
	case v.newest == s.n:
		s.result.lost = true // our claim was removed
		return s.end()
	}
	p, ok := backoff(s.repeats)
	if !ok {
		s.result.uncertain, s.result.err = true, errStaleList
		return s.end()
	}
	s.repeats++
	s.phase = saveWaited
	return request{op: opWait, wait: p}
}

// point moves state-W. From here on the version is acknowledged whatever
// happens to that copy, unless it shows that somebody else took over.
func (s *saver) point() request {
	s.result.stored = true
	s.phase = savePointed
	return request{op: opPutPointer, n: s.n}
}

func (s *saver) pointed(r reply) request {
	switch r.status {
	case statusDone:
		return s.end()
	case statusUncertain:
		s.phase = saveLooked
		return request{op: opReadPointer, n: s.n}
	}
	s.result.behind, s.result.err = true, r.err
	return s.end()
}

func (s *saver) looked(r reply) request {
	switch {
	case r.status == statusDone && r.owner == ownerOurs:
		return s.end()
	case r.status == statusDone && r.owner == ownerForeign:
		s.result.stored, s.result.lost = false, true
		return s.end()
	case r.status == statusUncertain || r.status == statusRefused || s.repeated:
		s.result.behind, s.result.err = true, r.err
		return s.end()
	}
	s.repeated = true // it was not applied: once more
	return s.point()
}
