// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// acquirer takes a lock, or takes part in one that its client holds through another
// process already. Its phases name the reply it waits for.
//
// Claims of one id are those of one client, made by the processes that answered its
// requests. An acquirer never ends one of them to make its own: whoever asks for
// another lock must see at least one of them as long as the client holds.
type acquirer struct {
	lockID   string
	base     uint32        // random; with the attempt it makes claims unique
	resume   bool          // only if the id holds the lock already
	takeOver bool          // end whatever live claim is there
	overdue  overdue       // end these
	patience int           // how often to begin anew, at most [maxAnew]
	settle   time.Duration // after this time a list shows a finished push
	snapshot bool          // a list is the state at one instant
	can      abilities

	phase   acquirePhase
	claim   claimID // of the current attempt
	root    claimID // resume: the claim by which the client won
	attempt uint32
	moved   int  // how often numbers moved on under a claim
	anewed  int  // how often it began anew
	seen    view // the last list
	marked  bool // locked-W was there before we came
	doomed  []claimID
	waits   int // for the current claim
	repeats int
	settled bool // the settling wait is over
	release releaser
	then    afterClaim
	result  acquired
}

// acquired is the outcome of an acquirer.
type acquired struct {
	won    bool
	held   bool    // by somebody else:
	by     claimID // this claim, or an older tool's marker if zero
	ended  bool    // resume: the id does not hold the lock, or not any more
	newest int64   // won: the highest version
	next   int64   // won: the first number to write
	sealed bool
	joined bool // won beside older claims of the id: until next is written, they may write below
	err    error
}

// afterClaim is what to do when the own claim has ended.
type afterClaim uint8

const (
	afterEnd    afterClaim = iota
	afterClaims            // claim again, by the last list
	afterAnew              // begin anew, by a new list
	afterRefuse            // end the other claims of the id
)

type acquirePhase uint8

const (
	phaseStart acquirePhase = iota
	phaseLook
	phaseRoot
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
	phaseAnew
	phaseEnd
)

const (
	// maxAttempts bounds the claims that an acquirer makes because version numbers
	// moved on in between.
	maxAttempts = 5
	// maxRelists bounds how often the smallest of several live claims looks again.
	maxRelists = 4
	// maxAnew bounds how often an acquirer begins anew: after a claim that the registry
	// did not take, or beside another process that answers for the same client. With
	// its waits that is some ten seconds.
	maxAnew = 7
)

var errCrowded = errors.New("version numbers kept moving")

// passing is an error of an attempt that may succeed when it is made again. It is an
// [oci.ErrUnavailable].
type passing string

const (
	errStaleList = passing("the registry's tag list does not show its own writes")
	errOvertaken = passing("the lock was taken over while it was being acquired")
	errBeside    = passing("other servers answer requests under the same lock at this moment")
)

func (e passing) Error() string        { return string(e) }
func (e passing) Is(target error) bool { return target == oci.ErrUnavailable }

// next takes the reply to the last request and returns the next one. The first
// reply is ignored. After opDone, result is set.
func (a *acquirer) Next(r reply) request {
	switch a.phase {
	case phaseStart:
		return a.list(phaseLook)
	case phaseLook:
		return a.looked(r)
	case phaseRoot:
		return a.readRoot(r)
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
	case phaseAnew:
		return a.list(phaseLook)
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
// nothing while somebody else holds, so that polling does no harm. Where a claim of
// our own id is live, that one may hold, or nobody yet: this is decided with a claim.
func (a *acquirer) looked(r reply) request {
	if r.status != statusDone {
		return a.end(acquired{err: errors.Join(a.result.err, r.err)})
	}
	a.seen, a.marked, a.settle = r.view, r.view.marker, r.settle
	a.doomed, a.result = nil, acquired{}
	ours := a.siblings(r.view)
	if a.resume {
		return a.join(ours)
	}
	for _, c := range r.view.live() {
		switch {
		case a.ours(c) && !a.takeOver:
		case a.mayEnd(c):
			a.doomed = append(a.doomed, c)
		case len(ours) == 0:
			return a.end(acquired{held: true, by: c})
		}
	}
	if r.promoted {
		// What still arrives from the old primary must stay below, as if a lock
		// there had been taken over.
		a.doomed = append(a.doomed, claimID{fence: r.view.newest + 1, x: format.ClaimX(a.lockID, a.base)})
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
		a.result = acquired{held: true}
		return a.refuse()
	}
	return a.overtake()
}

// overtake ends the doomed claims one by one. Then it claims, or ends as it was refused.
func (a *acquirer) overtake() request {
	if len(a.doomed) == 0 {
		if a.result.held {
			return a.end(a.result)
		}
		return a.makeClaim()
	}
	a.phase = phaseOvertake
	reason := cmp.Or(a.overdue[a.doomed[0]], format.ReasonForced)
	if a.result.held {
		reason = format.ReasonRefused
	}
	return request{op: opPutTombstone, claim: a.doomed[0], forced: true, reason: reason}
}

func (a *acquirer) overtook(r reply) request {
	if r.status != statusDone {
		if a.repeats++; r.mayPass() && a.repeats < maxRepeats {
			return a.overtake()
		}
		return a.end(acquired{err: r.err})
	}
	a.seen = a.seen.with(a.doomed[0], endedForced)
	a.doomed, a.repeats = a.doomed[1:], 0
	return a.overtake()
}

// makeClaim picks the number from the last list and writes the claim.
func (a *acquirer) makeClaim() request {
	a.attempt++
	a.claim = claimID{fence: a.first(), x: format.ClaimX(a.lockID, a.base+a.attempt)}
	a.phase, a.waits, a.settled = phaseClaim, 0, false
	return request{op: opPutClaim, claim: a.claim, root: a.root}
}

// first is the first number above all that the claims in the last list may write.
func (a *acquirer) first() int64 {
	first := max(a.seen.newest+1, a.seen.floor())
	for _, c := range a.siblings(a.seen) {
		first = max(first, c.fence+jump)
	}
	return first
}

// beside tells whether another process takes part under our id at this moment, with
// numbers that are not all below ours: of two such none may write.
func (a *acquirer) beside(v view) bool {
	return slices.ContainsFunc(a.siblings(v), func(c claimID) bool {
		return c.fence+jump > a.claim.fence
	})
}

func (a *acquirer) claimed(r reply) request {
	switch {
	case r.status == statusDone:
		return a.list(phaseCheck)
	case r.status == statusUncertain:
		// The claim may arrive at any time: it has to be dead by then.
		return a.bury(afterAnew, acquired{err: r.err})
	case oci.Passing(r.err):
		return a.anew(acquired{err: r.err}, r.after)
	}
	return a.end(acquired{err: r.err})
}

// anew begins again from the first list, after a pause of least at the least; res is
// the outcome when that was done often enough.
func (a *acquirer) anew(res acquired, least time.Duration) request {
	p, ok := backoff(a.anewed)
	if !ok || a.anewed >= a.patience {
		return a.end(res)
	}
	a.anewed++
	a.phase, a.result, a.claim, a.repeats = phaseAnew, res, claimID{}, 0
	p.least = max(p.least, least)
	p.most = 2 * p.least // so that two processes do not meet again
	return request{op: opWait, wait: p}
}

// checked decides on a list after the claim: the lock is won if every other
// claim has ended and no number can be written by anybody else. Who takes part in a
// lock need not look at claims of other ids: the root of it is live, so none of
// them has won, and none can.
func (a *acquirer) checked(r reply) request {
	if r.status != statusDone {
		return a.withdraw(afterEnd, acquired{err: r.err})
	}
	a.seen = r.view
	if next, decided := a.unfit(r.view); decided {
		return next
	}
	if a.resume && !r.view.alive(a.root) {
		return a.withdraw(afterAnew, acquired{err: errBeside}) // ended, or won by more than one claim
	}
	if a.beside(r.view) {
		return a.withdraw(afterAnew, acquired{err: errBeside})
	}
	if a.resume {
		return a.alone()
	}
	if rivals := a.rivals(r.view); len(rivals) > 0 {
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
		return a.withdraw(afterEnd, acquired{err: r.err})
	case r.status == statusDone && r.owner == ownerForeign:
		return a.withdraw(afterRefuse, acquired{held: true})
	}
	a.marked = true
	return a.alone()
}

// alone decides on the last list, in which nobody else claims.
func (a *acquirer) alone() request {
	switch {
	case a.outnumbered(a.seen):
		return a.withdraw(afterClaims, acquired{})
	case a.settle > 0 && !a.settled:
		a.phase = phaseSettle
		return request{op: opWait, wait: pause{a.settle, a.settle}}
	case a.snapshot:
		return a.win()
	}
	return a.list(phaseConfirm)
}

// confirmed decides on one more list, needed where a list is read key by key:
// the first may have read the version tags before the last holder wrote its
// last version, and the claims after it had left. So may the claim of another
// process of the same client have, whose numbers were ours.
func (a *acquirer) confirmed(r reply) request {
	if r.status != statusDone {
		return a.withdraw(afterEnd, acquired{err: r.err})
	}
	a.seen.newest = max(a.seen.newest, r.view.newest)
	for c, how := range r.view.ended {
		a.seen = a.seen.with(c, how)
	}
	if next, decided := a.unfit(r.view); decided {
		return next
	}
	if a.outnumbered(a.seen) {
		return a.withdraw(afterClaims, acquired{})
	}
	return a.win()
}

// unfit handles a list that shows our claim ended, or not at all.
func (a *acquirer) unfit(v view) (request, bool) {
	switch {
	case v.ended[a.claim] != 0 && a.resume:
		return a.anew(acquired{err: errOvertaken}, 0), true
	case v.ended[a.claim] != 0:
		return a.end(acquired{err: errOvertaken}), true
	case v.has(a.claim):
		return request{}, false
	}
	p, ok := backoff(a.waits)
	if !ok {
		return a.bury(afterEnd, acquired{err: errStaleList}), true
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
		if c != a.claim && !a.ours(c) {
			rivals = append(rivals, c)
		}
	}
	return rivals
}

func (a *acquirer) outnumbered(v view) bool {
	return v.newest >= a.claim.fence || v.floor() > a.claim.fence
}

// contend lets the smallest of several live claims look again while the others
// leave, so that one of them gets through. Beside older claims of our id everybody
// is waited for: one of these may hold, and then all others leave.
func (a *acquirer) contend(v view, rivals []claimID) request {
	ours := len(a.siblings(v)) > 0
	smallest := compareClaims(a.claim, rivals[0]) < 0
	rivalWon := v.marker && !a.marked
	if a.repeats++; !ours && (!smallest || rivalWon) || a.repeats > maxRelists {
		return a.withdraw(afterRefuse, acquired{held: true, by: rivals[0]})
	}
	return a.pause(contentionWait())
}

func (a *acquirer) win() request {
	a.result, a.repeats = acquired{won: true, newest: a.seen.newest, next: a.claim.fence}, 0
	a.result.joined = len(a.siblings(a.seen)) > 0
	switch {
	case a.resume:
		return a.end(a.result)
	case a.seen.floor() > a.seen.newest:
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
	if a.repeats++; r.mayPass() && a.repeats < maxRepeats {
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
	a.result = acquired{won: true, newest: a.claim.fence, next: a.claim.fence + 1, sealed: true, joined: a.result.joined}
	return a.mark()
}

func (a *acquirer) mark() request {
	a.phase = phaseMark
	return request{op: opPutMarker, claim: a.claim}
}

// withdraw ends our claim, which has written nothing.
func (a *acquirer) withdraw(then afterClaim, res acquired) request {
	a.phase, a.then, a.result = phaseWithdraw, then, res
	a.release = releaser{claim: a.claim, can: a.can}
	return a.withdrew(reply{})
}

func (a *acquirer) withdrew(r reply) request {
	req := a.release.Next(r)
	if req.op != opDone {
		return req
	}
	a.can = a.release.can
	return a.over(a.release.err)
}

// over goes on when our claim has ended; with an error it may still be live.
func (a *acquirer) over(err error) request {
	a.seen = a.seen.without(a.claim)
	a.claim, a.repeats = claimID{}, 0
	switch {
	case err != nil:
		a.result.err = errors.Join(a.result.err, err)
	case a.then == afterClaims:
		if a.moved++; a.moved < maxAttempts {
			return a.makeClaim()
		}
		a.result.err = errCrowded
	case a.then == afterAnew:
		return a.anew(a.result, 0)
	case a.then == afterRefuse:
		return a.refuse()
	}
	return a.end(a.result)
}

// bury ends our claim by a tombstone, whether or not it ever arrived.
func (a *acquirer) bury(then afterClaim, res acquired) request {
	a.phase, a.then, a.result, a.repeats = phaseBury, then, res, 0
	return request{op: opPutTombstone, claim: a.claim, reason: format.ReasonUncertain}
}

func (a *acquirer) buryForced(res acquired) request {
	req := a.bury(afterEnd, res)
	req.forced = true
	a.release.forced = true
	return req
}

func (a *acquirer) buried(r reply) request {
	if a.repeats++; r.status != statusDone && a.repeats < maxRepeats {
		return request{op: opPutTombstone, claim: a.claim, forced: a.release.forced, reason: format.ReasonUncertain}
	}
	if r.status != statusDone {
		return a.over(r.err)
	}
	return a.over(nil)
}

// overdue are claims that may be ended without a command, and why: their lease
// is over, or they were never acknowledged.
type overdue map[claimID]format.LockReason

// mayEnd tells whether the acquirer may end a live claim.
func (a *acquirer) mayEnd(c claimID) bool {
	_, over := a.overdue[c]
	return a.takeOver || over
}
