// SPDX-License-Identifier: Apache-2.0

package protocol

import "testing"

// peopleWorlds are small enough to be explored completely.
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
	forced.forces, forced.older = 1, true
	list["lists, a lock is forced by an older program"] = forced
	copied := forced
	copied.older, copied.patience, copied.servers = false, 0, 1
	list["lists, a lock is forced"] = copied
	same := whole
	same.same = true
	list["lists, two callers with one id"] = same
	refused := whole
	refused.refusals = 1
	list["lists, a claim is refused"] = refused
	alone := torn
	alone.persons, alone.refusals = 1, 1
	list["torn lists, a claim is refused and nobody else asks"] = alone
	return list
}

// TestExploreServers tries every order of events of two clients whose requests reach
// either of two servers.
//
// Shows: servers 7 | every order of events of two clients and two servers; without each rule a
// known order goes wrong; also `make models`
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
