// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// schedules is how many TestSimulate runs, or OKARA_TEST_SCHEDULES.
const schedules = 40_000

// simulated returns the worlds that TestSimulate chooses from.
func simulated() []setup {
	var list, again []setup
	for _, l := range []lists{listByKey, listPrefix} {
		for _, d := range []deletes{deleteAll, deleteNone, deleteLeaves, deleteTagOnly} {
			s := setup{lists: l, deletes: d, clients: 3, cycles: 2, puts: 2, faults: 3, checks: 1, crashes: 1, refusals: 1, takeOvers: 2, forces: 1, abandonedClaims: 1, ticks: 3}
			list = append(list, s)
			s.descending, s.clients, s.cycles = true, 4, 1
			list = append(list, s)
			s.faults, s.crashes = 0, 0
			list = append(list, s)
			people := setup{lists: l, ownWrites: true, causal: true, deletes: d, persons: 3, servers: 3, cycles: 4, puts: 3, patience: 3, crashes: 3, refusals: 2, giveUps: 2, forces: 1}
			list = append(list, people)
			people.descending, people.faults, people.forces = true, 3, 0
			list = append(list, people)
		}
		repeats := setup{lists: l, ownWrites: true, causal: true, persons: 2, servers: 3, cycles: 4, puts: 3, patience: 3, crashes: 2, losses: 2, forces: 1}
		again = append(again, repeats)
		repeats.descending, repeats.deletes, repeats.abandonedClaims = true, deleteNone, 1
		again = append(again, repeats)
	}
	again = append(again, setup{ownWrites: true, causal: true, persons: 2, servers: 3, cycles: 4, puts: 3, patience: 3, crashes: 2, giveUps: 2, refusals: 1, same: true})
	return append(list, again...) // at the end, since a replay names a world by its place
}

// TestSimulate runs random schedules of three or four clients on a registry that delays, loses,
// repeats, reorders and lies. A failure tells how to replay it.
func TestSimulate(t *testing.T) {
	if replay := os.Getenv("OKARA_REPLAY"); replay != "" {
		i, seed, _ := strings.Cut(replay, "/")
		n := must.Get(strconv.Atoi(i))(t)
		u := must.Get(strconv.ParseUint(seed, 10, 64))(t)
		s := simulated()[n]
		if w := simulate(&s, u, t.Logf); w.bad != "" {
			t.Error(w.bad)
		}
		return
	}
	worlds := simulated()
	base := rand.Uint64()
	t.Logf("first seed %d", base)
	count := schedules
	if s := os.Getenv("OKARA_TEST_SCHEDULES"); s != "" {
		n := must.Get(strconv.Atoi(s))(t)
		count = n
	} else if testing.Short() {
		count /= 10
	}
	var next, wins, acked atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(count) && !t.Failed(); i = next.Add(1) {
				n, seed := int(i)%len(worlds), base+uint64(i)
				w := simulate(&worlds[n], seed, nil)
				if w.bad != "" {
					t.Errorf("%s\nreplay: OKARA_REPLAY=%d/%d go test ./statebackend/internal/protocol -run TestSimulate -v", w.bad, n, seed)
				}
				for _, c := range w.clients {
					wins.Add(int64(c.wins))
				}
				acked.Add(min(w.acked, 1))
			}
		})
	}
	wg.Wait()
	t.Logf("%d schedules, %d locks held, %d schedules with an acknowledged write", count, wins.Load(), acked.Load())
	if wins.Load() < int64(count)/2 {
		t.Errorf("%d locks in %d schedules: the simulation does not exercise the lock", wins.Load(), count)
	}
}

// maxSteps bounds a schedule; most end long before.
const maxSteps = 2000

// simulate runs one schedule.
func simulate(s *setup, seed uint64, logf func(string, ...any)) *world {
	w := newWorld(s)
	rng := rand.New(rand.NewPCG(seed, seed))
	calm := rng.IntN(3) // the higher, the rarer the faults
	hurry := -1         // the client that runs ahead for a while
	for range maxSteps {
		acts := w.acts()
		if len(acts) == 0 {
			w.finish()
		}
		if len(acts) == 0 || w.bad != "" {
			return w
		}
		a := random(rng, acts, calm, &hurry)
		if logf != nil {
			logf("%s", w.describe(a))
		}
		w.do(a)
	}
	return w
}

// random picks an action. Faults are rare; sometimes one client runs ahead.
func random(rng *rand.Rand, acts []act, calm int, hurry *int) act {
	if rng.IntN(12) == 0 {
		*hurry = rng.IntN(6) - 1
	}
	for range 8 {
		a := acts[rng.IntN(len(acts))]
		switch {
		case a.kind == actServe || a.kind == actPut || a.kind == actCheck || a.kind == actRelease || a.kind == actStart && a.arg == 0:
			if *hurry < 0 || a.client == *hurry || rng.IntN(8) == 0 {
				return a
			}
		case rng.IntN(2+2*calm) == 0:
			return a
		}
	}
	return acts[rng.IntN(len(acts))]
}

// describe formats a step for display.
func (w *world) describe(a act) string {
	if a.kind == actLate {
		return fmt.Sprintf("late: %+v", w.late[a.client])
	}
	if a.kind == actTick {
		return fmt.Sprintf("tick: %d", w.tick+1)
	}
	if a.kind == actSend || a.kind == actLeave || a.kind == actStop || a.kind == actDeaf || w.people != nil && a.kind == actForce {
		return fmt.Sprintf("%v", a)
	}
	c := w.clients[a.client]
	return fmt.Sprintf("client %d, stage %d, %s %d: op %d claim %v n %d | %v", a.client, c.stage,
		[...]string{"start", "force", "put", "check", "release", "serve", "lost", "dropped", "delayed", "twice", "give up", "swallowed", "crash", "late", "half", "send", "leave", "stop", "tick", "deaf", "refused"}[a.kind], a.arg, c.req.Op, c.req.Claim, c.req.N, names(w.tags))
}
