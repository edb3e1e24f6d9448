// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"os"
	"testing"

	"github.com/seed-141914ff/okara/internal/mutant"
)

// smallWorlds are worlds in which what goes wrong without a rule is found soon.
func smallWorlds() map[string]setup {
	torn := setup{clients: 2, cycles: 1, puts: 1, descending: true, chunks: true}
	taken := torn
	taken.takeOvers, taken.forces, taken.puts = 1, 1, 2
	unsure := torn
	unsure.faults, unsure.cycles = 1, 2
	late := taken
	late.faults = 1
	ghost := torn
	ghost.ghosts, ghost.cycles = 1, 2
	leased := torn
	leased.ticks = 3
	asked := taken
	asked.checks = 1
	old := setup{lists: listPrefix, clients: 2, cycles: 1, puts: 1}
	oldTaken := old
	oldTaken.takeOvers, oldTaken.ownWrites, oldTaken.faults, oldTaken.crashes = 1, true, 1, 1
	leaves := setup{persons: 2, servers: 2, cycles: 1, puts: 1, whole: true, brief: true, giveUps: 1}
	reads := leaves
	reads.reads, reads.puts, reads.brief = true, 2, false
	three := leaves
	three.servers = 3
	return map[string]setup{
		"torn": torn, "taken": taken, "unsure": unsure, "late": late, "ghost": ghost, "leased": leased,
		"asked": asked, "old": old, "old, taken": oldTaken, "reads": reads, "three servers": three,
	}
}

// rule is what the lock does not hold without, and the test that finds it.
type rule struct {
	mutant.Guard
	test string
}

const (
	inSmall   = "TestExploreSmall"
	inServers = "TestExploreServers"
)

// rules are those of the lock. The model servers.pml has those of the hand-over, too.
func rules() map[string]rule {
	small := func(file, old, without, world string, and ...mutant.Edit) rule {
		return rule{mutant.Guard{File: file, Old: old, New: without, And: and}, "^" + inSmall + "$/^" + world + "$"}
	}
	said := func(r rule, says, test, world string) rule {
		r.Says, r.test = says, "^"+test+"$/^"+world+"$"
		return r
	}
	const refused, unknown, above, twice, left = "was refused while it holds", "was acknowledged", "arrived above version", "was written twice", "is left, and nobody has it"
	first := small("acquire.go", "\tcase a.snapshot:", "\tcase true:", "torn")
	first.Always = true
	return map[string]rule{
		"a confirming list":                 first,
		"a seal":                            small("acquire.go", "case a.seen.floor() > a.seen.newest:", "case false:", "late"),
		"a seal, old lists":                 small("acquire.go", "case a.seen.floor() > a.seen.newest:", "case false:", "old,_taken"),
		"a jump over forced claims":         small("view.go", "max(floor, c.fence+jump)", "max(floor, c.fence-c.fence)", "taken"),
		"a jump, old lists":                 small("view.go", "max(floor, c.fence+jump)", "max(floor, c.fence-c.fence)", "old,_taken"),
		"a look for rivals":                 small("acquire.go", "len(rivals) > 0 {", "false {", "torn"),
		"the own claim in the list":         small("acquire.go", "case v.has(a.claim):", "case true:", "old"),
		"a look after the version":          small("save.go", "true}, 0\n\t\treturn s.list()", "true}, 0\n\t\treturn s.point()", "taken"),
		"a look after, not before":          small("save.go", "true}, 0\n\t\treturn s.list()", "true}, 0\n\t\treturn s.point()", "taken", mutant.Edit{Old: "\t}\n\treturn s.write()\n}\n\nfunc", New: "\t}\n\treturn s.list()\n}\n\nfunc"}, mutant.Edit{Old: "\tcase v.newest == s.n && v.has(s.claim):", New: "\tcase v.newest < s.n:\n\t\treturn s.write()\n\tcase v.newest == s.n && v.has(s.claim):"}),
		"its own tombstone ends a put":      small("save.go", "case v.ended[s.claim] != 0, v.newest > s.n:", "case v.newest > s.n:", "taken"),
		"a rival does not end a put":        small("save.go", "v.newest > s.n:", "v.newest > s.n, len(v.live()) > 1:", "torn"),
		"a number is used once":             small("held.go", "\th.next++\n", "", "taken"),
		"an unsure release leaves a jump":   small("held.go", "return h.uncertain || h.lost", "return h.lost", "unsure"),
		"a takeover writes a tombstone":     small("acquire.go", "op: opPutTombstone, claim: a.doomed[0], forced: true, reason: reason}", "op: opUntagClaim, claim: a.doomed[0], reason: reason}", "taken"),
		"force-unlock writes a tombstone":   small("force.go", "op: opPutTombstone, claim: c, forced: true, reason: format.ReasonForced}", "op: opUntagClaim, claim: c}", "taken"),
		"an abandoned claim is ended":       small("acquire.go", "case a.ours(c) && !a.takeOver:", "case a.overdue[c] == format.ReasonGhost || a.ours(c):", "ghost", mutant.Edit{Old: "!a.ours(c) {\n\t\t\trivals", New: "!a.ours(c) && a.overdue[c] == \"\" {\n\t\t\trivals"}),
		"an abandoned claim leaves a jump":  small("acquire.go", "forced: true, reason: reason}", "forced: reason != format.ReasonGhost, reason: reason}", "ghost", mutant.Edit{Old: "a.seen = a.seen.with(a.doomed[0], endedForced)", New: ""}),
		"a check sees its tombstone":        small("check.go", "v.ended[c] == 0 && v.newest <= known", "v.newest <= known", "asked"),
		"a lease ends by what was seen":     small("sighting.go", "> l.TTL+leaseGrace && seen", "> l.TTL+leaseGrace && (seen || true)", "leased"),
		"an old claim stays":                said(small("join.go", "a.phase, a.root = phaseRoot, ours[0]\n\treturn request{op: opReadClaim, claim: a.root}", "a.resume, a.doomed = false, ours\n\treturn a.overtake()", ""), refused, inServers, "lists"),
		"a look at the older claims":        said(small("acquire.go", "a.resume && !r.view.alive(a.root)", "false", ""), unknown, inServers, "lists,_a_lock_is_forced"),
		"unlock lists until none is there":  said(small("force.go", "return f.endNext()\n\t}\n\treturn f.list()", "return f.endNext()\n\t}\n\treturn f.end()", ""), left, inSmall, "three_servers"),
		"a list before the commit":          said(small("acquire.go", "\tcase r.status == statusDone:\n\t\treturn a.list(phaseCheck)", "\tcase r.status == statusDone && a.resume:\n\t\treturn a.win()\n\tcase r.status == statusDone:\n\t\treturn a.list(phaseCheck)", ""), left, inServers, "lists,_a_client_does_not_wait"),
		"a jump where nothing was written":  said(small("held.go", " || h.shared }", " }", ""), above, inSmall, "reads"),
		"a first number above":              said(small("acquire.go", "first = max(first, c.fence+jump)", "_ = c", "", mutant.Edit{Old: "c.fence+jump > a.claim.fence", New: "false"}), twice, inServers, "lists,_a_server_stops"),
		"a confirming list of who joins":    said(small("acquire.go", "\tcase a.snapshot:", "\tcase a.snapshot || a.resume:", ""), twice, inServers, "torn_lists,_read_backwards,_a_client_does_not_wait"),
		"who is told no takes claims along": said(small("join.go", "a.doomed = a.siblings(a.seen)", "", ""), left, inServers, "lists,_a_server_stops"),
	}
}

// TestExploreSmall explores a part of the worlds from which rules are taken.
func TestExploreSmall(t *testing.T) {
	limit := maxStates / 40
	if os.Getenv(mutant.Wanted) != "" {
		limit = maxStates
	}
	for name, s := range smallWorlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, bad := explore(&s, limit)
			t.Logf("%d states", n)
			if bad != "" {
				t.Error(bad)
			}
		})
	}
}

// TestRules shows that each rule of the protocol is needed: without it some order of
// events breaks a property.
func TestRules(t *testing.T) {
	for name, r := range rules() {
		t.Run(name, func(t *testing.T) {
			r.Check(t, "-run", r.test, ".")
		})
	}
}
