// SPDX-License-Identifier: Apache-2.0

// Package ledger stores the document of all instances in a repository of an OCI registry,
// under one lock: its holder is the leader, and commits.
//
//	l, err := New(Options{Repo: repo, Machine: m, Sealer: keys, Effects: begin})
//	go l.Run(ctx)                   // follows, and leads whenever it can
//	answer, err := l.Do(ctx, command) // returns when the command is committed
//
// # Guarantees
//
// If [Ledger.Do] succeeds, its answer is in the document of every later leader. A command
// with a key is carried out once, however often it is sent. Effects begin only after the
// commit that decided them, and those of a leader that died are handed to the next one.
// Any number of replicas may run; no guarantee depends on there being only one leader.
//
// # Design
//
// The document is a state of package statebackend: workspace "ledger", with a lease of 30
// seconds. Its fencing gives the guarantees: a version that Put acknowledged is seen by
// every later holder, and what an overtaken holder still writes sorts below it. So a
// commit is a Put, and nothing else makes a change valid.
//
// A leader has the document in memory. lifecycle.Machine steps each command on a copy
// that includes all accepted commands, committed or not. A refusal is answered at once,
// since nothing is stored for it. Changes go into the next Put, together with all that
// arrived during the last one; a success without a change, such as for a repeated key,
// waits for the commit of the document it is based on. Any error of Put, even an
// uncertain one, ends the leader's term: the memory is dropped, waiting callers get
// lifecycle.ErrNoLeader, effects are stopped, and the lock is released as one with a
// pending write. If its answer was lost, a command was committed or not; the next
// leader's document has its key, or not.
//
// Nothing is answered from memory once the last confirmed heartbeat is as old as the
// lease, by a clock that runs while the machine sleeps: another leader is possible then.
// Other replicas try to lead every 8 seconds, which is less than the time between
// heartbeats: at a lower rate a replica could not conclude that there was no heartbeat.
//
// # When no replica leads
//
// No replica leads if locking is refused, if the registry sends no time, without state
// keys (unless the registry is built in, or [Options].InClear allows it), from a ledger
// that the keys do not open, that is empty although instances were made, or that is older
// than, or different from, the one this replica has seen, in memory or in its folder.
// [Ledger.Accept] writes into the ledger that it is valid all the same. It accesses the
// registry, not a server, since no server answers then.
//
// # The leader's address
//
// The leader's address is in its claim, with MACs over repository, tag and address: one
// for each key of the servers, and one for each key of the portals. A reader trusts only
// those of its keys, so an attacker with a portal's key cannot name a leader to others.
// Without MACs any writer to the registry could write a claim, and would receive all
// users' tokens. A copy of a whole claim still names the address of a replica.
//
// # Time
//
// Time is the Date of the registry's responses, which all replicas share. While it is not
// trusted, time continues by the machine's uptime, and expiry is held: a wrong clock must
// not destroy everything. See clock.
//
// # Registries that cannot delete
//
// A leader keeps 50 versions. If none can be removed, it moves to the next repository at
// 5,000: the document becomes a version there, and then the last version here names that
// version and the digest of its content. Only a named version counts, so a leader that
// dies in between leaves a version that is never read. A tag in the first repository
// hints at the last one; it is followed only if the repository before confirms it.
//
// # Limits
//
//   - Each commit writes the whole document, so a ledger is limited to 5,000 records.
//   - A writer to the registry can hide the newest versions. A replica that has seen
//     them notices; one that starts without its folder does not.
//   - A follower's document is up to two seconds old.
//   - On systems other than Linux uptime is the wall clock, so on the built-in
//     registry a jump is not noticed.
//
// # Rejected alternatives
//
// A workspace with a lock for each record took 19 requests per claim, and checking a
// quota and claiming were not one step. An embedded database gives replicas different
// contents. Checking the lease before a Put instead of fencing it fails for a leader that
// is suspended in between. Answering a repeated key at once from memory could confirm
// what is then lost with the leader.
package ledger
