// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"github.com/seed-141914ff/okara/statebackend/format"
)

// forcer ends all claims of a lock id, whoever made them. It never deletes: a claim
// that is gone, but whose holder still runs, would leave no trace from which the next
// holder knows to skip numbers.
type forcer struct {
	lockID string
	sealed int64 // claims below this number end cleanly: above them was written

	phase   forcePhase
	doomed  []claimID
	over    map[claimID]bool // have their tombstone
	rounds  int
	waits   int
	repeats int
	marked  bool // locked-W is to be turned
	result  forced
}

// forced is the outcome of a forcer.
type forced struct {
	ended bool
	held  []claimID // by others
	asked bool      // the marker is an older tool's lock
	err   error
}

type forcePhase uint8

const (
	forceStart forcePhase = iota
	forceListed
	forceEnding
	forceMarker
	forceMarked
	forceWaited
	forceEnd
)

// maxRounds bounds how often a forcer finds claims that were made since it looked.
const maxRounds = 10

// next takes the reply to the last request and returns the next one. After
// opDone, result is set.
func (f *forcer) Next(r reply) request {
	switch f.phase {
	case forceStart, forceWaited:
		return f.list()
	case forceListed:
		return f.listed(r)
	case forceEnding:
		return f.ended(r)
	case forceMarker:
		f.result.asked = r.status == statusDone && r.owner == ownerForeign
	}
	return f.end()
}

func (f *forcer) end() request {
	f.phase = forceEnd
	return request{op: opDone}
}

func (f *forcer) list() request {
	f.phase = forceListed
	return request{op: opList}
}

// listed looks for claims of the id until a list shows none that is live. A process
// that takes part in the lock saw an older claim of it live after it had made its
// own; so the list that shows the end of the older one shows that one too.
func (f *forcer) listed(r reply) request {
	if r.status != statusDone {
		f.result.err = r.err
		return f.end()
	}
	f.doomed, f.result.held = nil, nil
	stale := false
	for _, c := range r.view.live() {
		switch ours := format.ClaimOf(c.x, f.lockID) || c.x == f.lockID; { // x, where a claim cannot be read
		case f.over[c]:
			stale = true
		case ours:
			f.doomed = append(f.doomed, c)
		default:
			f.result.held = append(f.result.held, c)
		}
	}
	f.marked = r.view.marker
	switch {
	case len(f.doomed) > 0:
		return f.endAll()
	case stale:
		return f.wait()
	case f.result.ended && f.marked && len(f.result.held) == 0:
		f.phase = forceMarked
		return request{op: opPutUnlocked}
	case f.marked && !f.result.ended:
		f.phase = forceMarker
		return request{op: opReadMarker}
	}
	return f.end()
}

// endAll ends what the last list showed.
func (f *forcer) endAll() request {
	if f.rounds++; f.rounds > maxRounds {
		f.result.err = errBeside
		return f.end()
	}
	return f.endNext()
}

// wait is before a list that does not show the tombstones yet is asked again.
func (f *forcer) wait() request {
	p, ok := backoff(f.waits)
	if !ok {
		f.result.err = errStaleList
		return f.end()
	}
	f.waits++
	f.phase = forceWaited
	return request{op: opWait, wait: p}
}

func (f *forcer) endNext() request {
	f.phase = forceEnding
	c := f.doomed[0]
	switch {
	case c.fence < f.sealed:
		return request{op: opPutTombstone, claim: c, reason: format.ReasonReleased}
	}
	return request{op: opPutTombstone, claim: c, forced: true, reason: format.ReasonForced}
}

func (f *forcer) ended(r reply) request {
	if r.status != statusDone {
		if f.repeats++; f.repeats < maxRepeats {
			return f.endNext()
		}
		f.result.err = r.err
		return f.end()
	}
	if f.over == nil {
		f.over = map[claimID]bool{}
	}
	f.over[f.doomed[0]] = true
	f.doomed, f.repeats, f.result.ended = f.doomed[1:], 0, true
	switch {
	case len(f.doomed) > 0:
		return f.endNext()
	}
	return f.list()
}
