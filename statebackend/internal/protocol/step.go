// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// The lock protocol is three small machines without input or output of their
// own: acquirer, saver and releaser. Each is fed the reply to its last request
// and answers with the next one. A session performs the requests on a registry;
// the simulator and the explorer in the tests perform them on a model of one, so
// that what is proved is what runs.

// Op is what a machine wants done next.
type Op uint8

const (
	OpDone         Op = iota
	OpList            // list the tags
	OpReadMarker      // read locked-W
	OpReadClaim       // read who holds by a claim, and whether it joined another
	OpPutClaim        // write the claim, exactly once
	OpPutTombstone    // end the claim
	OpPutSeal         // copy version head to version n
	OpPutMarker       // locked-W: a copy of the claim
	OpPutUnlocked     // locked-W: says unlocked
	OpDelete          // the claim's manifest, by digest
	OpUntagMarker     // delete the tag locked-W
	OpUntagClaim      // delete the claim's tag
	OpPutVersion      // write the state as version n
	OpPutPointer      // state-W: a copy of version n
	OpReadPointer     // whose state-W is
	OpWait            // nothing, for a while
)

// Request is one step that a machine asks for.
type Request struct {
	Op     Op
	Claim  ClaimID
	Root   ClaimID           // OpPutClaim: the claim by which its client won before; zero: none
	N      int64             // version
	Head   int64             // OpPutSeal: the version to copy, 0: none
	Forced bool              // OpPutTombstone
	Reason format.LockReason // OpPutTombstone
	Wait   Pause
}

// Pause is a time to wait; the performer picks within it.
type Pause struct{ Min, Max time.Duration }

// Status classifies the answer to a request.
type Status uint8

const (
	StatusDone        Status = iota
	StatusRefused            // definitely without effect
	StatusMissing            // there is no such tag or manifest
	StatusUnsupported        // the registry does not do this
	StatusUncertain          // may have taken effect, or may yet
)

// Reply is the answer to a request.
type Reply struct {
	Status   Status
	Snapshot Snapshot      // OpList
	Settle   time.Duration // OpList: how long a list may lag behind
	Promoted bool          // OpList: the repository was a replica until now
	Joined   bool          // OpReadClaim: it took part in a lock that another claim won
	After    time.Duration // how long to wait before asking again, as the registry says
	Owner    Owner         // OpReadMarker, OpReadPointer
	Err      error         // why status is not StatusDone
}

// MayPass reports whether the same request may succeed when it is sent again.
func (r Reply) MayPass() bool { return r.Status == StatusUncertain || oci.Passing(r.Err) }

// Owner is who wrote the tag that was read.
type Owner uint8

const (
	OwnerNobody  Owner = iota
	OwnerOurs          // OpReadMarker: written by this protocol. OpReadPointer: what was just written
	OwnerBefore        // OpReadPointer: what was there before
	OwnerForeign       // OpReadMarker: an older tool's lock. OpReadPointer: somebody else's version
)

// backoff returns the i-th wait for a list to show what was written; about ten
// seconds in all, then false.
func backoff(i int) (Pause, bool) {
	waits := [...]time.Duration{100, 200, 400, 800, 1600, 3200, 3700}
	if i >= len(waits) {
		return Pause{}, false
	}
	d := waits[i] * time.Millisecond
	return Pause{d, d}, true
}

// maxRepeats bounds how often a repeatable write with a lost answer is sent.
const maxRepeats = 4

// Again is the wait before a write with a lost answer is repeated.
func Again() Pause { return Pause{100 * time.Millisecond, 400 * time.Millisecond} }

// contentionWait is the wait of the smallest of several live claims.
func contentionWait() Pause { return Pause{100 * time.Millisecond, 800 * time.Millisecond} }
