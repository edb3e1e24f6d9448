// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"os"
	"testing"

	"github.com/seed-141914ff/okara/internal/mutant"
)

// smallWorlds are worlds in which the effect of a missing rule is found soon.
func smallWorlds() map[string]setup {
	torn := setup{clients: 2, cycles: 1, puts: 1, descending: true, chunks: true}
	taken := torn
	taken.takeOvers, taken.forces, taken.puts = 1, 1, 2
	unsure := torn
	unsure.faults, unsure.cycles = 1, 2
	late := taken
	late.faults = 1
	abandoned := torn
	abandoned.abandonedClaims, abandoned.cycles = 1, 2
	leased := torn
	leased.ticks = 3
	asked := taken
	asked.checks = 1
	old := setup{lists: listPrefix, clients: 2, cycles: 1, puts: 1}
	oldTaken := old
	oldTaken.takeOvers, oldTaken.ownWrites, oldTaken.faults, oldTaken.crashes = 1, true, 1, 1
	leaves := setup{persons: 2, servers: 2, cycles: 1, puts: 1, whole: true, brief: true, giveUps: 1}
	forced := setup{clients: 2, cycles: 1, puts: 2, descending: true, chunks: true, forces: 1}
	reads := leaves
	reads.reads, reads.puts, reads.brief = true, 2, false
	three := leaves
	three.servers = 3
	return map[string]setup{
		"torn": torn, "taken": taken, "unsure": unsure, "late": late, "ghost": abandoned, "leased": leased,
		"asked": asked, "forced": forced, "old": old, "old, taken": oldTaken, "reads": reads, "three servers": three,
	}
}

// rule is a rule that the lock needs, and the test that detects its absence.
type rule struct {
	mutant.Guard
	test string
}

const (
	inSmall   = "TestExploreSmall"
	inServers = "TestExploreServers"
)

// rules returns the rules of the lock. The model servers.pml also has those of the hand-over.
func rules() map[string]rule {
	small := func(file, old, without, world string, and ...mutant.Edit) rule {
		return rule{mutant.Guard{File: file, Old: old, New: without, And: and}, "^" + inSmall + "$/^" + world + "$"}
	}
	reports := func(r rule, says, test, world string) rule {
		r.Says, r.test = says, "^"+test+"$"
		if world != "" {
			r.test += "/^" + world + "$"
		}
		return r
	}
	const refused, unknown, above, twice, left = "was refused while it holds", "was acknowledged", "arrived above version", "was written twice", "is left, and nobody has it"
	const ended = "arrived after its lock was ended by force"
	first := small("acquire.go", "\tcase a.snapshot:", "\tcase true:", "torn")
	first.Always = true
	return map[string]rule{
		"a confirming list":                 first,
		"a seal":                            small("acquire.go", "overtaken := a.last.Floor() > a.last.Newest", "overtaken := false", "late"),
		"a seal, old lists":                 small("acquire.go", "overtaken := a.last.Floor() > a.last.Newest", "overtaken := false", "old,_taken"),
		"a jump over forced claims":         small("snapshot.go", "max(floor, c.Fence+Jump)", "max(floor, c.Fence-c.Fence)", "taken"),
		"a jump, old lists":                 small("snapshot.go", "max(floor, c.Fence+Jump)", "max(floor, c.Fence-c.Fence)", "old,_taken"),
		"a look for rivals":                 small("acquire.go", "len(rivals) > 0 {", "false {", "torn"),
		"the own claim in the list":         small("acquire.go", "case v.Has(a.Claim):", "case true:", "old"),
		"a look after the version":          small("save.go", "Saved{Written: true}\n\t\ts.repeats = 0\n\t\treturn s.listForSave()", "Saved{Written: true}\n\t\ts.repeats = 0\n\t\treturn s.movePointer()", "taken"),
		"a look after, not before":          small("save.go", "Saved{Written: true}\n\t\ts.repeats = 0\n\t\treturn s.listForSave()", "Saved{Written: true}\n\t\ts.repeats = 0\n\t\treturn s.movePointer()", "taken", mutant.Edit{Old: "\t}\n\treturn s.putVersion()\n}\n\nfunc", New: "\t}\n\treturn s.listForSave()\n}\n\nfunc"}, mutant.Edit{Old: "\tcase v.Newest == s.n && v.Has(s.claim):", New: "\tcase v.Newest < s.n:\n\t\treturn s.putVersion()\n\tcase v.Newest == s.n && v.Has(s.claim):"}),
		"its own tombstone ends a put":      small("save.go", "case v.Ended[s.claim] != 0, v.Newest > s.n:", "case v.Newest > s.n:", "taken"),
		"a rival does not end a put":        small("save.go", "v.Newest > s.n:", "v.Newest > s.n, len(v.Live()) > 1:", "torn"),
		"a number is used once":             small("held.go", "\th.Next++\n", "", "taken"),
		"an unsure release leaves a jump":   small("held.go", "return h.Uncertain || h.Lost", "return h.Lost", "unsure"),
		"a takeover writes a tombstone":     small("acquire.go", "Op: OpPutTombstone, Claim: a.doomed[0], Forced: true, Reason: reason}", "Op: OpUntagClaim, Claim: a.doomed[0], Reason: reason}", "taken"),
		"force-unlock writes a tombstone":   small("force.go", "Op: OpPutTombstone, Claim: c, Forced: true, Reason: cmp.Or(f.reason, format.ReasonForced)}", "Op: OpUntagClaim, Claim: c, Reason: cmp.Or(f.reason, format.ReasonForced)}", "taken"),
		"an abandoned claim is ended":       small("acquire.go", "case mine.isOurs(c) && !a.TakeOver:", "case a.Overdue[c] == format.ReasonAbandoned || mine.isOurs(c):", "ghost", mutant.Edit{Old: "\tif rivals := ", New: "\tfor c := range a.Overdue {\n\t\tr.Snapshot = r.Snapshot.withoutClaim(c)\n\t}\n\tif rivals := "}),
		"an abandoned claim leaves a jump":  small("acquire.go", "Forced: true, Reason: reason}", "Forced: reason != format.ReasonAbandoned, Reason: reason}", "ghost", mutant.Edit{Old: "a.last = a.last.withTombstone(a.doomed[0], EndedForced)", New: ""}),
		"a check sees its tombstone":        small("snapshot.go", "v.Ended[c] == 0 && v.Newest <= known", "v.Newest <= known", "asked"),
		"a lease ends by what was seen":     small("observation.go", "> l.TTL+leaseGrace && seen", "> l.TTL+leaseGrace && (seen || true)", "leased"),
		"an old claim stays":                reports(small("join.go", "a.phase = phaseRoot\n\ta.Root = ours[0]\n\treturn Request{Op: OpReadClaim, Claim: a.Root}", "a.Resume, a.doomed = false, ours\n\treturn a.overtakeDoomed()", ""), refused, inServers, "lists"),
		"a look at the older claims":        reports(small("acquire.go", "a.Resume && !list.Alive(a.Root)", "false", ""), unknown, inServers, "lists,_a_lock_is_forced_by_an_older_program"),
		"unlock lists until none is there":  reports(small("force.go", "f.endNext()\n\t}\n\treturn f.listClaims()", "f.endNext()\n\t}\n\treturn f.endForce()", ""), left, inSmall, "three_servers"),
		"a list before the commit":          reports(small("acquire.go", "\tcase r.Status == StatusDone:\n\t\treturn a.listForPhase(phaseCheck)", "\tcase r.Status == StatusDone && a.Resume:\n\t\treturn a.winLock()\n\tcase r.Status == StatusDone:\n\t\treturn a.listForPhase(phaseCheck)", ""), left, inServers, "lists,_a_client_does_not_wait"),
		"a jump where nothing was written":  reports(small("held.go", " || h.shared }", " }", ""), above, inSmall, "reads"),
		"a first number above":              reports(small("contest.go", "first = max(first, c.Fence+skip)", "_ = c", "", mutant.Edit{Old: "return c.Fence+reach > s.own.Fence", New: "return false"}), twice, inServers, "lists,_a_server_stops"),
		"a confirming list of who joins":    reports(small("acquire.go", "\tcase a.snapshot:", "\tcase a.snapshot || a.Resume:", ""), twice, inServers, "torn_lists,_read_backwards,_a_client_does_not_wait"),
		"who forces copies the head":        reports(small("seal.go", "case sealerStart:\n", "case sealerStart:\n\t\tif s.Floor > 0 {\n\t\t\treturn Request{Op: OpDone}\n\t\t}\n", ""), ended, inSmall, "forced"),
		"a claim of another caller":         reports(small("acquire.go", "\tcase r.Foreign:", "\tcase false:", ""), "is told that it holds, and so was", inServers, "lists,_two_callers_with_one_id"),
		"an overtaken copy does not decide": reports(small("snapshot.go", " && !v.isOvertaken(version)", "", ""), "was refused, and is current", "TestLateCopy", ""),
		"a late claim of a forced lock":     reports(small("contest.go", "how == EndedForced && another", "how > EndedForced && another", ""), above, "TestLateRepetition", ""),
		"a copy below who may write":        reports(small("seal.go", "return s.Floor() - 1", "return s.own.Fence", ""), "was acknowledged", "TestLateSeal", ""),
		"the claim that was live":           reports(small("contest.go", "(c == live || c.Fence+Jump > root.Fence)", "c.Fence+Jump > root.Fence", ""), above, "TestLateBesideWithdrawn", ""),
		"a claim that is not written":       reports(small("join.go", "a.unread = r.Err\n\t\treturn a.join()", "return a.startAnew(Acquired{Err: r.Err}, 0)", ""), "want the write stored", "TestAbandonedRoot", ""),
		"who is told no takes claims along": reports(small("join.go", "a.doomed = a.contestIn(a.last).siblingClaims()", "", ""), left, inServers, "lists,_a_server_stops"),
	}
}

// TestExploreSmall explores a part of the worlds in which rules are removed.
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
// events violates a property.
//
// Shows: servers 7
func TestRules(t *testing.T) {
	for name, r := range rules() {
		t.Run(name, func(t *testing.T) { r.Check(t, "-run", r.test, ".") })
	}
}
