// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"github.com/seed-141914ff/okara/statebackend/format"
)

// ability is whether a registry can delete in one way, as far as known.
type ability uint8

const (
	Unknown ability = iota
	Able
	Unable
)

// Abilities are the ways in which a registry deletes; they are learned at run time.
type Abilities struct {
	ByDigest ability // deleting a manifest also removes its tags from the list
	ByTag    ability
}

// releaser ends a claim of ours by deletion or, if that is refused, a tombstone; both end it alike.
type releaser struct {
	claim   ClaimID
	unsure  bool // the claim may still arrive: only a tombstone ends it
	forced  bool // a write may still arrive: the successor must jump
	marked  bool // locked-W is ours
	Renewed bool // the claim was renewed, so that locked-W has another manifest
	Late    bool // a renewal may still arrive, and must not find the claim deleted
	Can     Abilities

	phase   releasePhase
	repeats int
	Err     error // the claim may still be live
}

type releasePhase uint8

const (
	releaseStart releasePhase = iota
	releaseDeleted
	releaseVerified
	releaseMarkerUntagged
	releaseClaimUntagged
	releaseMarkerWritten
	releaseTombstoned
	releaseEnd
)

// Next takes the reply to the last request and returns the next. After OpDone, Err and Can are set.
func (e *releaser) Next(r Reply) Request {
	switch e.phase {
	case releaseStart:
		return e.startRelease()
	case releaseDeleted:
		return e.afterDelete(r)
	case releaseVerified:
		return e.afterVerify(r)
	case releaseMarkerUntagged:
		if r.Status == StatusUnsupported {
			e.Can.ByTag = Unable
			return e.putTombstone()
		}
		return e.untagClaim() // the marker is best effort
	case releaseClaimUntagged:
		return e.afterUntag(r)
	case releaseMarkerWritten:
		return e.writeTombstone()
	case releaseTombstoned:
		return e.tombstoneWritten(r)
	}
	return Request{Op: OpDone}
}

func (e *releaser) endRelease(err error) Request {
	e.phase = releaseEnd
	e.Err = err
	return Request{Op: OpDone}
}

func (e *releaser) startRelease() Request {
	switch {
	case e.forced, e.unsure, e.Late:
		return e.putTombstone()
	case e.Can.ByDigest != Unable && !e.Renewed:
		e.phase = releaseDeleted
		return Request{Op: OpDelete, Claim: e.claim}
	}
	return e.untagMarker()
}

func (e *releaser) afterDelete(r Reply) Request {
	switch r.Status {
	case StatusUnsupported:
		e.Can.ByDigest = Unable
		return e.untagMarker()
	case StatusDone, StatusMissing:
		if e.Can.ByDigest == Able {
			return e.endRelease(nil)
		}
		// Some registries delete the manifest and still list the tag: it would lock forever.
		e.phase = releaseVerified
		return Request{Op: OpList}
	case StatusUncertain:
		if e.repeats++; e.repeats < maxRepeats {
			return e.startRelease()
		}
	}
	return e.putTombstone()
}

func (e *releaser) afterVerify(r Reply) Request {
	switch {
	case r.Status != StatusDone:
		return e.putTombstone()
	case r.Snapshot.Has(e.claim):
		e.Can.ByDigest = Unable
		return e.untagMarker()
	}
	e.Can.ByDigest = Able
	return e.endRelease(nil)
}

// untagMarker deletes the tags, the marker first: without the claim it may be another holder's.
func (e *releaser) untagMarker() Request {
	e.repeats = 0
	switch {
	case e.Can.ByTag == Unable:
		return e.putTombstone()
	case e.marked:
		e.phase = releaseMarkerUntagged
		return Request{Op: OpUntagMarker}
	}
	return e.untagClaim()
}

func (e *releaser) untagClaim() Request {
	e.phase = releaseClaimUntagged
	return Request{Op: OpUntagClaim, Claim: e.claim}
}

func (e *releaser) afterUntag(r Reply) Request {
	switch r.Status {
	case StatusDone, StatusMissing:
		e.Can.ByTag = Able
		return e.endRelease(nil)
	case StatusUnsupported:
		e.Can.ByTag = Unable
	case StatusUncertain:
		if e.repeats++; e.repeats < maxRepeats {
			return e.untagClaim()
		}
	}
	return e.putTombstone()
}

func (e *releaser) putTombstone() Request {
	e.repeats = 0
	if e.marked {
		e.phase = releaseMarkerWritten
		return Request{Op: OpPutUnlocked}
	}
	return e.writeTombstone()
}

func (e *releaser) writeTombstone() Request {
	e.phase = releaseTombstoned
	req := Request{Op: OpPutTombstone, Claim: e.claim, Reason: format.ReasonReleased}
	if e.forced || e.unsure {
		req.Forced = e.forced
		req.Reason = format.ReasonUncertain
	}
	return req
}

func (e *releaser) tombstoneWritten(r Reply) Request {
	if r.Status == StatusDone {
		return e.endRelease(nil)
	}
	if e.repeats++; e.repeats < maxRepeats {
		return e.writeTombstone()
	}
	return e.endRelease(r.Err)
}
