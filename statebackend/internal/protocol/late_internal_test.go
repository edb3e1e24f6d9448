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

// TestLateRepetition forces a lock whose LOCK was repeated: one server's answer was lost, the
// second stopped in its claim, the first answered the third. The late claim must not seem newer
// than the end.
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

// TestAbandonedRoot: server and registry die in a claim, listed and unreadable. The client repeats
// LOCK, and writes through a third server.
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

// TestLateSeal: two servers answer a LOCK after a forced end, and copy the head. A late copy must
// stay below the client's write.
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
	res, first := w.clients[slow].acq.Result, w.clients[w.slot(0, 0)].acq.Result
	if !res.Won || res.newest != acked {
		t.Errorf("the slow server: %+v", res)
	}
	if !res.beside && !first.beside {
		t.Error("neither server knows of the other, so that two scripts that share an id would share the lock")
	}
}

// TestSealAboveAnother repeats a LOCK beside a stopped server's claim while another contends. No
// copy fits in between; the client gets its lock.
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

// TestLateBesideWithdrawn sends a repeated LOCK's claim beside one that is withdrawn; it arrives
// after a forced end and another winner, above the successor's start. It names the claim that was
// live then.
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

// TestLateCopy: a late copy of the head below the successor's, who saw a newer one: the writer must
// not be told that it is not current.
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

// serveHolder serves a client until its next request has this op, or none.
func (w *world) serveHolder(client int, op Op) {
	c := &w.clients[client]
	for w.bad == "" && c.stage != stageIdle && c.stage != stageHolding && c.stage != stageDone && c.req.Op != op {
		w.do(act{actServe, client, 0})
	}
}

// endsByForce forces person 0's lock; person 1 wins, then the claim arrives, which must not write.
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

// TestLateBesideAnother raises such a claim's number by a third client's late one.
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
