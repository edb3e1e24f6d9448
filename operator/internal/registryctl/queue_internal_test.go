// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-141914ff/okara/internal/must"
)

// queue records the entries that it wakes.
type queue struct {
	*fairQueue
	woken []entryKey
}

func newQueue() *queue { return &queue{fairQueue: newFairQueue(1)} }

func entryAt(namespace string, number int) entryKey {
	return entryKey{kindModule, types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(number)}}
}

func (q *queue) ask(p entryKey, origin string) bool {
	return q.acquire(p, origin, p.name.String(), func() { q.woken = append(q.woken, p) })
}

// fill makes entries of a namespace acquire slots, and counts those that got one.
func (q *queue) fill(namespace, origin string, n int) int {
	got := 0
	for i := range n {
		if q.ask(entryAt(namespace, i), origin) {
			got++
		}
	}
	return got
}

// TestFairQueue has a namespace with many entries and another one with few.
//
// Shows: operator 6 | namespaces and origins take turns, and a slow one does not delay others; rate
// limits of an origin are respected
func TestFairQueue(t *testing.T) {
	q := newQueue()
	if got := q.fill("many", "slow.example.com", 50); got != maxOriginRuns {
		t.Fatalf("%d runs of one origin", got)
	}
	if !q.ask(entryAt("few", 0), "other.example.com") {
		t.Error("an origin that is slow holds up another one")
	}
	for i := range 3 { // they wait behind 46 entries for the slow origin
		if q.ask(entryAt("few", 1+i), "slow.example.com") {
			t.Error("too many runs of one origin")
		}
	}
	for i := range 4 {
		q.release(entryAt("many", i))
	}
	want := []entryKey{entryAt("many", 4), entryAt("few", 1), entryAt("many", 5), entryAt("few", 2)}
	if fmt.Sprint(q.woken) != fmt.Sprint(want) {
		t.Errorf("woken %v, want %v", q.woken, want)
	}
	if !q.ask(want[0], "slow.example.com") || q.ask(entryAt("many", 40), "slow.example.com") {
		t.Error("who was woken has a place, who waits has not")
	}
	must.Equal(t, "runs that scan", q.fill("scanned", scanQueue, 3), 1)
	q.release(entryAt("scanned", 0))
	q.release(entryAt("scanned", 1))
	q.release(entryAt("scanned", 2))
	q.release(entryAt("nobody", 0))
	must.Equal(t, "places are held", len(q.held), 5)
}

// TestFairQueueOfOrigins checks that origins of a namespace take turns, up to the total.
//
// Shows: operator 6
func TestFairQueueOfOrigins(t *testing.T) {
	q := newQueue()
	got := 0
	for i := range 10 {
		if q.ask(entryAt("a", i), fmt.Sprint("origin-", i/3)) {
			got++
		}
	}
	got += q.fill("b", "origin-x", 3) + q.fill("c", "origin-y", 3)
	if got != maxRuns || q.ask(entryAt("d", 0), "origin-z") {
		t.Errorf("%d runs at a time", got)
	}
	q.release(entryAt("a", 0))
	q.ask(entryAt("a", 10), "origin-4")
	q.release(entryAt("d", 0))
	if len(q.held) != maxRuns || len(q.origins) != 0 {
		t.Errorf("%d runs, %d lines", len(q.held), len(q.origins))
	}
}

// TestStartsPerSecond checks that a burst of runs may begin at once, and then no more than
// the rate allows.
//
// Shows: operator 6
func TestStartsPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		begun := 0
		for i := range 200 {
			if p := entryAt("a", i); q.ask(p, "o") {
				begun++
				q.release(p)
			}
		}
		must.Equal(t, "runs began at once", begun, maxStartBurst)
		for second := range 5 {
			time.Sleep(time.Second)
			synctest.Wait()
			for len(q.woken) > 0 { // each run ends at once
				p := q.woken[0]
				q.woken = q.woken[1:]
				if q.ask(p, "o") {
					begun++
					q.release(p)
				}
			}
			if limit := maxStartBurst + maxStarts*(second+1); begun > limit {
				t.Errorf("after %d s %d runs have begun", second+1, begun)
			}
		}
		if begun < maxStartBurst+maxStarts {
			t.Errorf("%d runs have begun", begun)
		}
	})
}

// TestFairQueueOfARecord checks that of entries that share a record only one runs at a
// time, and that this holds up no entry behind them.
//
// Shows: operator 13
func TestFairQueueOfARecord(t *testing.T) {
	q := newQueue()
	for i, want := range []bool{true, false, false} {
		if got := q.acquire(entryAt("a", i), "o", "module a/b/c", func() { q.woken = append(q.woken, entryAt("a", i)) }); got != want {
			t.Errorf("entry %d has a place: %t", i, got)
		}
	}
	if !q.ask(entryAt("a", 3), "o") {
		t.Error("those of one record hold up another one")
	}
	q.release(entryAt("a", 0))
	if len(q.woken) != 1 || q.woken[0] != entryAt("a", 1) {
		t.Errorf("woken %v", q.woken)
	}
	q.release(entryAt("a", 1))
	q.release(entryAt("a", 2))
	q.release(entryAt("a", 3))
	if len(q.woken) != 2 || len(q.held)+len(q.used)+len(q.busy)+len(q.origins) != 0 {
		t.Errorf("woken %v, left %+v", q.woken, q.fairQueue)
	}
}

// TestLimitOfAnOrigin checks that no request is made before the time that an origin names.
//
// Shows: operator 6
func TestLimitOfAnOrigin(t *testing.T) {
	q, now := newQueue(), time.Unix(1_800_000_000, 0)
	q.limitOrigin("o", now.Add(time.Hour))
	if got := q.pause("o", now.Add(time.Minute)); got != 59*time.Minute || q.pause("other", now) != 0 {
		t.Errorf("pause %s", got)
	}
	if q.pause("o", now.Add(time.Hour)) != 0 || len(q.limited) != 0 {
		t.Error("it does not end")
	}
	q.limitOrigin("o", now.Add(time.Hour))
	q.limitOrigin("o", time.Time{})
	if q.pause("o", now) != 0 {
		t.Error("it does not end by hand")
	}
}
