// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestExplore tries every order of events in worlds of two clients.
//
// Shows: mistakes 25
func TestExplore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world setup
	}{
		{"torn lists", setup{clients: 2, cycles: 2, puts: 1, chunks: true}},
		{"torn lists, read backwards", setup{clients: 2, cycles: 2, puts: 1, chunks: true, descending: true}},
		{"take-over and crash", setup{clients: 2, cycles: 1, puts: 2, chunks: true, descending: true, takeOvers: 1, crashes: 1}},
		{"force-unlock by an older program, no delete", setup{clients: 2, cycles: 2, puts: 1, chunks: true, forces: 1, older: true, deletes: deleteNone}},
		{"force-unlock", setup{clients: 2, cycles: 1, puts: 2, chunks: true, descending: true, forces: 1}},
		{"force-unlock, old lists", setup{lists: listPrefix, ownWrites: true, clients: 2, cycles: 1, puts: 2, forces: 1}},
		{"claims that are refused", setup{clients: 2, cycles: 2, puts: 1, chunks: true, descending: true, refusals: 2}},
		{"a lost request", setup{clients: 2, cycles: 1, puts: 1, chunks: true, descending: true, faults: 1}},
		{"old lists", setup{lists: listPrefix, ownWrites: true, clients: 2, cycles: 2, puts: 1}},
		{"old lists, take-over, crash", setup{lists: listPrefix, ownWrites: true, clients: 2, cycles: 1, puts: 2, takeOvers: 1, crashes: 1}},
		{"ghost", setup{clients: 2, cycles: 2, puts: 1, chunks: true, descending: true, abandonedClaims: 1}},
		{"ghost and crash", setup{clients: 2, cycles: 2, puts: 1, chunks: true, abandonedClaims: 1, crashes: 1}},
		{"lease", setup{clients: 2, cycles: 1, puts: 1, chunks: true, descending: true, crashes: 1, ticks: 3}},
		{"check, take-over, force-unlock", setup{clients: 2, cycles: 1, puts: 1, checks: 1, chunks: true, takeOvers: 1, forces: 1}},
		{"check, read backwards", setup{clients: 2, cycles: 1, puts: 1, checks: 1, chunks: true, descending: true, takeOvers: 1}},
		{"check, old lists", setup{lists: listPrefix, ownWrites: true, clients: 2, cycles: 1, puts: 1, checks: 1, takeOvers: 1}},
		{"three clients", setup{clients: 3, cycles: 1, puts: 0, chunks: true, descending: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n, bad := explore(&tc.world, maxStates)
			t.Logf("%d states", n)
			if bad != "" {
				t.Error(bad)
			}
			if n >= maxStates {
				t.Errorf("more than %d states", maxStates)
			}
		})
	}
}

// If keys lag independently the lock is not safe, as a registry's test finds.
func TestExploreLaggingKeys(t *testing.T) {
	_, bad := explore(&setup{lists: listLag, clients: 2, cycles: 1}, maxStates)
	if !strings.HasPrefix(bad, "two holders") {
		t.Errorf("got %q, want two holders", bad)
	}
}

const maxStates = 2_000_000

// explore visits every reachable state, and returns their number and the first violation.
func explore(s *setup, limit int) (int, string) {
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{}
	stack := []*world{newWorld(s)}
	var spare []*world // whose memory is used again: most of the time went into allocating it
	var key []byte
	for len(stack) > 0 && len(seen) < limit {
		w := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if w.bad != "" {
			return len(seen), w.bad + w.past.report(s)
		}
		acts := w.acts()
		if len(acts) == 0 {
			w.finish()
			if w.bad != "" {
				return len(seen), w.bad + w.past.report(s)
			}
		}
		for _, a := range acts {
			if len(spare) == 0 {
				spare = append(spare, &world{})
			}
			next := w.clone(spare[len(spare)-1])
			next.past = nil
			next.do(a)
			key = next.key(key[:0])
			h := maphash.Bytes(seed, key)
			if _, ok := seen[h]; ok {
				continue
			}
			seen[h] = struct{}{}
			next.past = &past{w.past, a}
			spare = spare[:len(spare)-1]
			stack = append(stack, next)
		}
		spare = append(spare, w)
	}
	return len(seen), ""
}

// past is the list of steps that led to a world, the last one first.
type past struct {
	before *past
	act    act
}

// report describes the steps in their order.
func (p *past) report(s *setup) string {
	var acts []act
	for ; p != nil; p = p.before {
		acts = append(acts, p.act)
	}
	var text strings.Builder
	w := newWorld(s)
	for _, a := range slices.Backward(acts) {
		text.WriteString("\n" + w.describe(a))
		w.do(a)
	}
	return text.String()
}

// key encodes everything that the future of a world depends on.
func (w *world) key(b []byte) []byte {
	b = appendInts(b, len(w.tags), len(w.late), w.faults, w.crashes, w.refusals, w.takeOvers, w.forces, w.abandonedClaims, w.tick, int(w.acked))
	if w.bad != "" {
		b = append(b, '!')
	}
	for _, e := range w.tags {
		b = appendEntry(b, e)
	}
	for _, u := range w.late {
		b = appendEntry(b, u.entry)
		b = appendBools(b, u.remove)
	}
	for i, n := range w.numbers {
		b = appendClaim(b, w.versions[i].claim)
		b = appendInts(b, int(n), w.versions[i].put)
	}
	for _, n := range w.refused {
		b = appendInts(b, int(n))
	}
	for _, c := range w.forced {
		b = appendClaim(b, c)
	}
	if w.lists == listPrefix {
		for _, u := range w.order {
			b = appendEntry(b, u.entry)
			b = appendBools(b, u.remove)
		}
	}
	for i := range w.clients {
		b = w.clients[i].key(b)
	}
	return w.peopleKey(b)
}

func (c *client) key(b []byte) []byte {
	b = appendInts(b, int(c.stage), int(c.req.Op), int(c.req.N), int(c.hold.Newest), int(c.hold.Next), c.wins, c.cycles, c.puts, c.checks, int(c.attempts), c.lastWrite, c.chunk, len(c.listed))
	b = appendClaim(b, c.req.Claim)
	b = appendClaim(appendClaim(appendClaim(b, c.hold.Claim), c.abandoned), c.expired)
	b = append(appendInts(appendClaim(b, c.seen.claim), int(c.seen.since.Unix()), int(c.seen.seen.Unix())), c.seen.Heartbeat...)
	b = appendInts(b, int(c.task), c.tries, int(c.sealed))
	b = appendBools(b, c.hold.Uncertain, c.hold.Lost, c.overtaken, c.req.Forced, c.mine, c.hold.shared)
	for _, tag := range c.listed {
		b = append(append(b, tag...), 0)
	}
	switch c.stage {
	case stageLocking, stageHolding, stagePutting, stageChecking, stageCrashed:
		b = c.acq.key(b)
	}
	switch c.stage {
	case stagePutting:
		b = appendInts(b, int(c.save.n), int(c.save.phase), c.save.repeats, int(c.save.judge))
		b = appendBools(b, c.save.repeated, c.save.final, c.save.Result.Written, c.save.Result.Lost)
	case stageReleasing:
		b = c.rel.key(b)
	case stageSealing:
		b = c.seal.key(append(b, c.force.LockID...))
	case stageForcing:
		b = appendInts(b, int(c.force.phase), c.force.repeats, c.force.rounds, c.force.waits, int(c.force.Sealed), int(c.force.Result.Floor), len(c.force.others), len(c.force.over), len(c.force.doomed))
		b = append(b, c.force.LockID...)
		for _, d := range c.force.doomed {
			b = appendClaim(b, d)
		}
	}
	return b
}

func (a *Acquirer) key(b []byte) []byte {
	b = appendInts(b, int(a.phase), int(a.then), int(a.attempt), a.moved, a.anewed, a.waits, a.repeats, len(a.doomed), int(a.Result.newest), int(a.Result.next))
	b = appendBools(b, a.Resume, a.TakeOver, a.marked, a.settled, a.Result.Won, a.Result.Held, a.Result.Ended, a.Result.joined, a.Result.Sealed, a.Result.Err != nil)
	b = appendClaim(appendClaim(appendClaim(appendClaim(b, a.Claim), a.Root), a.Beside), a.live)
	for _, d := range a.doomed {
		b = appendClaim(b, d)
	}
	b = appendInts(b, int(a.last.Newest), len(a.last.Claims), len(a.Overdue), len(a.ends), len(a.others))
	for _, c := range a.others {
		b = appendClaim(b, c)
	}
	for c := range a.Overdue { // at most one
		b = appendClaim(b, c)
	}
	for _, c := range a.last.Claims {
		b = appendClaim(b, c)
	}
	for _, c := range slices.SortedFunc(maps.Keys(a.last.Ended), CompareClaims) {
		b = appendInts(appendClaim(b, c), int(a.last.Ended[c]))
	}
	return a.release.key(b)
}

func (s *Sealer) key(b []byte) []byte {
	return s.rel.key(s.acq.key(appendBools(appendInts(b, int(s.phase), int(s.rounds), int(s.Floor)), s.Err != nil)))
}

func (e *releaser) key(b []byte) []byte {
	b = appendClaim(b, e.claim)
	b = appendInts(b, int(e.phase), e.repeats, int(e.Can.ByDigest), int(e.Can.ByTag))
	return appendBools(b, e.forced, e.marked)
}

func appendInts(b []byte, list ...int) []byte {
	for _, n := range list {
		b = binary.AppendVarint(b, int64(n))
	}
	return b
}

func appendBools(b []byte, list ...bool) []byte {
	for _, v := range list {
		if v {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

func appendClaim(b []byte, c ClaimID) []byte {
	return append(append(binary.AppendVarint(b, c.Fence), c.X...), 0)
}

func appendEntry(b []byte, e entry) []byte {
	b = append(append(append(appendClaim(b, e.claim), e.tag...), 0), e.why...)
	b = appendClaim(appendClaim(b, e.root), e.beside)
	return appendBools(appendInts(append(b, 0), e.put, int(e.head)), e.half, e.seal)
}
