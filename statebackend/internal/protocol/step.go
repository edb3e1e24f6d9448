// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Op is the kind of a request.
type Op uint8

const (
	OpDone          Op = iota
	OpList             // list the tags
	OpReadMarker       // read locked-W
	OpReadClaim        // read the holder from a claim, and whether it joined another
	OpReadOwner        // read whether a claim of our id has another owner
	OpReadTombstone    // read why the claim ended
	OpReadParent       // read from which version version n was made
	OpPutClaim         // write the claim, exactly once
	OpPutTombstone     // end the claim
	OpPutSeal          // copy version head to version n
	OpPutMarker        // locked-W: a copy of the claim
	OpPutUnlocked      // set locked-W to unlocked
	OpDelete           // delete the claim's manifest, by digest
	OpUntagMarker      // delete the tag locked-W
	OpUntagClaim       // delete the claim's tag
	OpPutVersion       // write the state as version n
	OpPutPointer       // make state-W a copy of version n
	OpReadPointer      // read who wrote state-W
	OpWait             // wait
)

// Request is one step of a machine.
type Request struct {
	Op     Op
	Claim  ClaimID
	Root   ClaimID           // OpPutClaim: the claim by which its client won before; zero: none
	Beside ClaimID           // OpPutClaim: the oldest live claim of the id; zero: none, or a root is named
	N      int64             // version
	Head   int64             // OpPutSeal: the version to copy, 0: none
	Forced bool              // OpPutTombstone
	Reason format.LockReason // OpPutTombstone
	Wait   Pause
}

// Pause is a range of waiting times; the performer picks one.
type Pause struct{ Min, Max time.Duration }

// Status classifies the answer to a request.
type Status uint8

const (
	StatusDone        Status = iota
	StatusRefused            // definitely had no effect
	StatusMissing            // there is no such tag or manifest
	StatusUnsupported        // the registry does not support this
	StatusUncertain          // may have taken effect, or may still do so
)

// Reply is the answer to a request.
type Reply struct {
	Status   Status
	Snapshot Snapshot          // OpList
	Settle   time.Duration     // OpList: how long a list may lag behind
	Promoted bool              // OpList: the repository was a replica until now
	Joined   bool              // OpReadClaim: the claim joined another one
	Foreign  bool              // OpReadClaim, OpReadOwner: the claim has another id with the same hash, or another caller
	Beside   ClaimID           // OpReadClaim: the claim of the id that was live when the claim was made; zero: none
	Reason   format.LockReason // OpReadTombstone
	Parent   int64             // OpReadParent: 0: none
	Final    bool              // OpReadParent: version n is the copy by a [Sealer]
	After    time.Duration     // how long to wait before a retry, as the registry says
	Owner    Owner             // OpReadMarker, OpReadPointer
	Err      error             // why status is not StatusDone
}

// MayPass reports whether the same request may succeed on a retry.
func (r Reply) MayPass() bool { return r.Status == StatusUncertain || oci.Passing(r.Err) }

// Owner is who wrote the tag that was read.
type Owner uint8

const (
	OwnerNobody  Owner = iota
	OwnerOurs          // OpReadMarker: written by this protocol. OpReadPointer: what was just written
	OwnerBefore        // OpReadPointer: the version from before
	OwnerForeign       // OpReadMarker: an older tool's lock. OpReadPointer: another holder's version
)

// backoff returns the i-th wait for a list to show a write; false after about ten seconds in all.
func backoff(i int) (Pause, bool) {
	waits := [...]time.Duration{100, 200, 400, 800, 1600, 3200, 3700}
	if i >= len(waits) {
		return Pause{}, false
	}
	d := waits[i] * time.Millisecond
	return Pause{d, d}, true
}

// maxRepeats bounds how often a repeatable write is sent if its answer is lost.
const maxRepeats = 4

// Again returns the wait before a write with a lost answer is repeated.
func Again() Pause { return Pause{100 * time.Millisecond, 400 * time.Millisecond} }

func contentionWait() Pause { return Pause{100 * time.Millisecond, 800 * time.Millisecond} }
