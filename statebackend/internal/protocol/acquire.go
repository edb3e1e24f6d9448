// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Acquirer takes a lock, or joins one that its client already holds through another process. Its
// phases are named after the reply it waits for.
//
// Claims of one id are those of one client, made by the processes that answered it. An acquirer
// never ends one to make its own: others must see at least one as long as the client holds.
type Acquirer struct {
	LockID   string
	Base     uint32        // random; with the attempt it makes claims unique
	Resume   bool          // only if the id holds the lock already
	TakeOver bool          // end every live claim
	Overdue  Overdue       // end these claims
	Patience int           // how often to start again, at most [MaxAnew]
	settle   time.Duration // after this time a list shows a finished push
	snapshot bool          // a list is the state at one instant
	Can      Abilities

	phase    acquirePhase
	Claim    ClaimID // of the current attempt
	Root     ClaimID // resume: the claim by which the client won
	Beside   ClaimID // the live claim of the id beside which the current one is made; zero: none, or resume
	live     ClaimID // resume: the one beside which the root was made
	attempt  uint32
	moved    int       // how often the version numbers moved on during a claim
	anewed   int       // how often it started again
	last     Snapshot  // the last list
	marked   bool      // locked-W was there in the first list
	promoted bool      // the repository was a replica until that list
	known    []ClaimID // live claims that have our id and owner
	others   []ClaimID // claims that have only its hash
	asked    ClaimID   // whose owner is being read
	doomed   []ClaimID
	ends     []ClaimID // resume: ended claims of the id whose reason is not read yet
	unread   error     // resume: why a claim of the id could not be read
	waits    int       // for the current claim
	repeats  int
	late     bool // the confirming list showed another claim of the id
	settled  bool // the settling wait is over
	release  releaser
	then     afterClaim
	Result   Acquired
}

// Acquired is the result of an acquirer.
type Acquired struct {
	Won    bool
	Held   bool    // by another client:
	By     ClaimID // this claim, or an older tool's marker if zero
	Ended  bool    // resume: the id does not hold the lock, or no longer holds it
	newest int64   // won: the highest version
	next   int64   // won: the first number to write
	Sealed bool
	joined bool // won beside older claims of the id, which may write below until next is written
	beside bool // won, and some list after the claim showed another claim of the id
	Err    error
}

type afterClaim uint8

const (
	afterEnd    afterClaim = iota
	afterClaims            // claim again, from the last list
	afterAnew              // start again, with a new list
	afterRefuse            // end the other claims of the id
	afterRoot              // resume: look for another root
)

type acquirePhase uint8

const (
	phaseStart acquirePhase = iota
	phaseLook
	phaseRoot
	phaseOwner
	phaseOwnerAgain
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
	phaseEnds
	phaseWithdraw
	phaseAnew
	phaseEnd
)

const (
	// maxAttempts bounds the claims made because version numbers moved on meanwhile.
	maxAttempts = 5
	// maxRelists bounds how often the smallest of several live claims lists again.
	maxRelists = 4
	// MaxAnew bounds how often an acquirer starts again: after a claim that was not taken, or
	// beside another process of the client. With the waits this takes about ten seconds.
	MaxAnew = 7
)

var ErrCrowded = errors.New("version numbers kept moving")

// passing is an error of an attempt that may succeed on a retry. It is an [oci.ErrUnavailable].
type passing string

const (
	errStaleList = passing("the registry's tag list does not show its own writes")
	errOvertaken = passing("the lock was taken over while it was being acquired")
	errContended = passing("other clients are trying to lock")
	ErrBeside    = passing("other servers are handling requests under the same lock")
)

func (e passing) Error() string        { return string(e) }
func (e passing) Is(target error) bool { return target == oci.ErrUnavailable }

// Next takes the last reply, at first none, and returns the next request. OpDone: Result is set.
func (a *Acquirer) Next(r Reply) Request {
	switch a.phase {
	case phaseStart:
		return a.listForPhase(phaseLook)
	case phaseLook:
		return a.afterFirstList(r)
	case phaseRoot:
		return a.readRoot(r)
	case phaseOwner, phaseOwnerAgain:
		return a.readOwner(r)
	case phaseMarker:
		return a.readMarker(r)
	case phaseOvertake:
		return a.afterOvertake(r)
	case phaseClaim:
		return a.afterClaim(r)
	case phaseCheck:
		return a.afterCheckList(r)
	case phaseMarkerAgain:
		return a.readMarkerAgain(r)
	case phasePause:
		return a.listForPhase(phaseCheck)
	case phaseSettle:
		a.settled = true
		return a.listForPhase(phaseCheck)
	case phaseConfirm:
		return a.afterConfirmList(r)
	case phaseSeal:
		return a.afterSeal(r)
	case phaseSealed:
		return a.sealListed(r)
	case phaseMark:
		return a.endAcquire(a.Result) // the marker is best effort
	case phaseEnds:
		return a.readEnd(r)
	case phaseWithdraw:
		return a.afterWithdraw(r)
	case phaseAnew:
		return a.listForPhase(phaseLook)
	}
	return Request{Op: OpDone}
}

func (a *Acquirer) listForPhase(p acquirePhase) Request {
	a.phase = p
	return Request{Op: OpList}
}

func (a *Acquirer) endAcquire(res Acquired) Request {
	a.phase = phaseEnd
	a.Result = res
	return Request{Op: OpDone}
}

// afterFirstList decides: held, to be overtaken, or free. While another client holds the lock it
// writes nothing, so that polling does no harm. A claim shows whether a live one of our id holds.
func (a *Acquirer) afterFirstList(r Reply) Request {
	if r.Status != StatusDone {
		return a.endAcquire(Acquired{Err: errors.Join(a.Result.Err, r.Err)})
	}
	a.last = r.Snapshot
	a.marked = r.Snapshot.Marker
	a.settle = r.Settle
	a.doomed = nil
	a.unread = nil
	a.Result = Acquired{}
	a.promoted = r.Promoted
	if a.Resume {
		a.Root = ClaimID{}
		return a.join()
	}
	return a.afterOwners()
}

// afterOwners decides on the first list, once the owners of its claims are known.
func (a *Acquirer) afterOwners() Request {
	mine := a.contestIn(a.last)
	if c := mine.firstUnread(a.known); c != (ClaimID{}) && !a.TakeOver {
		return a.askOwner(phaseOwner, c)
	}
	ours := mine.siblingClaims()
	for _, c := range a.last.Live() {
		switch {
		case mine.isOurs(c) && !a.TakeOver:
		case a.TakeOver, a.Overdue[c] != "":
			a.doomed = append(a.doomed, c)
		case len(ours) == 0:
			return a.endAcquire(Acquired{Held: true, By: c})
		}
	}
	if a.promoted {
		// Late writes of the old primary must stay below, as after a takeover there.
		a.doomed = append(a.doomed, ClaimID{Fence: a.last.Newest + 1, X: format.ClaimX(a.LockID, a.Base)})
	}
	if a.last.Marker && !a.TakeOver {
		a.phase = phaseMarker
		return Request{Op: OpReadMarker}
	}
	return a.overtakeDoomed()
}

func (a *Acquirer) askOwner(then acquirePhase, c ClaimID) Request {
	a.phase = then
	a.asked = c
	return Request{Op: OpReadOwner, Claim: c}
}

// readOwner notes whose a claim is that looks like ours. One that cannot be read was never
// acknowledged, or has ended: it does not matter.
func (a *Acquirer) readOwner(r Reply) Request {
	again := a.phase == phaseOwnerAgain
	switch {
	case r.Status != StatusDone && r.Status != StatusMissing && again:
		return a.endClaim(releaser{}, afterEnd, Acquired{Err: r.Err})
	case r.Status != StatusDone && r.Status != StatusMissing:
		return a.endAcquire(Acquired{Err: r.Err})
	case r.Foreign:
		a.others = append(slices.Clip(a.others), a.asked)
	default:
		a.known = append(slices.Clip(a.known), a.asked)
	}
	if again {
		return a.decide()
	}
	return a.afterOwners()
}

func (a *Acquirer) readMarker(r Reply) Request {
	switch {
	case r.Status != StatusDone && r.Status != StatusMissing:
		return a.endAcquire(Acquired{Err: r.Err})
	case r.Status == StatusDone && r.Owner == OwnerForeign:
		a.Result = Acquired{Held: true}
		return a.refuseSiblings()
	}
	return a.overtakeDoomed()
}

// overtakeDoomed ends the doomed claims one by one. Then it claims, or ends if it was refused.
func (a *Acquirer) overtakeDoomed() Request {
	if len(a.doomed) == 0 {
		if a.Result.Held {
			return a.endAcquire(a.Result)
		}
		return a.makeClaim()
	}
	a.phase = phaseOvertake
	reason := cmp.Or(a.Overdue[a.doomed[0]], format.ReasonForced)
	if a.Result.Held {
		reason = format.ReasonRefused
	}
	return Request{Op: OpPutTombstone, Claim: a.doomed[0], Forced: true, Reason: reason}
}

func (a *Acquirer) afterOvertake(r Reply) Request {
	if r.Status != StatusDone {
		if a.repeats++; r.MayPass() && a.repeats < maxRepeats {
			return a.overtakeDoomed()
		}
		return a.endAcquire(Acquired{Err: r.Err})
	}
	a.last = a.last.withTombstone(a.doomed[0], EndedForced)
	a.doomed = a.doomed[1:]
	a.repeats = 0
	return a.overtakeDoomed()
}

func (a *Acquirer) makeClaim() Request {
	a.attempt++
	skip := int64(reach)
	if a.Resume {
		skip = Jump
	} else {
		a.Beside = a.contestIn(a.last).oldestSibling()
	}
	a.Claim = ClaimID{Fence: a.contestIn(a.last).firstFree(skip), X: format.ClaimX(a.LockID, a.Base+a.attempt)}
	a.phase = phaseClaim
	a.waits = 0
	a.settled = false
	return Request{Op: OpPutClaim, Claim: a.Claim, Root: a.Root, Beside: a.Beside}
}

func (a *Acquirer) afterClaim(r Reply) Request {
	switch {
	case r.Status == StatusDone:
		return a.listForPhase(phaseCheck)
	case r.Status == StatusUncertain:
		// The claim may arrive at any time: it must have a tombstone by then.
		return a.endClaim(releaser{unsure: true}, afterAnew, Acquired{Err: r.Err})
	case oci.Passing(r.Err):
		return a.startAnew(Acquired{Err: r.Err}, r.After)
	}
	return a.endAcquire(Acquired{Err: r.Err})
}

// startAnew starts again after at least minPause; when attempts are used up, res is the result.
func (a *Acquirer) startAnew(res Acquired, minPause time.Duration) Request {
	p, ok := backoff(a.anewed)
	if !ok || a.anewed >= a.Patience {
		return a.endAcquire(res)
	}
	a.anewed++
	a.phase = phaseAnew
	a.Result = res
	a.Claim = ClaimID{}
	a.repeats = 0
	p.Min = max(p.Min, minPause)
	p.Max = 2 * p.Min // random, so that two processes do not collide again
	return Request{Op: OpWait, Wait: p}
}

// afterCheckList decides on a list after the claim: the lock is won if every other claim has ended
// and no other process can write a number from ours on. A process that joins a lock need not check
// claims of other ids: its root is live, so none of them has won, and none can.
func (a *Acquirer) afterCheckList(r Reply) Request {
	if r.Status != StatusDone {
		return a.endClaim(releaser{}, afterEnd, Acquired{Err: r.Err})
	}
	a.last = r.Snapshot
	if next, decided := a.handleUnfit(r.Snapshot); decided {
		return next
	}
	return a.decide()
}

// decide is afterCheckList once the own claim is listed.
func (a *Acquirer) decide() Request {
	list := a.last
	if c := a.contestIn(list).firstUnread(a.known); c != (ClaimID{}) && !a.Resume {
		return a.askOwner(phaseOwnerAgain, c)
	}
	if a.Resume && !list.Alive(a.Root) {
		return a.endClaim(releaser{}, afterAnew, Acquired{Err: ErrBeside}) // ended, or won by more than one claim
	}
	if a.contestIn(list).hasJoining() {
		return a.endClaim(releaser{}, afterAnew, Acquired{Err: ErrBeside})
	}
	if a.Resume {
		a.ends = a.contestIn(list).unknownTo(a.Root, a.live)
		return a.readEnd(Reply{})
	}
	if rivals := a.contestIn(list).rivalClaims(); len(rivals) > 0 {
		return a.contend(list, rivals)
	}
	if list.Marker && !a.marked && !a.TakeOver {
		a.phase = phaseMarkerAgain
		return Request{Op: OpReadMarker}
	}
	return a.decideAlone()
}

// readMarkerAgain decides on a marker that came later: an older tool locks without a claim.
func (a *Acquirer) readMarkerAgain(r Reply) Request {
	switch {
	case r.Status != StatusDone && r.Status != StatusMissing:
		return a.endClaim(releaser{}, afterEnd, Acquired{Err: r.Err})
	case r.Status == StatusDone && r.Owner == OwnerForeign:
		return a.endClaim(releaser{}, afterRefuse, Acquired{Held: true})
	}
	a.marked = true
	return a.decideAlone()
}

// decideAlone decides on the last list, in which there is no rival claim.
func (a *Acquirer) decideAlone() Request {
	switch {
	case a.contestIn(a.last).isOutnumbered():
		return a.endClaim(releaser{}, afterClaims, Acquired{})
	case a.settle > 0 && !a.settled:
		a.phase = phaseSettle
		return Request{Op: OpWait, Wait: Pause{a.settle, a.settle}}
	case a.snapshot:
		return a.winLock()
	}
	return a.listForPhase(phaseConfirm)
}

// afterConfirmList decides on one more list, needed where a list is read key by key: the first may
// have read the versions before the last holder's last write, and the claims after its release. So
// it may also miss a claim of another process of the client, with the same numbers as ours.
func (a *Acquirer) afterConfirmList(r Reply) Request {
	if r.Status != StatusDone {
		return a.endClaim(releaser{}, afterEnd, Acquired{Err: r.Err})
	}
	a.late = a.late || len(a.contestIn(r.Snapshot).siblingClaims()) > 0
	a.last.Newest = max(a.last.Newest, r.Snapshot.Newest)
	for c, how := range r.Snapshot.Ended {
		a.last = a.last.withTombstone(c, how)
	}
	if next, decided := a.handleUnfit(r.Snapshot); decided {
		return next
	}
	if a.contestIn(a.last).isOutnumbered() {
		return a.endClaim(releaser{}, afterClaims, Acquired{})
	}
	return a.winLock()
}

func (a *Acquirer) handleUnfit(v Snapshot) (Request, bool) {
	switch {
	case v.Ended[a.Claim] != 0 && a.Resume:
		return a.startAnew(Acquired{Err: errOvertaken}, 0), true
	case v.Ended[a.Claim] != 0:
		return a.endAcquire(Acquired{Err: errOvertaken}), true
	case v.Has(a.Claim):
		return Request{}, false
	}
	p, ok := backoff(a.waits)
	if !ok {
		return a.endClaim(releaser{unsure: true}, afterEnd, Acquired{Err: errStaleList}), true
	}
	a.waits++
	return a.pause(p), true
}

// pause waits before the list of phaseCheck is repeated, with all decisions.
func (a *Acquirer) pause(p Pause) Request {
	a.phase = phasePause
	return Request{Op: OpWait, Wait: p}
}

// contend lets the smallest of several live claims list again while the others withdraw. With older
// claims of our id it waits for every rival: one of the older may hold, and then all withdraw.
func (a *Acquirer) contend(v Snapshot, rivals []ClaimID) Request {
	ours := len(a.contestIn(v).siblingClaims()) > 0
	smallest := CompareClaims(a.Claim, rivals[0]) < 0
	rivalWon := v.Marker && !a.marked
	if a.repeats++; !ours && (!smallest || rivalWon) || a.repeats > maxRelists {
		return a.endClaim(releaser{}, afterRefuse, Acquired{Held: true, By: rivals[0]})
	}
	return a.pause(contentionWait())
}

func (a *Acquirer) winLock() Request {
	a.Result = Acquired{Won: true, newest: a.last.Newest, next: a.Claim.Fence}
	a.repeats = 0
	a.Result.joined = len(a.contestIn(a.last).siblingClaims()) > 0
	a.Result.beside = a.Result.joined || a.late
	overtaken := a.last.Floor() > a.last.Newest // a holder that may still write
	switch {
	case a.Resume:
		return a.endAcquire(a.Result)
	case overtaken && a.contestIn(a.last).sealNumber() > a.last.Newest:
		return a.copyHead()
	}
	a.phase = phaseMark
	return Request{Op: OpPutMarker, Claim: a.Claim}
}

// endClaim ends our claim, which has written nothing or a seal, with the releaser how.
func (a *Acquirer) endClaim(how releaser, then afterClaim, res Acquired) Request {
	how.claim = a.Claim
	how.Can = a.Can
	a.phase = phaseWithdraw
	a.then = then
	a.Result = res
	a.release = how
	return a.afterWithdraw(Reply{})
}

func (a *Acquirer) afterWithdraw(r Reply) Request {
	req := a.release.Next(r)
	if req.Op != OpDone {
		return req
	}
	a.Can = a.release.Can
	return a.continueAfter(a.release.Err)
}

// continueAfter continues after our claim has ended; with an error it may still be live.
func (a *Acquirer) continueAfter(err error) Request {
	a.last = a.last.withoutClaim(a.Claim)
	a.Claim = ClaimID{}
	a.repeats = 0
	switch {
	case err != nil:
		a.Result.Err = errors.Join(a.Result.Err, err)
	case a.then == afterClaims:
		if a.moved++; a.moved < maxAttempts {
			return a.makeClaim()
		}
		a.Result.Err = ErrCrowded
	case a.then == afterAnew:
		return a.startAnew(a.Result, 0)
	case a.then == afterRefuse:
		return a.refuseSiblings()
	case a.then == afterRoot:
		return a.join()
	}
	return a.endAcquire(a.Result)
}
