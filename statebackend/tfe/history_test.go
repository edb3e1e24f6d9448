// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// step is one thing that a client did, with its answer.
type step struct {
	lock         string // ID of the lock under which, or of the lock that was forced; "": whichever was held
	verb         verb
	outcome      outcome
	began, ended int      // places in the order of all begins and ends
	value        string   // what a write added to the state
	answer       string   // of a refusal
	seen         []string // what a read found in the state
}

type verb string

const (
	didLock   verb = "lock"
	didRead   verb = "read"
	didWrite  verb = "write"
	didUnlock verb = "unlock"
	didForce  verb = "force"
)

type outcome string

const (
	done    outcome = "done"
	refused outcome = "refused"
	unknown outcome = "unknown" // no answer, or one that leaves it open
)

// checkHistory returns what no lock may allow: two holders, a refused holder whom nobody forced, a
// lost acknowledged write, a refused write that was current. Each value is written once, and read
// in the end.
func checkHistory(history []step) (wrong []string) {
	type hold struct {
		lock        string
		began, lost int // lost: by force at the earliest
		until       int
	}
	var holds []hold
	for _, s := range history {
		if s.verb != didLock || s.outcome != done {
			continue
		}
		h := hold{s.lock, s.ended, math.MaxInt, math.MaxInt}
		for _, o := range history {
			switch {
			case o.ended < s.began:
			case o.verb == didForce && (o.lock == h.lock || o.lock == ""):
				h.lost = min(h.lost, o.began)
			case o.lock == h.lock && (o.verb == didUnlock || o.outcome == refused):
				h.until = min(h.until, o.began)
			}
		}
		h.until = min(h.until, h.lost)
		for _, other := range holds {
			if max(h.began, other.began) < min(h.until, other.until) {
				wrong = append(wrong, fmt.Sprintf("%s and %s hold at once", other.lock, h.lock))
			}
		}
		holds = append(holds, h)
	}
	forced := func(s step) bool {
		return slices.ContainsFunc(holds, func(h hold) bool { return h.lock == s.lock && h.lost < s.ended })
	}
	last := len(history) - 1
	for i, s := range history {
		if (s.verb == didWrite || s.verb == didRead) && s.outcome == refused && !forced(s) {
			wrong = append(wrong, fmt.Sprintf("%s of %s was refused while it holds", s.verb, s.lock))
		}
		if s.verb != didRead || s.outcome != done {
			continue
		}
		for _, w := range history {
			if w.verb != didWrite {
				continue
			}
			switch found := slices.Contains(s.seen, w.value); {
			case found && w.outcome == refused:
				wrong = append(wrong, fmt.Sprintf("%s reads %s, which was refused", s.lock, w.value))
			case found, w.outcome != done, w.ended > s.began:
			case i == last:
				wrong = append(wrong, w.value+" is lost")
			case !forced(s): // who is not forced still holds
				wrong = append(wrong, fmt.Sprintf("%s reads a state without %s", s.lock, w.value))
			}
		}
	}
	return wrong
}

// TestCheckHistory plants what checkHistory must find into a history.
func TestCheckHistory(t *testing.T) {
	story := func() []step {
		n := 0
		s := func(lock string, v verb, o outcome, value string, seen ...string) step {
			n += 10
			return step{lock: lock, verb: v, outcome: o, began: n, ended: n + 5, value: value, seen: seen}
		}
		return []step{
			s("a", didLock, done, ""), s("a", didRead, done, ""), s("a", didWrite, done, "1"), s("a", didUnlock, unknown, ""),
			s("b", didLock, done, ""), s("b", didRead, done, "", "1"), s("b", didWrite, unknown, "2"), s("b", didUnlock, done, ""),
			s("c", didLock, done, ""), s("c", didRead, done, "", "1"), s("c", didForce, done, ""), s("c", didWrite, refused, "3"),
			s("d", didLock, done, ""), s("d", didWrite, done, "4"), s("d", didRead, done, "", "1", "4"), s("", didRead, done, "", "1", "4"),
		}
	}
	for want, plant := range map[string]func(h []step){
		"":                     func([]step) {},
		"a and b hold at once": func(h []step) { h[3].began = 60 },
		"c and d hold at once": func(h []step) {
			h[10].lock = "x"
			h[11].outcome = done
			h[15].seen = append(h[15].seen, "3")
			h[14].seen = h[15].seen
		},
		"write of c was refused while it holds": func(h []step) { h[10].lock = "x" },
		"b reads a state without 1":             func(h []step) { h[5].seen = nil },
		"d reads a state without 4":             func(h []step) { h[14].seen = []string{"1"} },
		"1 is lost":                             func(h []step) { h[15].seen = []string{"4"} },
		"d reads 3, which was refused":          func(h []step) { h[14].seen = append(h[14].seen, "3") },
	} {
		h := story()
		plant(h)
		if got := checkHistory(h); want == "" && len(got) > 0 || want != "" && !slices.Equal(got, []string{want}) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
