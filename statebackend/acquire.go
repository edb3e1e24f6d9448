// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"cmp"
	"errors"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// acquirer takes a lock. Its phases name the reply it waits for.
type acquirer struct {
	lockID   string
	base     uint32        // random; with the attempt it makes claims unique
	takeOver bool          // end whatever live claim is there
	overdue  overdue       // end these
	settle   time.Duration // after this time a list shows a finished push
	snapshot bool          // a list is the state at one instant
	can      abilities
	rules    rules

	phase   acquirePhase
	claim   claimID // of the current attempt
	attempt uint32
	seen    view // the last list
	marked  bool // locked-W was there before we came
	doomed  []claimID
	waits   int // for the current claim
	repeats int
	settled bool // the settling wait is over
	release releaser
	result  acquired
}

// acquired is the outcome of an acquirer.
type acquired struct {
	won    bool
	held   bool    // by somebody else:
	by     claimID // this claim, or an older tool's marker if zero
	newest int64   // won: the highest version
	next   int64   // won: the first number to write
	sealed bool
	err    error
}

type acquirePhase uint8

const (
	phaseStart acquirePhase = iota
	phaseLook
	phaseMarker
	phaseOvertake
	phaseClaim
	phaseCheck
	phaseMarkerAgain
	phasePause
	phaseSettle
	phaseConfirm
	phaseSeal
	phaseSealed
	phaseMark
	phaseWithdraw
	phaseBury
	phaseEnd
)

// maxAttempts bounds the claims of one acquirer; more than one is needed only
// when version numbers moved on in between.
const maxAttempts = 5

// maxRelists bounds how often the smallest of several live claims looks again.
const maxRelists = 4

var errCrowded = errors.New("version numbers kept moving")

// passing is an error of an attempt that may succeed when it is made again. It is an
// [oci.ErrUnavailable].
type passing string

const (
	errStaleList = passing("the registry's tag list does not show its own writes")
	errOvertaken = passing("the lock was taken over while it was being acquired")
)

func (e passing) Error() string        { return string(e) }
func (e passing) Is(target error) bool { return target == oci.ErrUnavailable }

// next takes the reply to the last request and returns the next one. The first
// reply is ignored. After opDone, result is set.
func (a *acquirer) next(r reply) request {
	switch a.phase {
	case phaseStart:
		return a.list(phaseLook)
	case phaseLook:
		return a.looked(r)
	case phaseMarker:
		return a.readMarker(r)
	case phaseOvertake:
		return a.overtook(r)
	case phaseClaim:
		return a.claimed(r)
	case phaseCheck:
		return a.checked(r)
	case phaseMarkerAgain:
		return a.readMarkerAgain(r)
	case phasePause:
		return a.list(phaseCheck)
	case phaseSettle:
		a.settled = true
		return a.list(phaseCheck)
	case phaseConfirm:
		return a.confirmed(r)
	case phaseSeal:
		return a.sealed(r)
	case phaseSealed:
		return a.sealSeen(r)
	case phaseMark:
		return a.end(a.result) // the marker is a courtesy
	case phaseWithdraw:
		return a.withdrew(r)
	case phaseBury:
		return a.buried(r)
	}
	return request{op: opDone}
}

func (a *acquirer) list(p acquirePhase) request {
	a.phase = p
	return request{op: opList}
}

func (a *acquirer) end(res acquired) request {
	a.phase, a.result = phaseEnd, res
	return request{op: opDone}
}

// looked decides on the first list: held, to be overtaken, or free. It writes
// nothing while somebody else holds, so that polling does no harm.
func (a *acquirer) looked(r reply) request {
	if r.status != statusDone {
		return a.end(acquired{err: r.err})
	}
	a.seen, a.marked, a.settle = r.view, r.view.marker, r.settle
	for _, c := range r.view.live() {
		if a.ignores(c) {
			continue
		}
		if !a.mayEnd(c) {
			return a.end(acquired{held: true, by: c})
		}
		// A claim under our lock id that this process did not win may be held by
		// another process, which must be fenced.
		a.doomed = append(a.doomed, c)
	}
	if r.promoted {
		// What still arrives from the old primary must stay below, as if a lock
		// there had been taken over.
		a.doomed = append(a.doomed, claimID{fence: r.view.newest + 1, x: artifact.ClaimX(a.lockID, a.base)})
	}
	if r.view.marker && !a.takeOver {
		a.phase = phaseMarker
		return request{op: opReadMarker}
	}
	return a.overtake()
}

func (a *acquirer) readMarker(r reply) request {
	switch {
	case r.status != statusDone && r.status != statusMissing:
		return a.end(acquired{err: r.err})
	case r.status == statusDone && r.owner == ownerForeign:
		return a.end(acquired{held: true})
	}
	return a.overtake()
}

// overtake ends the doomed claims one by one, then claims.
func (a *acquirer) overtake() request {
	if len(a.doomed) == 0 {
		return a.makeClaim()
	}
	a.phase = phaseOvertake
	if a.rules.forceDeletes {
		return request{op: opUntagClaim, claim: a.doomed[0]}
	}
	reason := cmp.Or(a.overdue[a.doomed[0]], artifact.ReasonForced)
	forced := !a.rules.ghostClean || reason != artifact.ReasonGhost
	return request{op: opPutTombstone, claim: a.doomed[0], forced: forced, reason: reason}
}

func (a *acquirer) overtook(r reply) request {
	if r.status != statusDone && !a.rules.forceDeletes {
		if a.repeats++; r.status == statusUncertain && a.repeats < maxRepeats {
			return a.overtake()
		}
		return a.end(acquired{err: r.err})
	}
	if !a.rules.ghostClean {
		a.seen = a.seen.with(a.doomed[0], endedForced)
	}
	a.doomed, a.repeats = a.doomed[1:], 0
	return a.overtake()
}

// makeClaim picks the number from the last list and writes the claim.
func (a *acquirer) makeClaim() request {
	if a.attempt++; a.attempt > maxAttempts {
		return a.end(acquired{err: errCrowded})
	}
	first := a.seen.newest + 1
	if !a.rules.noJump {
		first = max(first, a.seen.floor())
	}
	a.claim = claimID{fence: first, x: artifact.ClaimX(a.lockID, a.base+a.attempt)}
	a.phase, a.waits, a.settled = phaseClaim, 0, false
	return request{op: opPutClaim, claim: a.claim}
}

func (a *acquirer) claimed(r reply) request {
	switch r.status {
	case statusDone:
		return a.list(phaseCheck)
	case statusUncertain:
		// The claim may arrive at any time: it has to be dead by then.
		return a.bury(acquired{err: r.err})
	}
	return a.end(acquired{err: r.err})
}

// checked decides on a list after the claim: the lock is won if every other
// claim has ended and no number can be written by anybody else.
func (a *acquirer) checked(r reply) request {
	if r.status != statusDone {
		return a.withdraw(acquired{err: r.err})
	}
	a.seen = r.view
	if next, decided := a.unfit(r.view); decided {
		return next
	}
	if rivals := a.rivals(r.view); len(rivals) > 0 && !a.rules.noRivalCheck {
		return a.contend(r.view, rivals)
	}
	if r.view.marker && !a.marked && !a.takeOver {
		a.phase = phaseMarkerAgain
		return request{op: opReadMarker}
	}
	return a.alone()
}

// readMarkerAgain looks whose a marker is that came after the first list: an older
// tool's lock is in no claim.
func (a *acquirer) readMarkerAgain(r reply) request {
	switch {
	case r.status != statusDone && r.status != statusMissing:
		return a.withdraw(acquired{err: r.err})
	case r.status == statusDone && r.owner == ownerForeign:
		return a.withdraw(acquired{held: true})
	}
	a.marked = true
	return a.alone()
}

// alone decides on the last list, in which nobody else claims.
func (a *acquirer) alone() request {
	switch {
	case a.outnumbered(a.seen):
		return a.withdraw(acquired{})
	case a.settle > 0 && !a.settled:
		a.phase = phaseSettle
		return request{op: opWait, wait: pause{a.settle, a.settle}}
	case a.snapshot || a.rules.noConfirm:
		return a.win()
	}
	return a.list(phaseConfirm)
}

// confirmed decides on one more list, needed where a list is read key by key:
// the first may have read the version tags before the last holder wrote its
// last version, and the claims after it had left.
func (a *acquirer) confirmed(r reply) request {
	if r.status != statusDone {
		return a.withdraw(acquired{err: r.err})
	}
	a.seen.newest = max(a.seen.newest, r.view.newest)
	for c, how := range r.view.ended {
		a.seen = a.seen.with(c, how)
	}
	if next, decided := a.unfit(r.view); decided {
		return next
	}
	if a.outnumbered(a.seen) {
		return a.withdraw(acquired{})
	}
	return a.win()
}

// unfit handles a list that shows our claim ended, or not at all.
func (a *acquirer) unfit(v view) (request, bool) {
	switch {
	case v.ended[a.claim] != 0:
		return a.end(acquired{err: errOvertaken}), true
	case v.has(a.claim) || a.rules.ownClaimMissing:
		return request{}, false
	}
	p, ok := backoff(a.waits)
	if !ok {
		return a.bury(acquired{err: errStaleList}), true
	}
	a.waits++
	return a.pause(p), true
}

// pause waits before the list of phaseCheck is repeated; every decision is
// then taken anew.
func (a *acquirer) pause(p pause) request {
	a.phase = phasePause
	return request{op: opWait, wait: p}
}

func (a *acquirer) rivals(v view) []claimID {
	var rivals []claimID
	for _, c := range v.live() {
		if c != a.claim && !a.ignores(c) {
			rivals = append(rivals, c)
		}
	}
	return rivals
}

func (a *acquirer) outnumbered(v view) bool {
	return v.newest >= a.claim.fence || (!a.rules.noJump && v.floor() > a.claim.fence)
}

// contend lets the smallest of several live claims look again while the others
// leave, so that one of them gets through.
func (a *acquirer) contend(v view, rivals []claimID) request {
	smallest := compareClaims(a.claim, rivals[0]) < 0
	rivalWon := v.marker && !a.marked
	if a.repeats++; !smallest || rivalWon || a.repeats > maxRelists {
		return a.withdraw(acquired{held: true, by: rivals[0]})
	}
	return a.pause(contentionWait())
}

func (a *acquirer) win() request {
	a.result, a.repeats = acquired{won: true, newest: a.seen.newest, next: a.claim.fence}, 0
	if a.seen.floor() > a.seen.newest && !a.rules.noSeal {
		return a.seal()
	}
	return a.mark()
}

// seal copies the head to our first number, so that nothing an overtaken
// holder still writes can become the head.
func (a *acquirer) seal() request {
	a.phase = phaseSeal
	return request{op: opPutSeal, claim: a.claim, n: a.claim.fence, head: a.seen.newest}
}

func (a *acquirer) sealed(r reply) request {
	if r.status == statusDone {
		return a.list(phaseSealed)
	}
	if a.repeats++; r.status == statusUncertain && a.repeats < maxRepeats {
		return a.seal()
	}
	return a.buryForced(acquired{err: r.err})
}

// sealSeen makes sure of the seal, as saver does of a version.
func (a *acquirer) sealSeen(r reply) request {
	switch {
	case r.status != statusDone:
		return a.buryForced(acquired{err: r.err})
	case r.view.ended[a.claim] != 0 || r.view.newest > a.claim.fence:
		return a.end(acquired{err: errOvertaken})
	case r.view.newest < a.claim.fence:
		return a.buryForced(acquired{err: errStaleList})
	}
	a.result = acquired{won: true, newest: a.claim.fence, next: a.claim.fence + 1, sealed: true}
	return a.mark()
}

func (a *acquirer) mark() request {
	a.phase = phaseMark
	return request{op: opPutMarker, claim: a.claim}
}

// withdraw ends our claim, which has written nothing, and then ends with res;
// the zero res means to claim again.
func (a *acquirer) withdraw(res acquired) request {
	a.phase, a.result = phaseWithdraw, res
	a.release = releaser{claim: a.claim, can: a.can, rules: a.rules}
	return a.withdrew(reply{})
}

func (a *acquirer) withdrew(r reply) request {
	req := a.release.next(r)
	if req.op != opDone {
		return req
	}
	a.can = a.release.can
	if a.result.err == nil && !a.result.held && a.release.err == nil {
		a.repeats = 0
		return a.makeClaim()
	}
	a.result.err = errors.Join(a.result.err, a.release.err)
	return a.end(a.result)
}

// bury ends our claim by a tombstone, whether or not it ever arrived.
func (a *acquirer) bury(res acquired) request {
	a.phase, a.result, a.repeats = phaseBury, res, 0
	return request{op: opPutTombstone, claim: a.claim, reason: artifact.ReasonUncertain}
}

func (a *acquirer) buryForced(res acquired) request {
	req := a.bury(res)
	req.forced = true
	a.release.forced = true
	return req
}

func (a *acquirer) buried(r reply) request {
	if a.repeats++; r.status != statusDone && a.repeats < maxRepeats {
		return request{op: opPutTombstone, claim: a.claim, forced: a.release.forced, reason: artifact.ReasonUncertain}
	}
	if r.status != statusDone {
		a.result.err = errors.Join(a.result.err, r.err)
	}
	return a.end(a.result)
}
