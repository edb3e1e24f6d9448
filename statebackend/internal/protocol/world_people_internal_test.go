// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"cmp"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// In a world of people each has a lock id and sends LOCK, writes and UNLOCK to any server. Answers
// count: between LOCK's and UNLOCK no other holds, and no write is refused. Servers stop anywhere
// and start without memory; persons give up and repeat.

type person struct {
	stage    personStage
	slot     int // the slot that works on the request; -1: the request is not sent yet
	asks     int // how many times LOCK may still be sent
	puts     int
	sends    int   // how many times a request may still be repeated
	known    int64 // the highest version that was read or written
	reported int   // listPrefix: number of updates at the last answer
	forced   bool  // the lock was ended by force
	deaf     bool  // the answer will not arrive
}

type personStage uint8

const (
	personAsks personStage = iota
	personHolds
	personWrites
	personEnds
	personDone
)

// task is the work of a server for a person.
type task uint8

const (
	taskNone task = iota
	taskLock
	taskWrite
	taskRead // as a write, but nothing is written
	taskEnd
	taskForce // force-unlock by another client, without a server
)

// answer is the result of a request to a server.
type answer uint8

const (
	answerYes answer = iota
	answerNo
	answerError
)

func (w *world) startPeople() {
	w.people = make([]person, w.setup.persons)
	for i := range w.people {
		w.people[i] = person{slot: -1, asks: w.cycles, sends: 3}
	}
	w.people[0].puts = w.puts                                 // the others only read
	w.clients = make([]client, w.setup.persons*(w.servers+1)) // the last of each person is for force-unlock
}

// slot is the part of a server for one person: its memory, and the work on a request.
func (w *world) slot(person, server int) int { return person*(w.servers+1) + server }

func (w *world) personOf(slot int) int { return slot / (w.servers + 1) }

// peopleActs returns the actions that are possible next.
func (w *world) peopleActs() []act {
	var acts []act
	for i := range w.people {
		p := &w.people[i]
		switch {
		case p.stage == personDone:
		case p.slot >= 0:
			if w.giveUps > 0 && p.stage == personWrites {
				acts = append(acts, act{actLeave, i, 0})
			}
			if w.losses > 0 && !p.deaf {
				acts = append(acts, act{actDeaf, i, 0})
			}
		default:
			for s := range min(w.servers, w.used+1) { // servers are interchangeable
				if i > 0 && w.brief && s > 0 {
					break
				}
				if w.clients[w.slot(i, s)].stage == stageIdle {
					acts = append(acts, act{actSend, i, s})
				}
			}
		}
		if w.forces > 0 && p.stage == personHolds {
			acts = append(acts, act{actForce, i, 0})
		}
	}
	crashes := w.crashes
	w.crashes = 0 // servers stop, not their slots
	for i := range w.clients {
		if w.clients[i].stage != stageIdle {
			acts = w.serveActs(acts, i)
		}
	}
	w.crashes = crashes
	for s := range w.servers {
		if w.crashes > 0 && w.remembers(s) {
			acts = append(acts, act{actStop, s, 0}, act{actStop, s, 1})
		}
	}
	for i := range w.late {
		acts = append(acts, act{actLate, i, 0})
	}
	return acts
}

// remembers reports whether a server has memory to lose.
func (w *world) remembers(server int) bool {
	for i := range w.people {
		if c := &w.clients[w.slot(i, server)]; c.stage != stageIdle || c.mine {
			return true
		}
	}
	return false
}

func (w *world) doPeople(a act) bool {
	switch a.kind {
	case actSend:
		w.send(a.client, a.arg)
	case actLeave:
		w.giveUps--
		p := &w.people[a.client]
		p.slot, p.deaf = -1, false
		if w.reads {
			p.puts--
			p.stage = personHolds
		}
	case actDeaf:
		w.losses--
		w.people[a.client].deaf = true
	case actStop:
		w.stop(a.client, a.arg == 1)
	case actForce:
		w.forces--
		w.people[a.client].forced = true
		i := w.slot(a.client, w.servers)
		w.clients[i].task = taskForce
		w.endAll(i)
	default:
		return false
	}
	return true
}

// stop stops a server; with late its last requests may still arrive.
func (w *world) stop(server int, late bool) {
	w.crashes--
	for i := range w.people {
		n := w.slot(i, server)
		c := &w.clients[n]
		if late && c.stage != stageIdle && writes(c.req.Op) {
			w.lateClaim = w.lateClaim || c.req.Op == OpPutClaim
			w.late = append(w.late, w.updates(c)...)
		}
		if w.people[i].slot == n {
			w.people[i].slot, w.people[i].deaf = -1, false
		}
		*c = client{attempts: c.attempts}
	}
}

// send sends a request of a person, and the server starts working on it.
func (w *world) send(i, server int) {
	w.used = max(w.used, server+1)
	p := &w.people[i]
	n := w.slot(i, server)
	c := &w.clients[n]
	p.slot = n
	c.tries = 0
	if p.stage == personHolds {
		p.stage = personWrites
		if p.puts == 0 {
			p.stage = personEnds
		}
	}
	switch p.stage {
	case personAsks:
		c.task = taskLock
		if c.mine {
			c.stage, c.req = stageChecking, Request{Op: OpList}
			return
		}
		w.acquire(n, false)
	case personWrites:
		c.task = taskWrite
		if w.reads && p.puts == 1 {
			c.task = taskRead
		}
		w.write(n)
	default:
		c.task = taskEnd
		if !c.mine {
			w.endAll(n)
			return
		}
		c.stage, c.sealed, c.rel = stageReleasing, c.hold.Sealed(), *c.hold.Release()
		w.advance(n, Reply{})
	}
}

func (w *world) acquire(n int, resume bool) {
	c := &w.clients[n]
	c.attempts += 16
	c.stage, c.mine, c.hold = stageLocking, false, Hold{}
	c.acq = Acquirer{
		LockID: w.lockID(w.personOf(n)), Base: uint32(n)<<16 + c.attempts, Resume: resume, Patience: w.patience,
		snapshot: w.lists == listPrefix,
	}
	w.advance(n, Reply{})
}

func (w *world) write(n int) {
	c := &w.clients[n]
	switch {
	case !c.mine:
		w.acquire(n, true)
		return
	case c.task == taskRead:
		w.answer(n, answerYes)
		return
	}
	c.stage, c.save = stagePutting, *c.hold.Save()
	w.advance(n, Reply{})
}

func (w *world) endAll(n int) {
	c := &w.clients[n]
	c.stage, c.force = stageForcing, Forcer{LockID: w.lockID(w.personOf(n)), Sealed: c.sealed, Owned: w.same && c.task != taskForce}
	c.mine, c.sealed = false, 0
	w.advance(n, Reply{})
}

// slotDone continues after a machine of a slot has ended.
func (w *world) slotDone(n int, v Snapshot) {
	c := &w.clients[n]
	switch c.stage {
	case stageChecking:
		if c.hold.Stands(v) {
			w.answer(n, answerYes)
			return
		}
		w.acquire(n, false)
	case stageLocking:
		w.slotLocked(n)
	case stagePutting:
		w.slotPut(n)
	case stageReleasing:
		w.endAll(n)
	case stageForcing:
		if c.task == taskForce {
			w.sealForced(n)
			return
		}
		w.answer(n, cmp.Or(answerYes, errorAnswer(c.force.Result.Err)))
	case stageSealing:
		w.sealedForced(n)
	default:
		w.answer(n, cmp.Or(answerYes, errorAnswer(c.force.Result.Err)))
	}
}

func errorAnswer(err error) answer {
	if err != nil {
		return answerError
	}
	return answerYes
}

func (w *world) slotLocked(n int) {
	c := &w.clients[n]
	res := c.acq.Result
	if res.Won {
		c.mine, c.hold = true, c.acq.Hold()
	}
	switch {
	case res.Won && c.task != taskLock:
		w.write(n)
	case res.Won:
		w.answer(n, answerYes)
	case res.Held || res.Ended:
		w.answer(n, answerNo)
	default:
		w.answer(n, answerError)
	}
}

func (w *world) slotPut(n int) {
	c := &w.clients[n]
	res := c.save.Result
	c.hold.Saved(&c.save)
	w.lost(&c.save)
	switch {
	case res.Stored:
		w.acked = max(w.acked, c.save.n)
		w.checkSeals()
		w.answer(n, answerYes)
	case res.Lost && c.tries < w.patience:
		c.tries++
		c.mine = false
		w.write(n)
	case res.Lost:
		c.mine = false
		w.answer(n, answerError)
	default:
		w.answer(n, answerError)
	}
}

// answer reports the result to the person, if it still waits.
func (w *world) answer(n int, how answer) {
	c := &w.clients[n]
	c.stage = stageIdle
	i := w.personOf(n)
	p := &w.people[i]
	if p.slot != n || c.task == taskForce {
		return
	}
	deaf := p.deaf
	p.slot, p.reported, p.deaf = -1, len(w.order), false
	if deaf {
		return
	}
	if how == answerError && w.persons == 1 && w.setup.crashes+w.setup.faults+w.setup.giveUps == 0 {
		w.violate("%s is answered by an error, and nobody is in its way", w.lockID(i))
	}
	switch {
	case p.stage == personAsks && how == answerYes:
		w.reported(i, n)
	case p.stage == personAsks:
		if p.asks--; p.asks == 0 {
			p.stage = personDone
			if how == answerError {
				p.stage = personEnds // without an answer the person does not know the outcome, and unlocks
			}
		}
	case how == answerError:
		if p.sends--; p.sends == 0 {
			p.stage++
		}
	case p.stage == personWrites && how == answerNo:
		if !p.forced {
			w.violate("a write of %s was refused while it holds", w.lockID(i))
		}
		p.stage = personEnds
	case p.stage == personWrites:
		p.puts--
		p.known = max(p.known, c.hold.Newest)
		p.stage = personHolds
	default:
		p.stage = personDone
	}
}

// reported is the time from which a person holds the lock.
func (w *world) reported(i, n int) {
	c, p := &w.clients[n], &w.people[i]
	p.stage, p.known = personHolds, c.hold.Newest
	c.wins++
	if w.brief && i > 0 {
		p.stage = personDone
	}
	if c.head() < w.acked {
		w.violate("%s is told that it holds and knows version %d, and %d was acknowledged", w.lockID(i), c.head(), w.acked)
	}
	for j := range w.people {
		if other := &w.people[j]; j != i && !other.forced && (other.stage == personHolds || other.stage == personWrites) {
			w.violate("%s is told that it holds, and so was %s", w.lockID(i), w.lockID(j))
		}
	}
}

// arrived checks a version: none of others above what a holder knows.
func (w *world) arrived(n int64, by ClaimID) {
	for i := range w.people {
		p := &w.people[i]
		holds := !p.forced && (p.stage == personHolds || p.stage == personWrites)
		own := format.ClaimOf(by.X, w.lockID(i)) && !w.foreign(w.slot(i, 0), by)
		if holds && !own && n > p.known {
			w.violate("version %d by %v arrived above version %d of holder %s", n, by, p.known, w.lockID(i))
		}
	}
}

// finishPeople checks the end: no claim locks others out; one that joined an ended lock ends at the
// next attempt.
func (w *world) finishPeople() {
	for i := range w.people {
		if w.people[i].stage != personDone {
			w.violate("%s waits for ever", w.lockID(i))
		}
	}
	old := w.lists == listPrefix && w.setup.crashes > 0 // then a refused client may leave a claim that no list shows yet
	if w.lateClaim || w.setup.faults > 0 || old {
		return
	}
	v := NewSnapshot(names(w.tags), worldWorkspace)
	for _, c := range v.Live() {
		if w.brief && (!format.ClaimOf(c.X, w.lockID(0)) || w.foreign(0, c)) {
			continue
		}
		if root := w.rootOf(c); root == (ClaimID{}) || v.Alive(root) || w.setup.crashes == 0 {
			w.violate("claim %v is left, and nobody has it", c)
		}
	}
}

// rootOf returns the claim that another one joined.
func (w *world) rootOf(c ClaimID) ClaimID {
	i, ok := w.find(format.StateTag{Kind: format.LockClaim, Fragment: worldWorkspace, N: c.Fence, X: c.X}.String())
	if !ok {
		return ClaimID{}
	}
	return w.tags[i].root
}

// peopleKey encodes everything that the future of the persons depends on.
func (w *world) peopleKey(b []byte) []byte {
	for i := range w.people {
		p := &w.people[i]
		b = appendInts(b, int(p.stage), p.slot, p.asks, p.puts, p.sends, p.reported, int(p.known))
		b = appendBools(b, p.forced, p.deaf)
	}
	b = appendInts(b, w.giveUps, w.losses, w.used)
	return appendBools(b, w.lateClaim)
}
