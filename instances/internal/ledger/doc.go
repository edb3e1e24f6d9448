// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps the document of all instances in a repository of an OCI
// registry, under one lock: who holds it leads, and commits.
//
//	l, err := New(Options{Repo: repo, Machine: m, Sealer: keys, Effects: begin})
//	go l.Run(ctx)                   // follows, and leads whenever it can
//	answer, err := l.Do(ctx, command) // returns when the command is committed
//
// # What is promised
//
// What [Ledger.Do] answered with success is in the document of every later leader.
// A command under a key is done once, however often it is sent. Effects begin only
// after the commit that decided them, and those of a leader that died are handed to
// the next one. Any number of replicas may run; no promise depends on there being
// one leader only.
//
// # Why
//
// The document is a state of package statebackend: workspace "ledger", with a lease
// of 30 seconds. Its fencing is the argument: a version that Put acknowledged is seen
// by every later holder, and what an overtaken holder still writes sorts below. So a
// commit is a Put, and nothing else makes anything true.
//
// A leader has the document in memory. A command is stepped by lifecycle.Machine on a
// copy of all that was taken so far, committed or not. What is refused is answered at
// once, for it says nothing about what is kept. What changes something goes into the
// next Put, with all that came while the last one was written; what says success
// without changing anything, as a repeated key does, waits for the commit of what it
// rests on. Any error of Put, an uncertain one too, ends the leader's time: the memory
// is dropped, who waits gets lifecycle.ErrNoLeader, effects are stopped, and the lock is
// ended as one with a write on its way. A command whose answer was lost was committed
// or not; the next leader's document has its key, or has not.
//
// Nothing is answered from memory when the last confirmed beat is as old as the lease,
// by a clock that runs while the machine sleeps: others may lead by then. Others try
// to lead every 8 seconds, which is less than the time between beats: who looks less
// often has not seen that there was none.
//
// # Who does not lead
//
// Nobody where locking is refused, where the registry tells no time, without state
// keys (unless the registry is our own, or [Options].InClear says so), from a ledger
// that the keys do not open, that is empty though instances were made, or that is
// older or another one than this replica has seen, in memory or in its folder.
// [Ledger.Accept] writes into the ledger that it counts all the same. It is asked of
// the registry, not of a server, since no server answers then.
//
// # Where the leader is
//
// Its address is in its claim, under codes over repository, tag and address: one with
// each key of the servers, and one with each of the portals. A reader believes its
// own, so that who broke into a portal names no leader to others. Whoever may write to the registry can write a claim,
// and would else be sent everybody's tokens. A copy of the whole claim names the
// address of a replica, no stranger's.
//
// # Time
//
// Time is the Date of the registry's answers, which all replicas have in common. Where
// it cannot be believed it goes on by the machine's uptime, and expiry is held: a
// wrong clock must not destroy everything. See clock.
//
// # Where nothing can be deleted
//
// A leader keeps 50 versions. Where none can be removed, it goes on in the next
// repository at 5,000: the document becomes a version there, and then the last version
// here names that version and the digest of its bytes. Only what is named counts, so a
// leader that dies in between leaves a version that nobody reads. A tag in the first
// repository hints at the last one; it is followed only where the one before says the
// same.
//
// # Limits
//
//   - Each commit writes the whole document: a ledger of 5,000 records is as large as
//     they get.
//   - Who may write to the registry can hide the newest versions. Who has seen them
//     notices; a replica that starts without its folder does not.
//   - A follower's document is up to two seconds old.
//   - On systems other than Linux uptime is the clock of the wall, so that on the
//     built-in registry a jump is not seen.
//
// # Alternatives considered
//
// A workspace with a lock for each record took 19 requests a claim, and a quota and a
// claim were not one step. An embedded database makes replicas unequal. Checking the
// lease before a Put instead of fencing it fails for a leader that is stopped in
// between. Answering a repeated key at once, from memory, says that something is kept
// which may be lost with the leader.
package ledger
