// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestFairness is the model behind "Locks are not fair" in the limits of this package, and
// prints its figures. Clients ask as the tools do: after 1, 2, 4, 8, 16, 16 … seconds.
func TestFairness(t *testing.T) {
	turn, longest := waits(false)
	t.Logf("who asks first: a turn takes %.1f s, the longest wait is %.0f s", turn.Seconds(), longest.Seconds())
	inOrder, bounded := waits(true)
	t.Logf("in order of arrival: a turn takes %.1f s, the longest wait is %.0f s", inOrder.Seconds(), bounded.Seconds())
	if inOrder < 5*turn || longest < 4*bounded {
		t.Error("the figures in the documentation of the package are no reason any more")
	}
}

// waits lets eight clients share a lock for a second each: time of a turn, longest wait of 15,000.
func waits(inOrder bool) (turn, longest time.Duration) {
	const turns = 15_000
	random := rand.New(rand.NewPCG(1, 2))
	var clients [8]struct{ next, since, pause time.Duration }
	var line []int
	for i := range clients {
		clients[i].next = time.Duration(random.Int64N(int64(time.Second)))
		clients[i].since = clients[i].next
		clients[i].pause = time.Second
		line = append(line, i)
	}
	var free time.Duration
	for n := 0; n < turns; {
		i := 0
		for j := range clients {
			if clients[j].next < clients[i].next {
				i = j
			}
		}
		c := &clients[i]
		if c.next < free || inOrder && line[0] != i {
			c.next += c.pause
			c.pause = min(2*c.pause, 16*time.Second)
			continue
		}
		n++
		longest = max(longest, c.next-c.since)
		free = c.next + time.Second
		c.since = free + time.Duration(random.Int64N(int64(time.Second)))
		c.next = c.since
		c.pause = time.Second
		line = append(line[1:], i)
	}
	return free / turns, longest
}
