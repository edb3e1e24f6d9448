// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"fmt"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// forcer ends the claims of a lock id that may be another process's. It never
// deletes: a claim that is gone, but whose holder still runs, would leave no
// trace from which the next holder knows to skip numbers.
type forcer struct {
	lockID string
	rules  rules

	phase   forcePhase
	doomed  []claimID
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
	forceEnd
)

// next takes the reply to the last request and returns the next one. After
// opDone, result is set.
func (f *forcer) next(r reply) request {
	switch f.phase {
	case forceStart:
		f.phase = forceListed
		return request{op: opList}
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

func (f *forcer) listed(r reply) request {
	if r.status != statusDone {
		f.result.err = r.err
		return f.end()
	}
	for _, c := range r.view.live() {
		if artifact.ClaimOf(c.x, f.lockID) || c.x == f.lockID { // x, where a claim cannot be read
			f.doomed = append(f.doomed, c)
		} else {
			f.result.held = append(f.result.held, c)
		}
	}
	f.marked = r.view.marker
	switch {
	case len(f.doomed) > 0:
		return f.endNext()
	case f.marked:
		f.phase = forceMarker
		return request{op: opReadMarker}
	}
	return f.end()
}

func (f *forcer) endNext() request {
	f.phase = forceEnding
	if f.rules.forceDeletes {
		return request{op: opUntagClaim, claim: f.doomed[0]}
	}
	return request{op: opPutTombstone, claim: f.doomed[0], forced: true, reason: artifact.ReasonForced}
}

func (f *forcer) ended(r reply) request {
	if r.status != statusDone && !f.rules.forceDeletes {
		if f.repeats++; f.repeats < maxRepeats {
			return f.endNext()
		}
		f.result.err = r.err
		return f.end()
	}
	f.doomed, f.repeats, f.result.ended = f.doomed[1:], 0, true
	if len(f.doomed) > 0 {
		return f.endNext()
	}
	if !f.marked {
		return f.end()
	}
	f.phase = forceMarked
	return request{op: opPutUnlocked}
}

// ForceUnlock ends the lock of that id, whoever holds it; the holder's next
// write is refused and kept as a version. If another lock is held, the error is
// a *LockedError; if none is, oci.ErrNotFound.
func (s *Store) ForceUnlock(ctx context.Context, workspace, id string) error {
	x := s.session(workspace, LockInfo{})
	f := &forcer{lockID: id, rules: s.rules}
	x.run(ctx, f)
	res := f.result
	switch {
	case res.err != nil:
		return fmt.Errorf("unlocking workspace %q in %s: %w", workspace, s.repo, res.err)
	case res.ended:
		if l, ok := s.Holding(workspace, id); ok {
			s.locks.forget(l)
		}
		return nil
	case res.asked && x.foreign.Info.ID == artifact.ShownID(id):
		r := x.perform(ctx, request{op: opPutUnlocked})
		return r.err
	case res.asked:
		return x.lockedBy(ctx, claimID{})
	case len(res.held) > 0:
		return x.lockedBy(ctx, res.held[0])
	}
	return fmt.Errorf("lock %s of workspace %q in %s: %w", id, workspace, s.repo, oci.ErrNotFound)
}
