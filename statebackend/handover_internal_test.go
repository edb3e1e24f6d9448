// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"strings"
	"testing"
)

// peopleWorlds are small enough to be explored whole.
func peopleWorlds() map[string]setup {
	whole := setup{persons: 2, servers: 2, cycles: 1, puts: 1, patience: 1, whole: true}
	torn := whole
	torn.whole, torn.chunks = false, true
	backwards := torn
	backwards.descending = true
	old := whole
	old.lists, old.ownWrites, old.causal = listPrefix, true, true
	list := map[string]setup{"lists": whole, "torn lists": torn, "torn lists, read backwards": backwards, "old lists": old}
	for name, s := range map[string]setup{"lists": whole, "old lists": old} {
		s.brief = true
		kept := s
		kept.deletes, kept.puts = deleteNone, 2
		list[name+", no delete, two writes"] = kept
	}
	whole.brief = true
	stops := whole
	stops.crashes = 1
	list["lists, a server stops"] = stops
	leaves := whole
	leaves.giveUps, leaves.patience = 1, 0
	list["lists, a client does not wait"] = leaves
	reads := leaves
	reads.reads, reads.puts = true, 2
	list["lists, a client does not wait and reads"] = reads
	three := backwards
	three.persons, three.servers, three.giveUps, three.patience = 1, 3, 1, 0
	list["torn lists, read backwards, a client does not wait"] = three
	forced := whole
	forced.forces = 1
	list["lists, a lock is forced"] = forced
	refused := whole
	refused.refusals = 1
	list["lists, a claim is refused"] = refused
	alone := torn
	alone.persons, alone.refusals = 1, 1
	list["torn lists, a claim is refused and nobody else asks"] = alone
	return list
}

// TestExploreServers tries every order of events of two clients whose requests reach
// any of two servers.
func TestExploreServers(t *testing.T) {
	for name, s := range peopleWorlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, bad := explore(&s, maxStates)
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

// serverMutant leaves out a rule of the hand-over, and then something else does not
// hold any more. The model servers.pml has the same.
type serverMutant struct {
	rules  rules
	world  setup
	broken string // part of what is said of it
}

func serverMutants() map[string]serverMutant {
	worlds := peopleWorlds()
	read := worlds["lists, a client does not wait"]
	read.reads, read.puts, read.brief = true, 2, false
	three := worlds["lists, a client does not wait"]
	three.servers = 3
	const refused, unknown, above, twice, left = "was refused while it holds", "was acknowledged", "arrived above version", "was written twice", "is left, and nobody has it"
	return map[string]serverMutant{
		"old claim ended first":        {rules{oldClaimFirst: true}, worlds["lists"], refused},
		"no look at older claims":      {rules{noRootCheck: true}, worlds["lists, a lock is forced"], unknown},
		"one list of unlock":           {rules{oneList: true}, three, left},
		"commit before the list":       {rules{commitFirst: true}, worlds["lists, a client does not wait"], left},
		"no seal":                      {rules{noSeal: true}, read, above},
		"first number too low":         {rules{lowFence: true}, worlds["lists, a server stops"], twice},
		"commit on one torn list":      {rules{joinUnconfirmed: true}, worlds["torn lists, read backwards, a client does not wait"], twice},
		"who is told no leaves claims": {rules{leaveSiblings: true}, worlds["lists, a server stops"], left},
	}
}

// TestServerMutants shows that each rule of the hand-over is needed.
func TestServerMutants(t *testing.T) {
	for name, m := range serverMutants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.world.rules = m.rules
			n, bad := explore(&m.world, maxStates)
			bad, _, _ = strings.Cut(bad, "\n")
			t.Logf("after %d states: %s", n, bad)
			if !strings.Contains(bad, m.broken) {
				t.Errorf("no order of events shows that the rule is needed: one %s", m.broken)
			}
		})
	}
}
