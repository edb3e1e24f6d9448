// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"github.com/seed-141914ff/okara/statebackend/format"
)

// ability is what is known of a registry.
type ability uint8

const (
	unknown ability = iota
	able
	unable
)

// abilities are the ways in which a registry deletes; they are learned.
type abilities struct {
	byDigest ability // deleting a manifest also removes its tags from the list
	byTag    ability
}

// releaser ends a claim of our own: by deleting it where the registry allows,
// else by a tombstone. No rule of the lock depends on which.
type releaser struct {
	claim  claimID
	forced bool // there may be a write on its way: the successor must jump
	marked bool // locked-W is ours
	beaten bool // the claim was renewed, so that locked-W is another manifest
	late   bool // a renewal may still arrive, and must not find the claim deleted
	can    abilities

	phase   releasePhase
	repeats int
	err     error // the claim may still be live
}

type releasePhase uint8

const (
	releaseStart releasePhase = iota
	releaseDeleted
	releaseVerified
	releaseMarkerUntagged
	releaseClaimUntagged
	releaseMarkerWritten
	releaseBuried
	releaseEnd
)

// next takes the reply to the last request and returns the next one. After
// opDone, err and can are set.
func (e *releaser) Next(r reply) request {
	switch e.phase {
	case releaseStart:
		return e.start()
	case releaseDeleted:
		return e.deleted(r)
	case releaseVerified:
		return e.verified(r)
	case releaseMarkerUntagged:
		if r.status == statusUnsupported {
			e.can.byTag = unable
			return e.tombstone()
		}
		return e.untagClaim() // the marker is a courtesy
	case releaseClaimUntagged:
		return e.untagged(r)
	case releaseMarkerWritten:
		return e.bury()
	case releaseBuried:
		return e.buried(r)
	}
	return request{op: opDone}
}

func (e *releaser) end(err error) request {
	e.phase, e.err = releaseEnd, err
	return request{op: opDone}
}

func (e *releaser) start() request {
	switch {
	case e.forced, e.late:
		return e.tombstone()
	case e.can.byDigest != unable && !e.beaten:
		e.phase = releaseDeleted
		return request{op: opDelete, claim: e.claim}
	}
	return e.untag()
}

func (e *releaser) deleted(r reply) request {
	switch r.status {
	case statusUnsupported:
		e.can.byDigest = unable
		return e.untag()
	case statusDone, statusMissing:
		if e.can.byDigest == able {
			return e.end(nil)
		}
		// Some registries delete the manifest and leave the tag in the list,
		// where it would lock for ever.
		e.phase = releaseVerified
		return request{op: opList}
	case statusUncertain:
		if e.repeats++; e.repeats < maxRepeats {
			return e.start()
		}
	}
	return e.tombstone()
}

func (e *releaser) verified(r reply) request {
	switch {
	case r.status != statusDone:
		return e.tombstone()
	case r.view.has(e.claim):
		e.can.byDigest = unable
		return e.untag()
	}
	e.can.byDigest = able
	return e.end(nil)
}

// untag deletes the tags one by one, the marker first: once the claim is gone,
// the marker may be somebody else's.
func (e *releaser) untag() request {
	e.repeats = 0
	switch {
	case e.can.byTag == unable:
		return e.tombstone()
	case e.marked:
		e.phase = releaseMarkerUntagged
		return request{op: opUntagMarker}
	}
	return e.untagClaim()
}

func (e *releaser) untagClaim() request {
	e.phase = releaseClaimUntagged
	return request{op: opUntagClaim, claim: e.claim}
}

func (e *releaser) untagged(r reply) request {
	switch r.status {
	case statusDone, statusMissing:
		e.can.byTag = able
		return e.end(nil)
	case statusUnsupported:
		e.can.byTag = unable
	case statusUncertain:
		if e.repeats++; e.repeats < maxRepeats {
			return e.untagClaim()
		}
	}
	return e.tombstone()
}

func (e *releaser) tombstone() request {
	e.repeats = 0
	if e.marked {
		e.phase = releaseMarkerWritten
		return request{op: opPutUnlocked}
	}
	return e.bury()
}

func (e *releaser) bury() request {
	e.phase = releaseBuried
	req := request{op: opPutTombstone, claim: e.claim, reason: format.ReasonReleased}
	if e.forced {
		req.forced, req.reason = true, format.ReasonUncertain
	}
	return req
}

func (e *releaser) buried(r reply) request {
	if r.status == statusDone {
		return e.end(nil)
	}
	if e.repeats++; e.repeats < maxRepeats {
		return e.bury()
	}
	return e.end(r.err)
}
