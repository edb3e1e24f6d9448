// SPDX-License-Identifier: Apache-2.0

package statebackend

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

// op is what a machine wants done next.
type op uint8

const (
	opDone         op = iota
	opList            // list the tags
	opReadMarker      // read locked-W
	opReadClaim       // read who holds by a claim, and whether it joined another
	opPutClaim        // write the claim, exactly once
	opPutTombstone    // end the claim
	opPutSeal         // copy version head to version n
	opPutMarker       // locked-W: a copy of the claim
	opPutUnlocked     // locked-W: says unlocked
	opDelete          // the claim's manifest, by digest
	opUntagMarker     // delete the tag locked-W
	opUntagClaim      // delete the claim's tag
	opPutVersion      // write the state as version n
	opPutPointer      // state-W: a copy of version n
	opReadPointer     // whose state-W is
	opWait            // nothing, for a while
)

// request is one step that a machine asks for.
type request struct {
	op     op
	claim  claimID
	root   claimID           // opPutClaim: the claim by which its client won before; zero: none
	n      int64             // version
	head   int64             // opPutSeal: the version to copy, 0: none
	forced bool              // opPutTombstone
	reason format.LockReason // opPutTombstone
	wait   pause
}

// pause is a time to wait; the performer picks within it.
type pause struct{ least, most time.Duration }

// status classifies the answer to a request.
type status uint8

const (
	statusDone        status = iota
	statusRefused            // definitely without effect
	statusMissing            // there is no such tag or manifest
	statusUnsupported        // the registry does not do this
	statusUncertain          // may have taken effect, or may yet
)

// reply is the answer to a request.
type reply struct {
	status   status
	view     view          // opList
	settle   time.Duration // opList: how long a list may lag behind
	promoted bool          // opList: the repository was a replica until now
	joined   bool          // opReadClaim: it took part in a lock that another claim won
	after    time.Duration // how long to wait before asking again, as the registry says
	owner    owner         // opReadMarker, opReadPointer
	err      error         // why status is not statusDone
}

// mayPass tells whether the same request may succeed when it is sent again.
func (r reply) mayPass() bool { return r.status == statusUncertain || oci.Passing(r.err) }

// owner is who wrote the tag that was read.
type owner uint8

const (
	ownerNobody  owner = iota
	ownerOurs          // opReadMarker: written by this protocol. opReadPointer: what was just written
	ownerBefore        // opReadPointer: what was there before
	ownerForeign       // opReadMarker: an older tool's lock. opReadPointer: somebody else's version
)

// backoff returns the i-th wait for a list to show what was written; about ten
// seconds in all, then false.
func backoff(i int) (pause, bool) {
	waits := [...]time.Duration{100, 200, 400, 800, 1600, 3200, 3700}
	if i >= len(waits) {
		return pause{}, false
	}
	d := waits[i] * time.Millisecond
	return pause{d, d}, true
}

// maxRepeats bounds how often a repeatable write with a lost answer is sent.
const maxRepeats = 4

// again is the wait before a write with a lost answer is repeated.
func again() pause { return pause{100 * time.Millisecond, 400 * time.Millisecond} }

// contentionWait is the wait of the smallest of several live claims.
func contentionWait() pause { return pause{100 * time.Millisecond, 800 * time.Millisecond} }
