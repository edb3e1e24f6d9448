// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"strconv"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// The world is a registry and clients that run the real machines, step by step: TestExplore tries
// all, TestSimulate chooses by a seed, and each step is checked against the registry.

// lists is the consistency of tag lists.
type lists uint8

const (
	// listByKey reads key by key: all finished pushes, and any of later ones.
	listByKey lists = iota
	// listPrefix is a snapshot, maybe old.
	listPrefix
	// listLag: keys lag independently. No lock is safe on it; doctor must detect it.
	listLag
)

// deletes is the effect of DELETE.
type deletes uint8

const (
	deleteAll     deletes = iota
	deleteNone            // unsupported
	deleteLeaves          // by digest: the tag stays in the list. By tag: works
	deleteTagOnly         // by digest: unsupported
)

// setup is the constant part of a world.
type setup struct {
	lists           lists
	ownWrites       bool // listPrefix: a list includes its reader's last write
	whole           bool // listByKey: all keys at once
	descending      bool // listByKey: the order of reading
	chunks          bool // listByKey: in three parts; else key by key
	deletes         deletes
	clients         int
	cycles          int  // lock, put, unlock per client
	puts            int  // per cycle
	checks          int  // per cycle: checks by a holder whether it still holds
	faults          int  // budget: lost, late or repeated requests
	crashes         int  // budget
	refusals        int  // budget: claims that are answered by an error and not applied
	takeOvers       int  // budget: locks that end any other lock
	forces          int  // budget: force-unlocks of a holder
	older           bool // a force-unlock does not copy the head, as by an older program or one that dies
	abandonedClaims int  // budget: claims that are listed before they can be read
	ticks           int  // budget: thirds of a lease that pass; with any, locks have leases

	// For a world of persons, which has no clients of its own:
	persons  int
	servers  int
	causal   bool // listPrefix: a list includes all updates that were reported to its person
	giveUps  int  // budget: persons that do not wait for an answer
	losses   int  // budget: answers that do not reach their person, who asks again
	patience int  // how often a server starts again
	same     bool // the persons are different callers who send one lock id
	brief    bool // the second person asks one server, and is done after the answer
	reads    bool // the last write is a read, and a person that does not wait for a write continues with it
}

// content distinguishes two manifests under one tag.
type content struct {
	claim ClaimID
	put   int
}

type entry struct {
	tag string
	content
	half   bool              // listed, but its GET answers 404
	root   ClaimID           // for a claim: the claim that it joined
	beside ClaimID           // for a claim: the live one of its id that its maker saw
	why    format.LockReason // for a tombstone
	seal   bool              // for a version: a copy of version head
	head   int64             // for a version: the one that it was made from
}

// update is a change of one tag.
type update struct {
	entry
	remove bool
	after  []entry // listPrefix: all tags with it
}

type stage uint8

const (
	stageIdle stage = iota
	stageLocking
	stageHolding // between requests
	stagePutting
	stageReleasing
	stageForcing
	stageSealing
	stageChecking
	stageCrashed
	stageDone
)

type client struct {
	stage     stage
	acq       Acquirer
	save      saver
	rel       releaser
	force     Forcer
	seal      Sealer
	req       Request
	listed    []string // listByKey: keys read so far
	cursor    string
	chunk     int
	lastWrite int // listPrefix: position of the last own update

	abandoned ClaimID     // a claim that this client observed and may end next
	seen      Observation // the claim that it observed last
	expired   ClaimID     // a claim that it may end next because its lease has expired
	hold      Hold
	checks    int
	overtaken bool // before the list of its Check began
	wins      int  // locks that were acquired
	cycles    int
	puts      int
	attempts  uint32

	// For a slot of a person:
	task   task
	tries  int
	mine   bool // the server remembers the lock
	sealed int64
}

type world struct {
	*setup
	tags            []entry // ordered; never changed in place
	order           []update
	late            []update // may still take effect
	clients         []client
	versions        []content // each version by its first write; parallel to numbers
	numbers         []int64
	acked           int64
	faults          int
	crashes         int
	refusals        int
	takeOvers       int
	forces          int
	abandonedClaims int
	tick            int // thirds of a lease that have passed
	people          []person
	giveUps         int
	losses          int
	used            int        // servers that have received a request
	seals           [][2]int64 // number and copied version of each
	refused         []int64    // versions that were written, and whose writer was told that they are not current
	forced          []ClaimID  // claims whose lock was ended by a force-unlock that has answered
	lateClaim       bool       // a claim of a stopped server may have arrived late
	past            *past      // explore: the steps that led here
	bad             string     // the violated property
}

const worldWorkspace = "w"

func newWorld(s *setup) *world {
	w := &world{setup: s, faults: s.faults, crashes: s.crashes, refusals: s.refusals, takeOvers: s.takeOvers, forces: s.forces, abandonedClaims: s.abandonedClaims}
	if s.persons > 0 {
		w.giveUps, w.losses = s.giveUps, s.losses
		w.startPeople()
		return w
	}
	w.clients = make([]client, s.clients)
	for i := range w.clients {
		w.clients[i].cycles = s.cycles
	}
	return w
}

// clone returns a copy of w in the memory of spare, a world that is not used any more.
func (w *world) clone(spare *world) *world {
	clients := append(spare.clients[:0], w.clients...)
	people := append(spare.people[:0], w.people...)
	*spare = *w
	spare.clients, spare.people = clients, people
	spare.late = slices.Clip(w.late)
	spare.seals = slices.Clip(w.seals)
	spare.refused, spare.forced = slices.Clip(w.refused), slices.Clip(w.forced)
	spare.order = slices.Clip(w.order)
	spare.versions, spare.numbers = slices.Clip(w.versions), slices.Clip(w.numbers)
	return spare
}

func (w *world) lockID(i int) string {
	if w.same {
		i = 0
	}
	return string(rune('a' + i))
}

type act struct {
	kind   actKind
	client int // or index of late
	arg    int
}

type actKind uint8

const (
	actStart     actKind = iota // lock; arg 1: take over, 2: end an abandoned claim, 3: an expired lease
	actForce                    // force-unlock the lock of client arg
	actPut                      // start a write
	actCheck                    // ask whether the lock is still held
	actRelease                  // start to release
	actServe                    // the request takes effect and is answered; arg: what a list shows
	actLost                     // the request takes effect, the answer is lost
	actDropped                  // the request never arrives
	actDelayed                  // the answer is lost, and the request may take effect later
	actTwice                    // the request takes effect now and perhaps once more
	actGiveUp                   // as actDelayed, but repetitions are not sent: the caller gave up
	actSwallowed                // the request is answered with success and has no effect; arg 1: not yet
	actCrash                    // the client dies; arg 1: its request may arrive later
	actLate                     // a late request takes effect
	actHalf                     // the claim is listed and cannot be read, the request continues
	actSend                     // a person sends a request to server arg
	actLeave                    // a person stops waiting
	actStop                     // server number client stops; arg 1: its requests may arrive later
	actTick                     // a third of the lease passes, and each running holder sends a heartbeat
	actDeaf                     // a person will not get the answer
	actRefused                  // the claim is answered by an error and not applied
)

// acts returns the actions that are possible next.
func (w *world) acts() []act {
	if w.people != nil {
		return w.peopleActs()
	}
	var acts []act
	for i := range w.clients {
		c := &w.clients[i]
		switch c.stage {
		case stageIdle:
			acts = append(acts, act{actStart, i, 0})
			if w.takeOvers > 0 {
				acts = append(acts, act{actStart, i, 1})
			}
			if c.abandoned != (ClaimID{}) {
				acts = append(acts, act{actStart, i, 2})
			}
			if c.expired != (ClaimID{}) {
				acts = append(acts, act{actStart, i, 3})
			}
			for j := range w.clients {
				if w.forces > 0 && j != i && w.clients[j].wins > 0 {
					acts = append(acts, act{actForce, i, j})
				}
			}
		case stageHolding:
			if c.puts > 0 {
				acts = append(acts, act{actPut, i, 0})
			} else {
				acts = append(acts, act{actRelease, i, 0})
			}
			if c.checks > 0 && !c.hold.Lost {
				acts = append(acts, act{actCheck, i, 0})
			}
			if w.crashes > 0 {
				acts = append(acts, act{actCrash, i, 0})
			}
		case stageLocking, stagePutting, stageReleasing, stageForcing, stageSealing, stageChecking:
			acts = w.serveActs(acts, i)
		}
	}
	for i := range w.late {
		acts = append(acts, act{actLate, i, 0})
	}
	if w.tick < w.ticks && w.settled() {
		acts = append(acts, act{kind: actTick})
	}
	return acts
}

func (w *world) serveActs(acts []act, i int) []act {
	c := &w.clients[i]
	if c.req.Op == OpList && w.lists == listPrefix {
		from := 0
		if w.ownWrites {
			from = c.lastWrite
		}
		if w.causal {
			from = max(from, w.people[w.personOf(i)].reported)
		}
		for n := from; n <= len(w.order); n++ {
			acts = append(acts, act{actServe, i, n})
		}
	} else {
		acts = append(acts, act{actServe, i, 0})
	}
	if c.req.Op == OpList && w.lists == listLag {
		for n := range w.tags {
			acts = append(acts, act{actServe, i, n + 1})
		}
	}
	if writes(c.req.Op) && w.faults > 0 {
		acts = append(acts, act{actLost, i, 0}, act{actDropped, i, 0}, act{actDelayed, i, 0}, act{actTwice, i, 0}, act{actGiveUp, i, 0}, act{actSwallowed, i, 0})
		// The guarantee excludes a push that takes effect while a list is read by key; of snapshots
		// it looks like an old list.
		if w.lists == listPrefix {
			acts = append(acts, act{actSwallowed, i, 1})
		}
	}
	if w.refusals > 0 && c.req.Op == OpPutClaim && !w.half(c.req.Claim) {
		acts = append(acts, act{actRefused, i, 0})
	}
	if w.abandonedClaims > 0 && c.req.Op == OpPutClaim {
		acts = append(acts, act{actHalf, i, 0})
	}
	if w.crashes > 0 && writes(c.req.Op) {
		acts = append(acts, act{actCrash, i, 0}, act{actCrash, i, 1})
	}
	return acts
}

func writes(o Op) bool {
	switch o {
	case OpPutClaim, OpPutTombstone, OpPutSeal, OpPutVersion, OpPutPointer, OpDelete, OpUntagClaim, OpPutMarker, OpUntagMarker, OpPutUnlocked:
		return true
	}
	return false
}

func (w *world) do(a act) {
	if a.kind == actLate {
		u := w.late[a.client]
		w.late = slices.Concat(w.late[:a.client], w.late[a.client+1:])
		w.update(u)
		return
	}
	if a.kind == actTick {
		w.pass()
		return
	}
	if w.people != nil && w.doPeople(a) {
		return
	}
	c := &w.clients[a.client]
	switch a.kind {
	case actStart:
		w.start(a.client, a.arg)
	case actForce:
		w.forces--
		c.stage, c.force = stageForcing, Forcer{LockID: w.lockID(a.arg)}
		c.cycles--
		w.advance(a.client, Reply{})
	case actPut:
		c.puts--
		c.stage, c.save = stagePutting, *c.hold.Save()
		w.advance(a.client, Reply{})
	case actCheck:
		c.checks--
		c.stage, c.overtaken, c.req = stageChecking, w.overtaken(c.hold.Claim), Request{Op: OpList}
	case actRelease:
		c.stage, c.rel, c.hold = stageReleasing, *c.hold.Release(), Hold{}
		w.advance(a.client, Reply{})
	case actServe:
		w.serve(a)
	case actHalf:
		w.abandonedClaims--
		for _, u := range w.updates(c) {
			u.half = true
			w.update(u)
		}
	case actRefused:
		w.refusals--
		w.advance(a.client, Reply{Status: StatusRefused, Err: oci.ErrRateLimited})
	case actCrash:
		w.crashes--
		if a.arg == 1 {
			w.late = append(w.late, w.updates(c)...)
		}
		c.stage = stageCrashed
	default:
		w.fail(a)
	}
}

// fail makes a write fail in one of several ways.
func (w *world) fail(a act) {
	c := &w.clients[a.client]
	w.faults--
	updates := w.updates(c)
	status := StatusUncertain
	switch a.kind {
	case actLost, actTwice:
		for _, u := range updates {
			w.update(u)
		}
		c.lastWrite = len(w.order)
		if a.kind == actTwice {
			w.late = append(w.late, updates...)
			status = StatusDone
		}
	case actDelayed, actGiveUp:
		w.late = append(w.late, updates...)
	case actSwallowed:
		if a.arg == 1 {
			w.late = append(w.late, updates...)
		}
		status = StatusDone
	}
	sent := c.req
	w.advance(a.client, Reply{Status: status, Err: oci.ErrUncertain})
	for range maxRepeats {
		if a.kind == actGiveUp && c.req == sent {
			w.advance(a.client, Reply{Status: status, Err: oci.ErrUncertain})
		}
	}
}

func (w *world) start(i, how int) {
	c := &w.clients[i]
	takeOver := how == 1
	if takeOver {
		w.takeOvers--
	}
	over := Overdue{}
	switch how {
	case 2:
		over[c.abandoned] = format.ReasonAbandoned
	case 3:
		over[c.expired] = format.ReasonExpired
	}
	c.abandoned, c.expired = ClaimID{}, ClaimID{}
	c.cycles--
	c.puts, c.checks, c.hold = w.puts, w.checks, Hold{}
	c.attempts += 16
	c.stage = stageLocking
	c.acq = Acquirer{
		LockID: w.lockID(i), Base: uint32(i)<<16 + c.attempts, TakeOver: takeOver, Overdue: over, Patience: MaxAnew,
		snapshot: w.lists == listPrefix,
	}
	w.advance(i, Reply{})
}

// serve applies the request and answers it.
func (w *world) serve(a act) {
	c := &w.clients[a.client]
	r := Reply{}
	switch c.req.Op {
	case OpList:
		tags, done := w.list(c, a.arg)
		if !done {
			return
		}
		r.Snapshot = NewSnapshot(tags, worldWorkspace)
	case OpReadMarker:
		if !w.has("locked-" + worldWorkspace) {
			r.Status = StatusMissing
		}
		r.Owner = OwnerOurs
	case OpReadClaim:
		r = w.readClaim(c.req.Claim)
		r.Foreign = w.foreign(a.client, c.req.Claim)
	case OpReadTombstone:
		r.Reason, r.Status = w.readTombstone(c.req.Claim)
	case OpReadPointer:
		r.Owner, r.Status = w.readPointer(c)
	case OpReadParent:
		r = w.readParent(c.req.N)
	case OpDelete:
		if w.deletes == deleteNone || w.deletes == deleteTagOnly {
			r.Status = StatusUnsupported
		}
	case OpUntagClaim, OpUntagMarker:
		if w.deletes == deleteNone {
			r.Status = StatusUnsupported
		}
	}
	if r.Status == StatusDone && writes(c.req.Op) {
		for _, u := range w.updates(c) {
			w.update(u)
		}
		c.lastWrite = len(w.order)
	}
	w.advance(a.client, r)
}

// advance feeds a reply to the client's machine.
func (w *world) advance(i int, r Reply) {
	c := &w.clients[i]
	switch {
	case c.stage == stageChecking && w.people != nil:
		w.slotDone(i, r.Snapshot)
		return
	case c.stage == stageChecking:
		w.checked(i, r.Snapshot)
		return
	}
	for {
		switch c.stage {
		case stageLocking:
			c.req = c.acq.Next(r)
		case stagePutting:
			c.req = c.save.Next(r)
		case stageReleasing:
			c.req = c.rel.Next(r)
		case stageForcing:
			c.req = c.force.Next(r)
		case stageSealing:
			c.req = c.seal.Next(r)
		}
		if c.req.Op != OpWait && c.req.Op != OpReadOwner {
			break
		}
		r = Reply{Foreign: c.req.Op == OpReadOwner && w.foreign(i, c.req.Claim)} // others may act during the next request
	}
	if c.req.Op != OpDone {
		return
	}
	if w.people != nil {
		w.slotDone(i, Snapshot{})
		return
	}
	switch c.stage {
	case stageLocking:
		w.locked(i)
	case stagePutting:
		w.put(i)
	case stageForcing:
		w.sealForced(i)
	case stageSealing:
		w.sealedForced(i)
	default:
		w.rest(c)
	}
}

// sealForced continues a force-unlock after its tombstones.
func (w *world) sealForced(i int) {
	c := &w.clients[i]
	if c.force.Result.Floor == 0 || w.older {
		w.sealedForced(i)
		return
	}
	c.attempts += 1 << 8
	c.stage, c.seal = stageSealing, Sealer{LockID: sealerID + c.force.LockID, Floor: c.force.Result.Floor, Base: uint32(i)<<16 + c.attempts, snapshot: w.lists == listPrefix}
	w.advance(i, Reply{})
}

// sealerID begins the lock id of a sealer.
const sealerID = "sealer of "

// sealedForced is from when no write under a forced lock may become current.
func (w *world) sealedForced(i int) {
	c := &w.clients[i]
	if w.people != nil {
		defer w.answer(i, answerYes)
	} else {
		defer w.rest(c)
	}
	if c.seal.Err != nil || c.force.Result.Err != nil || c.force.Result.Floor == 0 || w.older {
		return
	}
	for claim, how := range NewSnapshot(names(w.tags), worldWorkspace).Ended {
		if how == EndedForced && format.ClaimOf(claim.X, c.force.LockID) && !slices.Contains(w.forced, claim) {
			w.forced = append(w.forced, claim)
		}
	}
	slices.SortFunc(w.forced, CompareClaims)
}

// foreign reports whether a claim was made for another person than the one of a slot.
func (w *world) foreign(slot int, c ClaimID) bool {
	base, err := strconv.ParseUint(c.X[8:], 16, 32)
	return w.same && err == nil && w.personOf(int(base>>16)) != w.personOf(slot)
}

func (w *world) rest(c *client) {
	c.stage, c.hold = stageIdle, Hold{}
	if c.cycles == 0 {
		c.stage = stageDone
	}
}
