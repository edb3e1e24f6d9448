// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"testing"

	"github.com/seed-141914ff/okara/oci"
)

// serveUntil serves a slot until its next request has this op. OpDone: until it has answered.
func (w *world) serveUntil(slot int, op Op) {
	c := &w.clients[slot]
	for w.bad == "" && c.stage != stageIdle && (op == OpDone || c.req.Op != op) {
		w.do(act{actServe, slot, 0})
	}
}

// request sends a request of a person to a server, and serves it.
func (w *world) request(person, server int) {
	w.do(act{actSend, person, server})
	w.serveUntil(w.slot(person, server), OpDone)
}

// TestLateRepetition ends a lock by force whose LOCK was repeated: the answer of the first
// server was lost, the second one stopped while it sent a claim, the first one answered the
// third LOCK. The claim of the second server arrives when another client holds. It must not
// look as if it had been made after the end.
func TestLateRepetition(t *testing.T) {
	w := newWorld(&setup{persons: 2, servers: 3, cycles: 4, puts: 1, patience: 3, crashes: 1, losses: 1, forces: 1, whole: true})
	w.do(act{actSend, 0, 0})
	w.do(act{actDeaf, 0, 0})
	w.serveUntil(w.slot(0, 0), OpDone)
	w.do(act{actSend, 0, 1})
	w.serveUntil(w.slot(0, 1), OpPutClaim)
	w.do(act{actStop, 1, 1})
	w.request(0, 0)
	w.do(act{actForce, 0, 0})
	w.serveUntil(w.slot(0, 3), OpDone)
	w.request(1, 2)
	if w.people[0].stage != personHolds || w.people[1].stage != personHolds || len(w.late) != 1 {
		t.Fatalf("%+v, late: %v", w.people, w.late)
	}
	w.do(act{actLate, 0, 0})
	w.request(0, 1)
	if w.bad != "" {
		t.Error(w.bad)
	}
	if w.people[0].stage != personEnds {
		t.Errorf("the client whose lock was ended writes: %+v", w.people[0])
	}
}

// TestAbandonedRoot lets server and registry die while they write the claim of a LOCK, so
// that the claim is listed and cannot be read. The client repeats LOCK, and writes through
// a third server.
func TestAbandonedRoot(t *testing.T) {
	w := newWorld(&setup{persons: 1, servers: 3, cycles: 4, puts: 1, patience: 3, crashes: 1, abandonedClaims: 1, whole: true})
	w.do(act{actSend, 0, 0})
	w.serveUntil(0, OpPutClaim)
	w.do(act{actHalf, 0, 0})
	w.do(act{actStop, 0, 0})
	w.request(0, 1)
	w.request(0, 2)
	if p := w.people[0]; p.stage != personHolds || p.puts != 0 {
		t.Errorf("%+v; want the write stored", p)
	}
}

// TestLateSeal lets two servers answer one LOCK after a lock that was ended by force: both
// have to copy the head. One does, answers, and the client writes. The copy of the other
// one arrives after, and must stay below that version.
func TestLateSeal(t *testing.T) {
	w := newWorld(&setup{persons: 2, servers: 3, cycles: 4, puts: 1, patience: 3, forces: 1, older: true, giveUps: 1, whole: true})
	w.request(1, 2)
	w.do(act{actForce, 1, 0})
	w.serveUntil(w.slot(1, 3), OpDone)
	w.do(act{actSend, 0, 1})
	w.people[0].slot = -1 // the client does not wait
	slow := w.slot(0, 1)
	w.do(act{actSend, 0, 0})
	w.serveUntil(w.slot(0, 0), OpPutSeal)
	w.serveUntil(slow, OpPutSeal)
	w.serveUntil(w.slot(0, 0), OpDone)
	w.request(0, 0)
	acked := w.acked
	if w.clients[slow].req.Op != OpPutSeal || w.clients[slow].req.Head >= acked {
		t.Fatalf("%+v", w.clients[slow].req)
	}
	w.serveUntil(slow, OpDone)
	if newest := slices.Max(w.numbers); w.bad != "" || newest != acked {
		t.Errorf("version %d is the newest, %d was acknowledged: %s", newest, acked, w.bad)
	}
	if res := w.clients[slow].acq.Result; !res.Won || res.newest != acked {
		t.Errorf("the slow server: %+v", res)
	}
}

// TestSealAboveAnother repeats a LOCK beside the claim of a server that stopped, while
// another client contends, is refused and ends its claim. No copy of the head fits between
// what that one may write and the older claim; the client gets its lock all the same.
func TestSealAboveAnother(t *testing.T) {
	w := newWorld(&setup{persons: 2, servers: 3, cycles: 4, puts: 1, patience: 3, crashes: 2, forces: 1, older: true, whole: true})
	w.do(act{actSend, 1, 2})
	w.serveUntil(w.slot(1, 2), OpPutClaim)
	w.do(act{actStop, 2, 1})
	w.do(act{actSend, 0, 0})
	w.serveUntil(0, OpPutClaim)
	w.do(act{actServe, 0, 0})
	w.do(act{actStop, 0, 0})
	w.do(act{actLate, 0, 0})
	w.do(act{actForce, 1, 0})
	w.serveUntil(w.slot(1, 3), OpDone)
	w.request(0, 1)
	if w.people[0].stage != personHolds {
		t.Fatalf("%+v: %s", w.people[0], w.bad)
	}
	w.request(0, 1)
	if p := w.people[0]; w.bad != "" || p.puts != 0 {
		t.Errorf("%+v: %s", p, w.bad)
	}
}

// TestLateBesideWithdrawn sends a claim of a repeated LOCK beside a claim of the same
// client that is withdrawn afterwards. Its server stops, the lock is ended by force, another
// client wins, the claim arrives. Its number is above where the successor of the lock
// starts; it names the claim that was live when it was made.
func TestLateBesideWithdrawn(t *testing.T) {
	w := newWorld(&setup{persons: 2, servers: 4, cycles: 4, puts: 1, patience: 3, crashes: 1, losses: 1, forces: 1, whole: true})
	w.do(act{actSend, 0, 0})
	w.do(act{actDeaf, 0, 0})
	w.serveUntil(w.slot(0, 0), OpDone)
	second := w.slot(0, 1)
	w.do(act{actSend, 0, 1})
	w.serveUntil(second, OpPutClaim)
	w.do(act{actServe, second, 0})
	w.people[0].slot = -1 // the client does not wait
	w.do(act{actSend, 0, 2})
	w.serveUntil(w.slot(0, 2), OpPutClaim)
	w.do(act{actStop, 2, 1})
	w.advance(second, Reply{Status: StatusUncertain, Err: oci.ErrUncertain}) // its list fails, it withdraws
	w.serveUntil(second, OpDone)
	w.request(0, 0)
	w.endsByForce(t)
}

// TestLateCopy takes over the lock of a client that copies the head. The copy arrives late,
// below that of its successor, which saw a newer head: the writer of that version must not
// be told that it is not current.
func TestLateCopy(t *testing.T) {
	w := newWorld(&setup{clients: 3, cycles: 1, puts: 2, takeOvers: 2, whole: true})
	start := func(client, how int, until Op) {
		w.do(act{actStart, client, how})
		w.serveHolder(client, until)
	}
	start(0, 0, OpDone)
	w.do(act{actPut, 0, 0})
	w.serveHolder(0, OpDone)
	start(1, 1, OpPutSeal)
	start(2, 1, OpList)
	w.serveHolder(2, OpPutClaim)
	w.do(act{actPut, 0, 0})
	w.do(act{actServe, 0, 0})
	w.serveHolder(2, OpDone)
	w.do(act{actServe, 1, 0})
	w.serveHolder(0, OpDone)
	res := w.clients[0].save.Result
	if want := (Saved{Written: true, Lost: true, Next: 2*Jump + 1}); w.bad != "" || res != want {
		t.Errorf("%+v, want %+v: %s", res, want, w.bad)
	}
}

// serveHolder serves a client until its next request has this op. OpDone: until it waits
// for nothing.
func (w *world) serveHolder(client int, op Op) {
	c := &w.clients[client]
	for w.bad == "" && c.stage != stageIdle && c.stage != stageHolding && c.stage != stageDone && c.req.Op != op {
		w.do(act{actServe, client, 0})
	}
}

// endsByForce ends the lock of person 0 by force, lets person 1 win, and then the claim
// arrive that is under way. Person 0 must not write by it.
func (w *world) endsByForce(t *testing.T) {
	t.Helper()
	w.do(act{actForce, 0, 0})
	w.serveUntil(w.slot(0, w.servers), OpDone)
	w.request(1, 3)
	if w.people[1].stage != personHolds || len(w.late) != 1 {
		t.Fatalf("%+v, late: %v", w.people, w.late)
	}
	w.do(act{actLate, 0, 0})
	w.request(0, 1)
	if w.bad != "" || w.people[0].stage != personEnds {
		t.Errorf("%+v: %s", w.people[0], w.bad)
	}
}

// TestLateBesideAnother raises the number of such a claim by the end of a late claim of a
// third client, which has the number of the lock.
func TestLateBesideAnother(t *testing.T) {
	w := newWorld(&setup{persons: 3, servers: 4, cycles: 4, puts: 1, patience: 3, crashes: 2, losses: 1, forces: 2, whole: true})
	w.do(act{actSend, 2, 3})
	w.serveUntil(w.slot(2, 3), OpPutClaim)
	w.do(act{actStop, 3, 1})
	w.do(act{actSend, 0, 0})
	w.do(act{actDeaf, 0, 0})
	w.serveUntil(w.slot(0, 0), OpDone)
	w.do(act{actLate, 0, 0})
	w.do(act{actForce, 2, 0})
	w.serveUntil(w.slot(2, 4), OpDone)
	w.do(act{actSend, 0, 1})
	w.serveUntil(w.slot(0, 1), OpPutClaim)
	w.do(act{actStop, 1, 1})
	w.request(0, 0)
	w.endsByForce(t)
}
